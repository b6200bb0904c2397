// The size of the package as npm would publish it.

import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

import { figure, type Row } from './report.ts'

const DIRECTORY = fileURLToPath(new URL('../../typescript', import.meta.url))

/** Returns the row. The package must be built. */
export function measurePackage(): Row {
  const output = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: DIRECTORY })
  const [packed] = JSON.parse(output.toString()) as [{ size: number }]
  return { name: 'size of the packed package', unit: 'kB', ours: figure([packed.size / 1000]), bar: { limit: 100 } }
}
