import { type Api, LONG_TIMEOUT, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import * as changes from './changes.js'
import type { Diff, DiffOptions, DiffStat, MergeOptions, MergeResult } from './changes.js'
import { packDirectory } from './directories.js'
import { filesPath, StoredFiles } from './files.js'
import { type List, list, type PageOptions } from './pages.js'
import { idOf, optionalId, type Ref, Resource, type Schemas, split } from './resource.js'
import type { RequestBody } from './transport.js'

/** The fields of a project. */
export type ProjectData = Schemas['Project']
/** One move of the head of a project. */
export type Step = Schemas['Step']
/** A change of a file in a step. */
export type FileVersion = Schemas['FileVersion']
/** A name of a version of a project. */
export type Tag = Schemas['Tag']
/** The steps that the lines of a file come from. */
export type Blame = Schemas['Blame']
/** The policy of a project, and its version. */
export type ProjectPolicy = Schemas['ProjectPolicy']
/** Result of an import. */
export type ImportResult = Schemas['ImportResult'] & { isClean: boolean }

/** The results of the merge of several workspaces. */
export interface WorkspacesMerged {
    succeeded: { workspace: string; result: MergeResult }[]
    failed: Schemas['Failed'][]
}

export interface Project extends ProjectData {}

/** A shared tree of files with a history. */
export class Project extends Resource<ProjectData> {
    readonly #api: Api

    /** @internal */
    constructor(api: Api, data: ProjectData) {
        super()
        this.#api = api
        this.assign(data)
    }

    /** The files of the head, or with the option `snapshot` of another version. */
    get files(): StoredFiles {
        return new StoredFiles(this.#api, filesPath('projects', this.id))
    }

    /** Reads the fields again. */
    reload(options?: RequestOptions): ApiPromise<this> {
        return this.#api.json({ method: 'GET', path: this.#path(''), options }, (data: ProjectData) =>
            this.assign(data),
        )
    }

    /** Deletes the project. */
    delete(options?: RequestOptions): ApiPromise<void> {
        return this.#api.empty({ method: 'DELETE', path: this.#path(''), options })
    }

    /** Changes the name, the description or the retention. */
    update(params: Schemas['ChangeProject'] & RequestOptions): ApiPromise<this> {
        const { options, body } = split(params)
        const call = { method: 'PATCH', path: this.#path(''), json: body, options } as const
        return this.#api.json(call, (data: ProjectData) => this.assign(data))
    }

    /** Merges changes that do not come from a workspace: files, or a patch. */
    apply(params: Schemas['Apply'] & RequestOptions): ApiPromise<MergeResult> {
        return changes.merge(this.#api, this.#path('/apply'), params as MergeOptions)
    }

    /** Replaces the files of the project, or of a directory in it, by those of a tar archive. */
    import(
        tar: RequestBody,
        options: { path?: string; dryRun?: boolean } & RequestOptions = {},
    ): ApiPromise<ImportResult> {
        const { path, dryRun, ...rest } = options
        const headers = { 'content-type': 'application/x-tar' }
        const call = {
            method: 'PUT',
            path: this.#path('/archive'),
            query: { path, dryRun },
            headers,
            body: tar,
        } as const
        return this.#api.json<Schemas['ImportResult'], ImportResult>(
            { ...call, options: rest, timeout: LONG_TIMEOUT },
            changes.withIsClean,
        )
    }

    /** Replaces the files of the project by those of a directory of this machine. */
    importDirectory(
        directory: string,
        options: { path?: string; dryRun?: boolean } & RequestOptions = {},
    ): ApiPromise<ImportResult> {
        return this.import(() => packDirectory(directory), options)
    }

    /** Merges workspaces one after the other; with `atomic`, all of them or none. */
    merge(workspaces: Ref[], options: MergeOptions = {}): ApiPromise<WorkspacesMerged> {
        const { options: rest, body } = split(options)
        const json = { ...body, workspaces: workspaces.map(idOf) }
        const call = { method: 'POST', path: this.#path('/merge'), json, options: rest, timeout: LONG_TIMEOUT } as const
        return this.#api.json(call, ({ succeeded, failed }: Schemas['WorkspacesMerged']) => ({
            succeeded: succeeded.map(({ workspace, result }) => ({ workspace, result: changes.withIsClean(result) })),
            failed,
        }))
    }

    /** Lists the steps of the history, newest first. */
    steps(options: { until?: number } & PageOptions = {}): List<Step> {
        const { until, limit, cursor, ...rest } = options
        return list(this.#api, { path: this.#path('/steps'), query: { until, limit, cursor }, options: rest })
    }

    /** Returns a step of the history. The field `step` is the number of the newest one. */
    getStep(number: number, options?: RequestOptions): ApiPromise<Step> {
        return this.#api.json({ method: 'GET', path: this.#path(path`/steps/${number}`), options })
    }

    /** Lists the files that a step has changed. */
    changes(step: number, options: { path?: string } & PageOptions = {}): List<FileVersion> {
        const { path: below, limit, cursor, ...rest } = options
        const query = { path: below, limit, cursor }
        return list(this.#api, { path: this.#path(path`/steps/${step}/changes`), query, options: rest })
    }

    /** Compares two versions, or counts the changed lines between them. */
    diff(options: DiffOptions & { to?: Ref; stat: true }): ApiPromise<DiffStat>
    diff(options?: DiffOptions & { to?: Ref; stat?: false }): ApiPromise<Diff>
    diff(options: DiffOptions & { to?: Ref } = {}): ApiPromise<Diff | DiffStat> {
        return changes.diff(this.#api, this.#path('/diff'), options)
    }

    /** Compares two versions, as a patch. */
    patch(options: { from?: Ref; to?: Ref } & RequestOptions = {}): ApiPromise<string> {
        return changes.patch(this.#api, this.#path('/diff'), options)
    }

    /** Lists the changes of a path, newest first. */
    history(path: string, options: PageOptions = {}): List<FileVersion> {
        const { limit, cursor, ...rest } = options
        return list(this.#api, { path: this.#path('/history'), query: { path, limit, cursor }, options: rest })
    }

    /** Returns the steps that the lines of a file come from. */
    blame(path: string, options: { snapshot?: Ref } & RequestOptions = {}): ApiPromise<Blame> {
        const { snapshot, ...rest } = options
        const query = { path, snapshot: optionalId(snapshot) }
        return this.#api.json({ method: 'GET', path: this.#path('/blame'), query, options: rest })
    }

    /** Undoes a step. */
    revert(params: Omit<Schemas['Revert'], 'snapshot'> & { snapshot: Ref } & RequestOptions): ApiPromise<MergeResult> {
        return changes.merge(
            this.#api,
            this.#path('/revert'),
            params as MergeOptions,
            changes.restoreBody(params.snapshot),
        )
    }

    /** Brings a path back to an earlier version. */
    restore(
        params: Omit<Schemas['RestorePath'], 'snapshot'> & { snapshot: Ref } & RequestOptions,
    ): ApiPromise<MergeResult> {
        return changes.merge(
            this.#api,
            this.#path('/restore'),
            params as MergeOptions,
            changes.restoreBody(params.snapshot),
        )
    }

    /** Lists the tags. */
    tags(options: PageOptions = {}): List<Tag> {
        const { limit, cursor, ...rest } = options
        return list(this.#api, { path: this.#path('/tags'), query: { limit, cursor }, options: rest })
    }

    /** Names a version; the head by default. */
    tag(
        name: string,
        params: { snapshot?: Ref; message?: string; move?: boolean } & RequestOptions = {},
    ): ApiPromise<Tag> {
        const { options, body } = split(params)
        const json = { ...body, name, snapshot: optionalId(body.snapshot) }
        return this.#api.json({ method: 'POST', path: this.#path('/tags'), json, options })
    }

    /** Deletes a tag. */
    deleteTag(name: string, options?: RequestOptions): ApiPromise<void> {
        return this.#api.empty({ method: 'DELETE', path: this.#path(path`/tags/${name}`), options })
    }

    /** Returns the policy. */
    policy(options?: RequestOptions): ApiPromise<ProjectPolicy> {
        return this.#api.json({ method: 'GET', path: this.#path('/policy'), options })
    }

    /** Replaces the policy; with `expectedVersion`, only if it has this version. */
    setPolicy(
        policy: Schemas['Policy'],
        options: { expectedVersion?: number } & RequestOptions = {},
    ): ApiPromise<ProjectPolicy> {
        const { expectedVersion, ...rest } = options
        return this.#api.json({
            method: 'PUT',
            path: this.#path('/policy'),
            json: { policy, expectedVersion },
            options: rest,
        })
    }

    #path(rest: string): string {
        return path`/projects/${this.id}` + rest
    }
}

/** The projects of the tenant. */
export class ProjectService {
    readonly #api: Api

    /** @internal */
    constructor(api: Api) {
        this.#api = api
    }

    /** Creates a project. */
    create(params: Schemas['CreateProject'] & RequestOptions): ApiPromise<Project> {
        const { options, body } = split(params)
        const call = { method: 'POST', path: '/projects', json: body, options } as const
        return this.#api.json(call, (data: ProjectData) => new Project(this.#api, data))
    }

    /** Returns a project, by its id or name. */
    get(id: string, options?: RequestOptions): ApiPromise<Project> {
        const call = { method: 'GET', path: path`/projects/${id}`, options } as const
        return this.#api.json(call, (data: ProjectData) => new Project(this.#api, data))
    }

    /** Lists projects. */
    list(options: PageOptions = {}): List<Project> {
        const { limit, cursor, ...rest } = options
        const call = { path: '/projects', query: { limit, cursor }, options: rest }
        return list(this.#api, call, (data: ProjectData) => new Project(this.#api, data))
    }

    /** Deletes a project. */
    delete(id: string, options?: RequestOptions): ApiPromise<void> {
        return this.#api.empty({ method: 'DELETE', path: path`/projects/${id}`, options })
    }
}
