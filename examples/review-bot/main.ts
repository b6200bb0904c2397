// Decides open reviews by a rule, as they open. `--follow PROJECT` decides those of your project
// until you stop it; without arguments, the bot works on a project with three conflicts.
import { WorkspaceClient, type Project, type Review } from '@elevo/workspace-sdk'

const client = new WorkspaceClient()

// The rule: takes the content that the server merged, the newer version of a document, or nothing.
// Replace it with your own rule, or with a question to a model.
async function decide(review: Review) {
  if (review.suggestion === 'merged') {
    return review.resolve('suggested', { message: review.reason })
  }
  if (review.path.endsWith('.md')) {
    return review.resolve('workspace', { message: 'the newer text wins in documents' })
  }
  return review.resolve('nothing', { message: 'code needs a person: refresh, resolve the conflict, and merge again' })
}

// Decides the open reviews of a project; with `follow`, also those that open later.
async function run(project: Project, follow: boolean) {
  // Cursor 0 begins with the oldest event that the server keeps, so reviews that opened before the bot count.
  // The stream continues after a lost connection, and reports events that were deleted as a gap. An event or
  // a gap means that there may be work, and the list has the work.
  for await (const _ of client.events.stream({ project: project.id, kinds: ['review.opened'], cursor: '0' })) {
    for await (const review of client.reviews.list({ project: project.id, state: 'open' })) {
      const decided = await decide(review)
      console.log(`${decided.path}: ${decided.kind}; took ${decided.take}, "${decided.decisionMessage}"`)
    }
    if (!follow) return
  }
}

// Creates three conflicts: both workspaces change the log, and one removes two files that the other edits.
async function conflicts(project: Project) {
  const files = { CHANGES: 'Changes:\n', 'docs/setup.md': 'Run setup.\n', 'src/setup.sh': 'echo setup\n' }
  await project.apply({ files: Object.entries(files).map(([path, content]) => ({ path, content })) })
  const first = await client.workspaces.create({ project: project.id, name: 'first' })
  const second = await client.workspaces.create({ project: project.id, name: 'second' })

  await first.files.write('CHANGES', 'Changes:\n- no setup\n')
  await first.files.delete('docs/setup.md')
  await first.files.delete('src/setup.sh')
  await first.merge({ message: 'remove the setup' })

  await second.files.write('CHANGES', 'Changes:\n- a faster setup\n')
  await second.files.write('docs/setup.md', 'Run setup. It is fast.\n')
  await second.files.write('src/setup.sh', 'echo fast setup\n')
  await second.merge({ message: 'a faster setup' })
}

const [option, name] = process.argv.slice(2)
if (option === '--follow' && name) {
  await run(await client.projects.get(name), true)
} else {
  const project = await client.projects.create({ name: `review-bot-${Date.now()}` })
  try {
    await conflicts(project)
    await run(project, false)
    console.log((await project.files.read('CHANGES')).trim())
  } finally {
    await project.delete()
  }
}
