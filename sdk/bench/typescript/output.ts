// The command whose output is streamed.

import type { Sandbox } from '../../typescript/dist/index.mjs'

/** Number of times that the command prints its file. */
const PARTS = 16

/** Writes the file that the command prints repeatedly, which costs little next to the transfer. */
export async function prepare(box: Sandbox, size: number): Promise<void> {
  const line = 'the quick brown fox jumps over the lazy dog'
  const made = await box.process.run(`yes ${line} | head -c ${size / PARTS} > part`)
  made.check()
}

/** Returns a command that prints `size` bytes, at most as many as `prepare` was given. */
export function printing(size: number): string {
  return `for n in $(seq ${PARTS}); do head -c ${size / PARTS} part; done`
}
