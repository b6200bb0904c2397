import { type Api, CREATE_TIMEOUT, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import { type List, list, type Page, type PageOptions } from './pages.js'
import { idOf, type Ref, type Schemas, split } from './resource.js'
import {
    type DeleteOptions,
    type Logs,
    type LogsOptions,
    Sandbox,
    type SandboxData,
    type SandboxStats,
    type UpdateSandboxParams,
} from './sandbox.js'

/** The project of a new sandbox. */
export type ProjectSource = Schemas['ProjectSource']

/** Parameters of a new sandbox. At most one of `project`, `existing`, `fork`, `directory` sets its files. */
export interface CreateSandboxParams extends Omit<Schemas['CreateSandbox'], 'workspace'>, RequestOptions {
    /** A project, whose files the sandbox gets, and into which it merges. */
    project?: Ref | ProjectSource
    /** With `project`: the agent that works in the sandbox. */
    agent?: string
    /** A snapshot to start from; with `project`, a version of it. */
    snapshot?: Ref
    /** With `project`: whether the workspace is read-only. */
    readOnly?: boolean
    /** With `project`: how the workspace is synchronised. */
    sync?: Schemas['Sync']
    /** A workspace that no sandbox uses. */
    existing?: Ref
    /** A sandbox whose current files the new one gets. */
    fork?: Ref
    /** A directory on the machine of the server. */
    directory?: string
}

/** Options of `list`. */
export interface ListSandboxesOptions extends PageOptions {
    /** Only sandboxes in this state. */
    state?: Schemas['SandboxState']
    /** Only sandboxes whose name begins with this text. */
    namePrefix?: string
    /** Only sandboxes with these pairs. */
    metadata?: Record<string, string>
    /** Number of the page, in place of `cursor`. */
    page?: number
}

/** A page of sandboxes. */
export interface SandboxPage extends Page<Sandbox> {
    /** Number of all sandboxes that match. */
    total: number
    /** Number of the page. */
    page: number
    /** Maximum number of items of a page. */
    limit: number
}

/** Results of `batchDelete`. */
export type BatchDeleteResponse = Schemas['BatchDeleted']

/** The sandboxes of the tenant. */
export class SandboxService {
    readonly #api: Api

    /** @internal */
    constructor(api: Api) {
        this.#api = api
    }

    /** Creates a sandbox. Resolves when commands can run in it. */
    create(params: CreateSandboxParams): ApiPromise<Sandbox> {
        const { options, body } = split(params)
        const { project, agent, snapshot, readOnly, sync, existing, fork, directory, ...rest } = body
        const workspace = source({ project, agent, snapshot, readOnly, sync, existing, fork, directory })
        const call = { method: 'POST', path: '/sandboxes', json: { ...rest, workspace }, options } as const
        return this.#api.json({ ...call, timeout: CREATE_TIMEOUT }, (data: SandboxData) => new Sandbox(this.#api, data))
    }

    /** Returns a sandbox, by its id or name. */
    get(id: string, options?: RequestOptions): ApiPromise<Sandbox> {
        const call = { method: 'GET', path: path`/sandboxes/${id}`, options } as const
        return this.#api.json(call, (data: SandboxData) => new Sandbox(this.#api, data))
    }

    /** Lists sandboxes. */
    list(options: ListSandboxesOptions = {}): List<Sandbox, SandboxPage> {
        const { state, namePrefix, metadata, limit, cursor, page, ...rest } = options
        const pairs = metadata && Object.entries(metadata).map(([name, value]) => `${name}:${value}`)
        const query = { state, name_prefix: namePrefix, metadata: pairs, limit, cursor, page }
        return list(
            this.#api,
            { path: '/sandboxes', query, options: rest },
            (data: SandboxData) => new Sandbox(this.#api, data),
        )
    }

    /** Deletes a sandbox. */
    delete(id: string, options?: DeleteOptions): ApiPromise<void> {
        return this.#of(id).delete(options)
    }

    /** Deletes sandboxes. Resolves with the result of each. */
    batchDelete(ids: Ref[], options: DeleteOptions = {}): ApiPromise<BatchDeleteResponse> {
        const { keepWorkspace, ...rest } = options
        const json = { ids: ids.map(idOf), keepWorkspace }
        return this.#api.json({
            method: 'POST',
            path: '/sandboxes/batch-delete',
            json,
            options: rest,
            timeout: CREATE_TIMEOUT,
        })
    }

    /** Returns the log of a sandbox. */
    logs(id: string, options?: LogsOptions): ApiPromise<Logs> {
        return this.#of(id).logs(options)
    }

    /** Returns the resources that a sandbox uses. */
    stats(id: string, options?: RequestOptions): ApiPromise<SandboxStats> {
        return this.#of(id).stats(options)
    }

    /** Moves the expiry of a sandbox by some seconds. */
    extend(id: string, seconds: number, options?: RequestOptions): ApiPromise<Sandbox> {
        return this.#of(id).extend(seconds, options)
    }

    /** Changes the name, the metadata or the expiry of a sandbox. */
    update(id: string, params: UpdateSandboxParams): ApiPromise<Sandbox> {
        return this.#of(id).update(params)
    }

    /** Starts a stopped sandbox. */
    start(id: string, options?: RequestOptions): ApiPromise<Sandbox> {
        return this.#of(id).start(options)
    }

    /** Stops a sandbox. Its files stay. */
    stop(id: string, options?: RequestOptions): ApiPromise<Sandbox> {
        return this.#of(id).stop(options)
    }

    /** Returns a sandbox of which only the id is known, to call its methods. */
    #of(id: string): Sandbox {
        return new Sandbox(this.#api, { id } as SandboxData)
    }
}

type SourceParams = Pick<
    CreateSandboxParams,
    'project' | 'agent' | 'snapshot' | 'readOnly' | 'sync' | 'existing' | 'fork' | 'directory'
>

/** Returns the source of the files of a new sandbox. */
function source(params: SourceParams): Schemas['WorkspaceSource'] | undefined {
    const { project, agent, snapshot, readOnly, sync, existing, fork, directory } = params
    const given = [project ?? snapshot, existing, fork, directory].filter((one) => one !== undefined)
    if (given.length > 1) {
        throw new TypeError('set only one of `project`, `snapshot`, `existing`, `fork` and `directory`')
    }
    if (project !== undefined) {
        const own = typeof project === 'string' || 'id' in project ? { name: idOf(project as Ref) } : project
        const more = { agent, snapshot: snapshot && idOf(snapshot), readOnly, sync }
        return { project: { ...defined(more), ...own } }
    }
    if (agent !== undefined || readOnly !== undefined || sync !== undefined) {
        throw new TypeError('`agent`, `readOnly` and `sync` need `project`')
    }
    if (snapshot !== undefined) return { snapshot: idOf(snapshot) }
    if (existing !== undefined) return { existing: idOf(existing) }
    if (fork !== undefined) return { fork: idOf(fork) }
    return directory === undefined ? undefined : { directory }
}

function defined<T extends object>(fields: T): Partial<T> {
    return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>
}
