import { type Api, CREATE_TIMEOUT, LONG_TIMEOUT, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import * as changes from './changes.js'
import type { Diff, DiffOptions, DiffStat, MergeOptions, MergeResult, Refreshed } from './changes.js'
import { Files, filesPath } from './files.js'
import { type List, list, type PageOptions } from './pages.js'
import { idOf, optionalId, type Ref, Resource, type Schemas, split } from './resource.js'
import type { Snapshot } from './snapshots.js'

/** The fields of a workspace. */
export type WorkspaceData = Schemas['Workspace']

/** Parameters of a new workspace. */
export type CreateWorkspaceParams = Omit<Schemas['CreateWorkspace'], 'project' | 'snapshot'> & {
    /** Id or name of the project. */
    project: Ref
    /** The version of the project to start from; the head by default. */
    snapshot?: Ref
} & RequestOptions

export interface Workspace extends WorkspaceData {}

/** A writable copy of a project for one agent. */
export class Workspace extends Resource<WorkspaceData> {
    readonly #api: Api

    /** @internal */
    constructor(api: Api, data: WorkspaceData) {
        super()
        this.#api = api
        this.assign(data)
    }

    /** The files of the workspace. */
    get files(): Files {
        return new Files(this.#api, filesPath('workspaces', this.id))
    }

    /** Reads the fields again. */
    reload(options?: RequestOptions): ApiPromise<this> {
        return this.#call('GET', '', { options })
    }

    /** Deletes the workspace. */
    delete(options?: RequestOptions): ApiPromise<void> {
        return this.#api.empty({ method: 'DELETE', path: this.#path(''), options })
    }

    /** Takes a snapshot of the files. */
    snapshot(options: { message?: string; name?: string } & RequestOptions = {}): ApiPromise<Snapshot> {
        return changes.snapshot(this.#api, this.#path('/snapshot'), options)
    }

    /** Returns the changes of the files, or the numbers of changed lines. */
    diff(options: DiffOptions & { stat: true }): ApiPromise<DiffStat>
    diff(options?: DiffOptions & { stat?: false }): ApiPromise<Diff>
    diff(options: DiffOptions = {}): ApiPromise<Diff | DiffStat> {
        return changes.diff(this.#api, this.#path('/diff'), options)
    }

    /** Returns the changes of the files as a patch. */
    patch(options: { from?: Ref } & RequestOptions = {}): ApiPromise<string> {
        return changes.patch(this.#api, this.#path('/diff'), options)
    }

    /** Creates workspaces with the current files of this one. */
    fork(
        params: Schemas['ForkWorkspace'] & RequestOptions = {},
    ): ApiPromise<{ succeeded: Workspace[]; failed: Schemas['Failed'][] }> {
        const { options, body } = split(params)
        const call = {
            method: 'POST',
            path: this.#path('/fork'),
            json: body,
            options,
            timeout: CREATE_TIMEOUT,
        } as const
        return this.#api.json(call, ({ succeeded, failed }: Schemas['WorkspacesForked']) => ({
            succeeded: succeeded.map((data) => new Workspace(this.#api, data)),
            failed,
        }))
    }

    /** Replaces the files by those of a snapshot. */
    restore(snapshot: Ref, options?: RequestOptions): ApiPromise<this> {
        return this.#call('POST', '/restore', { json: changes.restoreBody(snapshot), options, timeout: LONG_TIMEOUT })
    }

    /** Merges the changes into the project. */
    merge(options: MergeOptions = {}): ApiPromise<MergeResult> {
        return changes.merge(this.#api, this.#path('/merge'), options)
    }

    /** Merges the changes into the project, and deletes the workspace. */
    complete(options: MergeOptions = {}): ApiPromise<MergeResult> {
        return changes.merge(this.#api, this.#path('/complete'), options)
    }

    /** Brings the newer head of the project into the workspace. */
    refresh(options: { dryRun?: boolean } & RequestOptions = {}): ApiPromise<Refreshed> {
        return changes.refresh(this.#api, this.id, options)
    }

    /** Stores the files, and removes the directory. */
    park(options?: RequestOptions): ApiPromise<this> {
        return this.#call('POST', '/park', { options, timeout: LONG_TIMEOUT })
    }

    /** Creates the directory of a parked workspace again. */
    resume(options?: RequestOptions): ApiPromise<this> {
        return this.#call('POST', '/resume', { options, timeout: LONG_TIMEOUT })
    }

    #path(rest: string): string {
        return path`/workspaces/${this.id}` + rest
    }

    #call(
        method: 'GET' | 'POST',
        rest: string,
        more: { json?: unknown; options?: RequestOptions; timeout?: number },
    ): ApiPromise<this> {
        return this.#api.json({ method, path: this.#path(rest), ...more }, (data: WorkspaceData) => this.assign(data))
    }
}

/** The workspaces of the tenant. */
export class WorkspaceService {
    readonly #api: Api

    /** @internal */
    constructor(api: Api) {
        this.#api = api
    }

    /** Creates a workspace on a project, as a directory on the machine of the server. */
    create(params: CreateWorkspaceParams): ApiPromise<Workspace> {
        const { options, body } = split(params)
        const json = { ...body, project: idOf(body.project), snapshot: optionalId(body.snapshot) }
        const call = { method: 'POST', path: '/workspaces', json, options, timeout: CREATE_TIMEOUT } as const
        return this.#api.json(call, (data: WorkspaceData) => new Workspace(this.#api, data))
    }

    /** Returns a workspace, by its id or name. */
    get(id: string, options?: RequestOptions): ApiPromise<Workspace> {
        const call = { method: 'GET', path: path`/workspaces/${id}`, options } as const
        return this.#api.json(call, (data: WorkspaceData) => new Workspace(this.#api, data))
    }

    /** Lists workspaces. */
    list(options: { project?: Ref; state?: Schemas['WorkspaceState'] } & PageOptions = {}): List<Workspace> {
        const { project, state, limit, cursor, ...rest } = options
        const query = { project: optionalId(project), state, limit, cursor }
        return list(
            this.#api,
            { path: '/workspaces', query, options: rest },
            (data: WorkspaceData) => new Workspace(this.#api, data),
        )
    }

    /** Deletes a workspace. */
    delete(id: string, options?: RequestOptions): ApiPromise<void> {
        return this.#api.empty({ method: 'DELETE', path: path`/workspaces/${id}`, options })
    }
}
