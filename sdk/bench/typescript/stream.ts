// Throughput and memory of `runStream`, next to a bare read of the same stream.

import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

import type { WorkspaceClient } from '../../typescript/dist/index.mjs'
import { prepare } from './output.ts'
import { type Bar, figure, type Figure, type Row } from './report.ts'

/** Time and growth of memory (MiB) of one stream. */
export interface Reading {
  seconds: number
  growth: number
}

/** The readings of a child. During the first, the heap grows to the size that it keeps. */
export interface Readings {
  first: Reading
  second: Reading
}

const ROUNDS = 3
const CHILD = fileURLToPath(new URL('./stream-child.ts', import.meta.url))

/** Returns the rows for a stream of `size` bytes. */
export async function measureStream(client: WorkspaceClient, size: number): Promise<Row[]> {
  await using box = await client.sandbox.create({ template: 'base', resources: { memory: '512m', disk: '512m' } })
  await prepare(box, size)
  const ours: Readings[] = []
  const peer: Readings[] = []
  for (let round = 0; round < ROUNDS; round++) {
    ours.push(child('sdk', box.id, size))
    peer.push(child('bare', box.id, size))
  }
  const rate = (all: Readings[]): Figure => figure(all.map(({ second }) => size / 1e6 / second.seconds))
  const growth = (all: Readings[], part: keyof Readings): Figure => figure(all.map((one) => one[part].growth))
  const name = `${size / 2 ** 20} MiB by runStream`
  const row = (part: keyof Readings, bar: Bar): Row => ({
    name: `${name}, the ${part} time: growth of memory`,
    unit: 'MiB',
    ours: growth(ours, part),
    peer: growth(peer, part),
    bar,
  })
  return [
    { name, unit: 'MB/s', ours: rate(ours), peer: rate(peer), bar: { limit: 100, atLeast: true } },
    row('first', { limit: 32, overPeer: true }),
    row('second', { limit: 32 }),
  ]
}

function child(variant: string, sandbox: string, size: number): Readings {
  const output = execFileSync(process.execPath, [...process.execArgv, CHILD, variant, sandbox, String(size)])
  return JSON.parse(output.toString()) as Readings
}
