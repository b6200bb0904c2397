// The resident memory of this process, as Linux counts it.

import { readFileSync, writeFileSync } from 'node:fs'

/** Resets the high-water mark to the present level. Returns the level in MiB. */
export function forgetPeak(): number {
  // The kernel's code for "reset the peak resident set size".
  writeFileSync('/proc/self/clear_refs', '5')
  return field('VmRSS')
}

/** Returns the high-water mark since `forgetPeak`, in MiB. */
export function peak(): number {
  return field('VmHWM')
}

function field(name: string): number {
  const found = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync('/proc/self/status', 'utf8'))
  if (!found) throw new Error(`/proc/self/status has no line ${name}; the benchmark needs Linux`)
  return Number(found[1]) / 1024
}
