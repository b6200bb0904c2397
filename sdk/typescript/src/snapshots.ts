import { type Api, LONG_TIMEOUT, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import { type Diff, type DiffStat, diff, patch } from './changes.js'
import { filesPath, StoredFiles } from './files.js'
import { type List, list, type PageOptions } from './pages.js'
import { type Ref, Resource, type Schemas } from './resource.js'
import type { RequestBody } from './transport.js'

/** A snapshot that was just taken. */
export type SnapshotTaken = Schemas['SnapshotTaken']

/** The fields of a snapshot. A snapshot that was just taken has `isNew` and `notKept`, and not all others. */
export type SnapshotData = Pick<Schemas['Snapshot'], 'id' | 'tree'> &
    Partial<Schemas['Snapshot']> &
    Partial<SnapshotTaken>

export interface Snapshot extends SnapshotData {}

/** One immutable state of the files of a workspace. */
export class Snapshot extends Resource<SnapshotData> {
    readonly #api: Api

    /** @internal */
    constructor(api: Api, data: SnapshotData) {
        super()
        this.#api = api
        this.assign(data)
    }

    /** The files of the snapshot. */
    get files(): StoredFiles {
        return new StoredFiles(this.#api, filesPath('snapshots', this.id))
    }

    /** Changes the name; `null` removes it. A snapshot with a name is kept. */
    rename(name: string | null, options?: RequestOptions): ApiPromise<this> {
        const call = { method: 'PATCH', path: path`/snapshots/${this.id}`, json: { name }, options } as const
        return this.#api.json(call, (data: SnapshotData) => this.assign(data))
    }
}

/** The snapshots of the tenant. */
export class SnapshotService {
    readonly #api: Api

    /** @internal */
    constructor(api: Api) {
        this.#api = api
    }

    /** Lists snapshots, newest first. */
    list(options: { workspace?: string; namePrefix?: string } & PageOptions = {}): List<Snapshot> {
        const { workspace, namePrefix, limit, cursor, ...rest } = options
        const query = { workspace, name_prefix: namePrefix, limit, cursor }
        return list(
            this.#api,
            { path: '/snapshots', query, options: rest },
            (data: SnapshotData) => new Snapshot(this.#api, data),
        )
    }

    /** Returns a snapshot, by its id or name. */
    get(id: string, options?: RequestOptions): ApiPromise<Snapshot> {
        const call = { method: 'GET', path: path`/snapshots/${id}`, options } as const
        return this.#api.json(call, (data: SnapshotData) => new Snapshot(this.#api, data))
    }

    /** Creates a snapshot from a tar archive. */
    import(tar: RequestBody, options?: RequestOptions): ApiPromise<Snapshot> {
        const headers = { 'content-type': 'application/x-tar' }
        const call = { method: 'POST', path: '/snapshots', headers, body: tar, options, timeout: LONG_TIMEOUT } as const
        return this.#api.json(call, (taken: SnapshotTaken) => new Snapshot(this.#api, taken))
    }

    /** Compares two snapshots. */
    diff(from: Ref, to: Ref, options: { stat: true; limit?: number } & RequestOptions): ApiPromise<DiffStat>
    diff(from: Ref, to: Ref, options?: { stat?: false; limit?: number } & RequestOptions): ApiPromise<Diff>
    diff(
        from: Ref,
        to: Ref,
        options: { stat?: boolean; limit?: number } & RequestOptions = {},
    ): ApiPromise<Diff | DiffStat> {
        return diff(this.#api, '/snapshots/diff', { ...options, from, to })
    }

    /** Compares two snapshots, as a patch. */
    patch(from: Ref, to: Ref, options: RequestOptions = {}): ApiPromise<string> {
        return patch(this.#api, '/snapshots/diff', { ...options, from, to })
    }
}
