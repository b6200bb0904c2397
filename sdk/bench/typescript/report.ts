// Rows of measurements: figures, bars, the table and the JSON of a run.

import { writeFileSync } from 'node:fs'

/** The median of some samples, with their tenth and ninetieth percentile. */
export interface Figure {
  median: number
  low: number
  high: number
}

/** A limit of a row, for the median or for its excess over the peer's. */
export interface Bar {
  limit: number
  atLeast?: boolean
  overPeer?: boolean
}

/** One measure: our figure, the figure of a peer, and the bar. */
export interface Row {
  name: string
  unit: string
  ours: Figure
  peer?: Figure
  bar?: Bar
}

/** Returns the figure of at least one sample. */
export function figure(samples: number[]): Figure {
  const ordered = [...samples].sort((a, b) => a - b)
  const at = (share: number): number => ordered[Math.round((ordered.length - 1) * share)] as number
  return { median: at(0.5), low: at(0.1), high: at(0.9) }
}

/** Returns whether the row meets its bar; `null` if it has no bar. */
export function held(row: Row): boolean | null {
  if (!row.bar) return null
  if (row.bar.overPeer && !row.peer) throw new Error(`the bar of "${row.name}" needs a peer`)
  const value = row.ours.median - (row.bar.overPeer ? (row.peer as Figure).median : 0)
  return row.bar.atLeast ? value >= row.bar.limit : value <= row.bar.limit
}

/** Prints the table and writes the JSON file. Returns 1 if a bar was missed, else 0. */
export function finish(rows: Row[], jsonFile: string | undefined): number {
  console.log(table(rows))
  if (jsonFile !== undefined) writeFileSync(jsonFile, JSON.stringify(rows.map(asJson), null, 2) + '\n')
  const bars = rows.filter((row) => row.bar)
  const missed = bars.filter((row) => !held(row)).map((row) => row.name)
  const suffix = missed.length > 0 ? `; missed: ${missed.join(', ')}` : ''
  console.log(`\n${bars.length - missed.length} of ${bars.length} bars held${suffix}`)
  return missed.length > 0 ? 1 : 0
}

function table(rows: Row[]): string {
  const head = ['measure', 'ours', 'peer', 'bar', 'held']
  const lines = [head, head.map(() => '---'), ...rows.map(cells)]
  return lines.map((line) => `| ${line.join(' | ')} |`).join('\n')
}

function cells(row: Row): string[] {
  const verdict = held(row)
  return [
    row.name,
    `${figureText(row.ours)} ${row.unit}`,
    row.peer ? `${figureText(row.peer)} ${row.unit}` : '',
    barText(row),
    verdict === null ? '' : verdict ? 'yes' : '**no**',
  ]
}

function asJson(row: Row): object {
  return { ...row, peer: row.peer ?? null, bar: barText(row) || null, held: held(row) }
}

function barText(row: Row): string {
  if (!row.bar) return ''
  const suffix = row.bar.overPeer ? ' over the peer' : ''
  return `${row.bar.atLeast ? 'at least' : 'at most'} ${numberText(row.bar.limit)} ${row.unit}${suffix}`
}

function figureText(value: Figure): string {
  const median = numberText(value.median)
  return value.low === value.high ? median : `${median} (${numberText(value.low)}–${numberText(value.high)})`
}

/** Returns a number with three significant digits, and integers as they are. */
function numberText(value: number): string {
  if (Number.isInteger(value)) return String(value)
  const size = Math.abs(value)
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3)
}
