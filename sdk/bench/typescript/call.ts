// The time of one call of the SDK, next to a bare `fetch` of the same route.

import type { WorkspaceClient } from '../../typescript/dist/index.mjs'
import { bareFetch } from './bare.ts'
import { figure, type Row } from './report.ts'

/** The first calls open connections and are not yet compiled. */
const WARM_UP = 50

/** Returns the row for this number of calls. */
export async function measureCall(client: WorkspaceClient, calls: number): Promise<Row> {
  await using box = await client.sandbox.create({ template: 'base' })
  const ours: number[] = []
  const peer: number[] = []
  for (let call = 0; call < WARM_UP + calls; call++) {
    const began = performance.now()
    await client.sandbox.get(box.id)
    const between = performance.now()
    await (await bareFetch(`/api/v1/sandboxes/${box.id}`)).json()
    ours.push(between - began)
    peer.push(performance.now() - between)
  }
  return {
    name: 'sandbox.get, over a GET by fetch',
    unit: 'ms',
    ours: figure(ours.slice(WARM_UP)),
    peer: figure(peer.slice(WARM_UP)),
    bar: { limit: 1, overPeer: true },
  }
}
