// Creates a sandbox, runs a command, writes a file, and shows the changes since a snapshot.
import { WorkspaceClient } from '@elevo/workspace-sdk'

// Uses ELEVO_SERVER and ELEVO_API_KEY, or the server that `elevo up` started.
const client = new WorkspaceClient()

// `await using` deletes the sandbox at the end, also after an error.
await using box = await client.sandbox.create({ template: process.env.ELEVO_TEMPLATE ?? 'base' })
console.log(`${box.id} is ${box.state}`)

// An exit code other than 0 is a result, not an error.
const run = await box.process.run('echo hello; exit 3')
console.log(`exit code ${run.exitCode}, output: ${run.stdout.trim()}`)

await box.files.write('notes/plan.txt', 'write a test\n')
console.log(`plan: ${(await box.files.read('notes/plan.txt')).trim()}`)

const before = await box.snapshot({ message: 'the plan' })

// `check` throws an error unless the exit code is 0.
;(await box.process.run('echo fix the bug >> notes/plan.txt; echo done > report.txt')).check()

const { changes } = await box.diff({ from: before })
for (const change of changes) console.log(`${change.kind}: ${change.path}`)

await box.restore(before)
console.log(`after the restore: ${(await box.files.read('notes/plan.txt')).trim()}`)
