// Three agents work on one project in parallel and merge. Two of them change the same line.
import { NameTakenError, WorkspaceClient, type Project, type Sandbox } from '@elevo/workspace-sdk'

const page = '# Site\n\nWelcome.\n\nContact: soon\n'
const work = {
  ada: `sed -i 's/Welcome./Welcome to our site./' page.md`,
  bob: `sed -i 's/Welcome./Hello and welcome./' page.md; echo '# Questions' > faq.md`,
  cleo: `sed -i 's/soon/team@example.com/' page.md`,
}

const client = new WorkspaceClient()

// Creates a key for the agent, and with it the agent's own copy of the project.
async function join(agent: string, project: Project) {
  try {
    await client.agents.create({ name: agent })
  } catch (error) {
    // The agent may exist since an earlier run.
    if (!(error instanceof NameTakenError)) throw error
  }
  const key = await client.keys.create({ name: `example: ${agent}`, agent, expiresInSeconds: 600 })
  if (!key.secret) throw new Error('the response with the secret was lost; create another key')
  const own = new WorkspaceClient({ apiKey: key.secret })
  const box = await own.sandbox.create({ template: process.env.ELEVO_TEMPLATE ?? 'base', project: project.id })
  return { box, key: key.id }
}

// Merges the work of an agent into the project, and shows the result.
async function merge(agent: string, box: Sandbox) {
  const { landed, conflicts } = await box.merge({ message: `the work of ${agent}` })
  const paths = (files: { path: string }[]) => files.map((file) => file.path).join(', ') || 'nothing'
  console.log(`${agent}: landed ${paths(landed)}; in conflict ${paths(conflicts)}`)
}

// Shows the changes that wait for a decision.
async function showReviews(project: Project) {
  for await (const review of client.reviews.list({ project: project.id, state: 'open' })) {
    console.log(`open review of ${review.path}, from the merge "${review.message}"`)
    for (const hunk of review.hunks) {
      console.log(`  the project has: ${(hunk.project ?? '').trim()}`)
      console.log(`  the agent has:   ${(hunk.workspace ?? '').trim()}`)
    }
  }
}

const project = await client.projects.create({ name: `agents-${Date.now()}` })
const team: { agent: string; command: string; box: Sandbox; key: string }[] = []
try {
  await project.apply({ files: [{ path: 'page.md', content: page }], merge: { message: 'a page' } })
  for (const [agent, command] of Object.entries(work)) {
    team.push({ agent, command, ...(await join(agent, project)) })
  }
  await Promise.all(team.map(async ({ box, command }) => (await box.process.run(command)).check()))

  // Merges may run in parallel, too. One after the other, the output is the same in each run.
  for (const { agent, box } of team) await merge(agent, box)
  await showReviews(project)
  console.log(`the project's page:\n${(await project.files.read('page.md')).trim()}`)
} finally {
  for (const { box, key } of team) {
    await box.delete()
    await client.keys.delete(key)
  }
  await project.delete()
}
