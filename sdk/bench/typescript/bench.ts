// Benchmarks of the TypeScript SDK; sdk/bench/README.md has the command.
//
// Exits with 0 if all bars were held, and with 1 if not.

import { parseArgs } from 'node:util'

import { WorkspaceClient } from '../../typescript/dist/index.mjs'
import { measureCall } from './call.ts'
import { measurePackage } from './package.ts'
import { finish, type Row } from './report.ts'
import { measureSandboxes } from './sandboxes.ts'
import { measureStream } from './stream.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    size: { type: 'string', default: '1024' },
    calls: { type: 'string', default: '1000' },
    sandboxes: { type: 'string', default: '1000' },
    json: { type: 'string' },
  },
})

const client = new WorkspaceClient()
const measures: Record<string, () => Promise<Row[]>> = {
  package: async () => [measurePackage()],
  call: async () => [await measureCall(client, Number(values.calls))],
  stream: () => measureStream(client, Number(values.size) * 2 ** 20),
  sandboxes: () => measureSandboxes(client, Number(values.sandboxes)),
}

const rows: Row[] = []
for (const name of values.only ?? Object.keys(measures)) {
  const measure = measures[name]
  if (!measure) throw new Error(`"${name}" is not a measure; the measures are ${Object.keys(measures).join(', ')}`)
  rows.push(...(await measure()))
}
await client.close()
process.exitCode = finish(rows, values.json)
