// Forks a sandbox n times, tries another change in each fork, and merges the best one.
import { WorkspaceClient, type Sandbox } from '@elevo/workspace-sdk'

const n = 4
const tests = `
failed=0
check() {
  if [ "$(sh slug.sh "$1")" = "$2" ]; then echo "ok $1"; else echo "not ok $1"; failed=1; fi
}
check 'Hello' 'hello'
check 'Hello World' 'hello-world'
check 'Two  spaces' 'two-spaces'
check "It's here!" 'its-here'
exit $failed
`

// A stand-in for a model: returns the content of slug.sh for one attempt.
// Replace it with a call to your model, with the output of the tests in the prompt.
function propose(index: number): string {
  const attempts = [
    `echo "$1" | tr A-Z a-z`,
    `echo "$1" | tr A-Z a-z | tr ' ' -`,
    `echo "$1" | tr A-Z a-z | tr -d '[:punct:]' | tr -s ' ' -`,
    `echo "$1" | tr A-Z a-z | tr -s ' ' -`,
  ]
  return `${attempts[index % attempts.length]}\n`
}

// Makes one attempt in its own fork. Returns how many tests pass.
async function attempt(box: Sandbox, index: number) {
  await box.files.write('slug.sh', propose(index))
  const { stdout } = await box.process.run('sh test.sh')
  const passed = stdout.split('\n').filter((line) => line.startsWith('ok ')).length
  return { box, index, passed }
}

const client = new WorkspaceClient()
const project = await client.projects.create({ name: `best-of-n-${Date.now()}` })
try {
  const files = [{ path: 'slug.sh', content: 'echo "$1"\n' }, { path: 'test.sh', content: tests }]
  await project.apply({ files, merge: { message: 'a failing test' } })

  // The sandbox has a workspace on the project, and so have its forks.
  const template = process.env.ELEVO_TEMPLATE ?? 'base'
  await using box = await client.sandbox.create({ template, project: project.id })
  console.log(`before: exit code ${(await box.process.run('sh test.sh')).exitCode}`)

  const { succeeded: forks, failed } = await box.fork({ count: n })
  for (const { error } of failed) console.error(`a fork failed: ${error.message}`)
  try {
    const results = await Promise.all(forks.map(attempt))
    for (const { index, passed } of results) console.log(`attempt ${index}: ${passed} of 4 tests pass`)

    const best = results.reduce((a, b) => (b.passed > a.passed ? b : a))
    const { landed } = await best.box.merge({ message: `attempt ${best.index}` })
    console.log(`attempt ${best.index} landed: ${landed.map((file) => file.path).join(', ')}`)
  } finally {
    await client.sandbox.batchDelete(forks.map((fork) => fork.id))
  }
  console.log(`the project's slug.sh: ${(await project.files.read('slug.sh')).trim()}`)
} finally {
  await project.delete()
}
