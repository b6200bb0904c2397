import { type Api, CREATE_TIMEOUT, LONG_TIMEOUT, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import * as changes from './changes.js'
import type { Diff, DiffOptions, DiffStat, MergeOptions, MergeResult, Refreshed } from './changes.js'
import { NotFoundError } from './errors.js'
import { Files, filesPath } from './files.js'
import { PortService } from './ports.js'
import { ProcessService } from './process.js'
import { PTYService } from './pty.js'
import { type Ref, Resource, type Schemas, split } from './resource.js'
import type { Snapshot } from './snapshots.js'

/** The fields of a sandbox. */
export type SandboxData = Schemas['Sandbox']
/** The resources that a sandbox uses. */
export type SandboxStats = Schemas['SandboxStats']
/** The log of a sandbox. */
export type Logs = Schemas['Logs']
/** Changes of a sandbox. A metadata value of `null` removes the pair. */
export type UpdateSandboxParams = Schemas['ChangeSandbox'] & RequestOptions
/** Options of `fork`. */
export type ForkOptions = Schemas['Fork'] & RequestOptions

/** The results of a fork, one by one. */
export interface Forked {
    succeeded: Sandbox[]
    failed: Schemas['Failed'][]
}

/** Options of `logs`. */
export interface LogsOptions extends RequestOptions {
    /** Maximum number of lines. */
    tail?: number
    /** Only lines since this time. */
    since?: Date | string
    /** Only lines until this time. */
    until?: Date | string
}

/** Options of `delete`. */
export interface DeleteOptions extends RequestOptions {
    /** Whether the workspace is parked, not deleted. */
    keepWorkspace?: boolean
}

export interface Sandbox extends SandboxData {}

/** A container with a workspace at `/workspace`. */
export class Sandbox extends Resource<SandboxData> implements AsyncDisposable {
    readonly #api: Api

    /** @internal */
    constructor(api: Api, data: SandboxData) {
        super()
        this.#api = api
        this.assign(data)
    }

    /** The commands of the sandbox. */
    get process(): ProcessService {
        return new ProcessService(this.#api, this.id)
    }

    /** The terminals of the sandbox. */
    get pty(): PTYService {
        return new PTYService(this.#api, this.id)
    }

    /** The files of the sandbox. */
    get files(): Files {
        return new Files(this.#api, filesPath('sandboxes', this.id))
    }

    /** The ports of the sandbox. */
    get ports(): PortService {
        return new PortService(this.#api, this.id)
    }

    /** Reads the fields again. */
    reload(options?: RequestOptions): ApiPromise<this> {
        return this.#call('GET', '', { options })
    }

    /** Deletes the sandbox. */
    delete(options: DeleteOptions = {}): ApiPromise<void> {
        const { keepWorkspace, ...rest } = options
        const query = { keep_workspace: keepWorkspace }
        return this.#api.empty({ method: 'DELETE', path: this.#path(''), query, options: rest })
    }

    /** Moves the expiry by some seconds. */
    extend(seconds: number, options?: RequestOptions): ApiPromise<this> {
        return this.#call('POST', '/extend', { json: { seconds }, options })
    }

    /** Changes the name, the metadata or the expiry. */
    update(params: UpdateSandboxParams): ApiPromise<this> {
        const { options, body } = split(params)
        return this.#call('PATCH', '', { json: body, options })
    }

    /** Starts a stopped sandbox. */
    start(options?: RequestOptions): ApiPromise<this> {
        return this.#call('POST', '/start', { options, timeout: CREATE_TIMEOUT })
    }

    /** Stops the sandbox. Its files stay. */
    stop(options?: RequestOptions): ApiPromise<this> {
        return this.#call('POST', '/stop', { options, timeout: CREATE_TIMEOUT })
    }

    /** Returns the resources that the sandbox uses. */
    stats(options?: RequestOptions): ApiPromise<SandboxStats> {
        return this.#api.json({ method: 'GET', path: this.#path('/stats'), options })
    }

    /** Returns the log of the sandbox. */
    logs(options: LogsOptions = {}): ApiPromise<Logs> {
        const { tail, since, until, ...rest } = options
        const query = { tail, since: timeText(since), until: timeText(until) }
        return this.#api.json({ method: 'GET', path: this.#path('/logs'), query, options: rest })
    }

    /** Creates sandboxes with the current files of this one. */
    fork(params: ForkOptions = {}): ApiPromise<Forked> {
        const { options, body } = split(params)
        const call = {
            method: 'POST',
            path: this.#path('/fork'),
            json: body,
            options,
            timeout: CREATE_TIMEOUT,
        } as const
        return this.#api.json(call, ({ succeeded, failed }: Schemas['Forked']) => ({
            succeeded: succeeded.map((data) => new Sandbox(this.#api, data)),
            failed,
        }))
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

    /** Replaces the files by those of a snapshot. */
    restore(snapshot: Ref, options?: RequestOptions): ApiPromise<this> {
        return this.#call('POST', '/restore', { json: changes.restoreBody(snapshot), options, timeout: LONG_TIMEOUT })
    }

    /** Merges the changes into the project. */
    merge(options: MergeOptions = {}): ApiPromise<MergeResult> {
        return changes.merge(this.#api, path`/workspaces/${this.workspace}/merge`, options)
    }

    /** Merges the changes into the project, and deletes the workspace. */
    complete(options: MergeOptions = {}): ApiPromise<MergeResult> {
        return changes.merge(this.#api, path`/workspaces/${this.workspace}/complete`, options)
    }

    /** Brings the newer head of the project into the workspace. */
    refreshWorkspace(options: { dryRun?: boolean } & RequestOptions = {}): ApiPromise<Refreshed> {
        return changes.refresh(this.#api, this.workspace, options)
    }

    /**
     * Deletes the sandbox, unless it is gone already. If the block of `await using` fails and the delete too, the
     * error is a `SuppressedError`, which has both.
     */
    async [Symbol.asyncDispose](): Promise<void> {
        const call = { method: 'DELETE', path: this.#path(''), isCleanup: true } as const
        await this.#api.finish(this.#api.empty(call).then()).catch((error) => {
            if (!(error instanceof NotFoundError)) throw error
        })
    }

    #path(rest: string): string {
        return path`/sandboxes/${this.id}` + rest
    }

    #call(
        method: 'GET' | 'POST' | 'PATCH',
        rest: string,
        more: { json?: unknown; options?: RequestOptions; timeout?: number },
    ): ApiPromise<this> {
        return this.#api.json({ method, path: this.#path(rest), ...more }, (data: SandboxData) => this.assign(data))
    }
}

function timeText(time: Date | string | undefined): string | undefined {
    return time instanceof Date ? time.toISOString() : time
}
