// Reads the output of a command, in a separate process, and prints figures as JSON.
//
// A new process for each reading keeps the memory of one variant out of the figures of another.

import { WorkspaceClient } from '../../typescript/dist/index.mjs'
import { bareFetch } from './bare.ts'
import { forgetPeak, peak } from './memory.ts'
import { printing } from './output.ts'
import type { Reading, Readings } from './stream.ts'

type Read = (command: string) => Promise<number>

/** Returns a function that reads with the SDK, and counts the bytes of the output. */
async function withSdk(sandbox: string): Promise<Read> {
  const box = await new WorkspaceClient().sandbox.get(sandbox)
  return async (command) => {
    let count = 0
    for await (const event of box.process.runStream(command, { timeout: 0 })) {
      if (event.type === 'stdout') count += event.data.length
    }
    return count
  }
}

/** Returns a function that reads with `fetch`, and counts all bytes without parsing them. */
function withFetch(sandbox: string): Read {
  return async (command) => {
    const response = await bareFetch(`/api/v1/sandboxes/${sandbox}/process/run`, { command, stream: true, timeout: 0 })
    let count = 0
    for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) count += piece.length
    return count
  }
}

async function reading(read: Read, size: number, exact: boolean): Promise<Reading> {
  const level = forgetPeak()
  const began = performance.now()
  const count = await read(printing(size))
  const seconds = (performance.now() - began) / 1000
  // The bare variant counts the bytes of the protocol as well.
  if (count < size || (exact && count !== size)) throw new Error(`${count} of ${size} bytes were received`)
  return { seconds, growth: peak() - level }
}

const [variant, sandbox, size] = process.argv.slice(2) as [string, string, string]
const isSdk = variant === 'sdk'
const read = isSdk ? await withSdk(sandbox) : withFetch(sandbox)
await reading(read, 1024, isSdk)
const first = await reading(read, Number(size), isSdk)
const second = await reading(read, Number(size), isSdk)
console.log(JSON.stringify({ first, second } satisfies Readings))
