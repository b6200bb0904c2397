// Sandboxes created and deleted in a row: nothing that the client opened may remain.

import { readdirSync, readlinkSync } from 'node:fs'

import { withSandbox, type WorkspaceClient } from '../../typescript/dist/index.mjs'
import { figure, type Row } from './report.ts'

/** Returns a row for the time, and one for each kind of thing that could remain. */
export async function measureSandboxes(client: WorkspaceClient, count: number): Promise<Row[]> {
  await createAndDelete(client)
  const before = await settled(client)
  const began = performance.now()
  for (let round = 0; round < count; round++) await createAndDelete(client)
  const seconds = (performance.now() - began) / 1000
  const after = await settled(client)
  const name = `${count} sandboxes created and deleted in a row`
  const rows: Row[] = [{ name, unit: 's', ours: figure([seconds]) }]
  for (const [kind, number] of Object.entries(before)) {
    rows.push({
      name: `${kind} after ${count} sandboxes in a row, and before`,
      unit: kind,
      ours: figure([after[kind] as number]),
      peer: figure([number]),
      bar: { limit: 0, overPeer: true },
    })
  }
  return rows
}

async function createAndDelete(client: WorkspaceClient): Promise<void> {
  await withSandbox(client, { template: 'base' }, async () => {})
}

/** Counts what is open after one more request, which leaves the pool in a defined state. */
async function settled(client: WorkspaceClient): Promise<Record<string, number>> {
  await client.info()
  return {
    descriptors: targets().length,
    sockets: targets().filter((target) => target.startsWith('socket:')).length,
    handles: process.getActiveResourcesInfo().length,
  }
}

/** Returns what the descriptors of this process point to. */
function targets(): string[] {
  return readdirSync('/proc/self/fd').flatMap((name) => {
    try {
      return [readlinkSync(`/proc/self/fd/${name}`)]
    } catch {
      // The descriptor of the listing itself, which is closed by now.
      return []
    }
  })
}
