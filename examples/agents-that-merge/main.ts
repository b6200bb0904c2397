// Three agents work on one project in parallel and merge. Two of them change the same line.
import { NameTakenError, WorkspaceClient } from '@elevo/workspace-sdk'

const page = '# Site\n\nWelcome.\n\nContact: soon\n'
const work = {
  ada: `sed -i 's/Welcome./Welcome to our site./' page.md`,
  bob: `sed -i 's/Welcome./Hello and welcome./' page.md; echo '# Questions' > faq.md`,
  cleo: `sed -i 's/soon/team@example.com/' page.md`,
}

const client = new WorkspaceClient()
const project = await client.projects.create({ name: `agents-${Date.now()}` })
const keys: string[] = []

// Returns a client that acts for the agent: it sees only the sandboxes of the agent.
async function clientOf(agent: string): Promise<WorkspaceClient> {
  try {
    await client.agents.create({ name: agent })
  } catch (error) {
    // The agent exists since an earlier run.
    if (!(error instanceof NameTakenError)) throw error
  }
  const key = await client.keys.create({ name: `${agent}, ${project.name}`, agent, expiresInSeconds: 600 })
  keys.push(key.id)
  return new WorkspaceClient({ apiKey: key.secret })
}

// Creates the agent's own copy of the project, and changes it.
async function change([agent, command]: [string, string]) {
  const own = await clientOf(agent)
  const template = process.env.ELEVO_TEMPLATE ?? 'base'
  const box = await own.sandbox.create({ template, project: project.id, metadata: { example: project.id } })
  ;(await box.process.run(command)).check()
  return { agent, box }
}

try {
  await project.apply({ files: [{ path: 'page.md', content: page }], merge: { message: 'a page' } })
  const changed = await Promise.all(Object.entries(work).map(change))

  // Merges may run in parallel, too. One after the other, the output is the same in each run.
  for (const { agent, box } of changed) {
    const { landed, conflicts } = await box.merge({ message: `the work of ${agent}` })
    const paths = (files: { path: string }[]) => files.map((file) => file.path).join(', ') || 'nothing'
    console.log(`${agent}: landed ${paths(landed)}; in conflict ${paths(conflicts)}`)
  }

  for await (const review of client.reviews.list({ project: project.id, state: 'open' })) {
    console.log(`open review of ${review.path}, because of "${review.message}"`)
    for (const hunk of review.hunks) {
      console.log(`  the project has: ${hunk.project?.trim()}`)
      console.log(`  the agent has:   ${hunk.workspace?.trim()}`)
    }
  }
  console.log(`the project's page:\n${await project.files.read('page.md')}`)
} finally {
  for await (const box of client.sandbox.list({ metadata: { example: project.id } })) await box.delete()
  for (const key of keys) await client.keys.delete(key)
  await project.delete()
}
