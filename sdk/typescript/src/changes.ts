// Snapshots, diffs and merges, which sandboxes and workspaces have in common.

import { type Api, LONG_TIMEOUT, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import { idOf, optionalId, type Ref, type Schemas, split } from './resource.js'
import { Snapshot, type SnapshotTaken } from './snapshots.js'

/** The changes between two states. */
export type Diff = Schemas['Diff']
/** The numbers of changed lines between two states. */
export type DiffStat = Schemas['DiffStat']
/** Result of a merge. `isClean` is true if all changes have landed. */
export type MergeResult = Schemas['MergeResult'] & { isClean: boolean }
/** Options of a merge. */
export type MergeOptions = Schemas['Merge'] & RequestOptions
/** Result of a refresh. */
export type Refreshed = Schemas['Refreshed']

/** Options of `diff`. */
export interface DiffOptions extends RequestOptions {
    /** A snapshot, or `last` for the last one; the start of the workspace by default. */
    from?: Ref
    /** Whether to count the changed lines instead. */
    stat?: boolean
    /** Maximum number of changes. */
    limit?: number
}

/** Returns a diff of a route as JSON, or its numbers. */
export function diff(api: Api, path: string, options: DiffOptions & { to?: Ref }): ApiPromise<Diff | DiffStat> {
    const { from, to, stat, limit, ...rest } = options
    const query = { from: optionalId(from), to: optionalId(to), format: stat ? 'stat' : undefined, limit }
    return api.json({ method: 'GET', path, query, options: rest, timeout: LONG_TIMEOUT })
}

/** Returns a diff of a route as a patch. */
export function patch(api: Api, path: string, options: { from?: Ref; to?: Ref } & RequestOptions): ApiPromise<string> {
    const { from, to, ...rest } = options
    const query = { from: optionalId(from), to: optionalId(to), format: 'patch' }
    return api.text({ method: 'GET', path, query, options: rest, timeout: LONG_TIMEOUT })
}

/** Takes a snapshot by a route. */
export function snapshot(
    api: Api,
    path: string,
    options: { message?: string; name?: string } & RequestOptions,
): ApiPromise<Snapshot> {
    const { options: rest, body } = split(options)
    const convert = (taken: SnapshotTaken) => new Snapshot(api, { ...body, ...taken })
    return api.json({ method: 'POST', path, json: body, options: rest, timeout: LONG_TIMEOUT }, convert)
}

/** Merges by a route. */
export function merge(api: Api, path: string, options: MergeOptions, more: object = {}): ApiPromise<MergeResult> {
    const { options: rest, body } = split(options)
    const json = { ...body, ...more }
    return api.json<Schemas['MergeResult'], MergeResult>(
        { method: 'POST', path, json, options: rest, timeout: LONG_TIMEOUT },
        withIsClean,
    )
}

/** Adds `isClean` to the result of a merge. */
export function withIsClean<T extends Schemas['MergeResult']>(result: T): T & { isClean: boolean } {
    return { ...result, isClean: result.conflictCount === 0 && result.refusedCount === 0 }
}

/** Brings the head of the project into a workspace. */
export function refresh(
    api: Api,
    workspace: string,
    options: { dryRun?: boolean } & RequestOptions,
): ApiPromise<Refreshed> {
    const { options: rest, body } = split(options)
    const call = { method: 'POST', path: path`/workspaces/${workspace}/refresh`, json: body } as const
    return api.json({ ...call, options: rest, timeout: LONG_TIMEOUT })
}

/** Returns the body of a restore. */
export function restoreBody(snapshot: Ref): { snapshot: string } {
    return { snapshot: idOf(snapshot) }
}
