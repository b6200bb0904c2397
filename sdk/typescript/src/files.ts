import { type Api, LONG_TIMEOUT, path as encode, type Query, type RequestOptions } from './api.js'
import { ApiPromise } from './api-promise.js'
import { packDirectory, unpackDirectory } from './directories.js'
import { WorkspaceError } from './errors.js'
import { follow, openStream } from './follow.js'
import { IsADirectoryError, NotAFileError, PathNotFoundError } from './generated/errors.js'
import { List, list, type Page } from './pages.js'
import type { Schemas } from './resource.js'
import type { RequestBody } from './transport.js'

/** A file, a directory or a link. */
export type FileInfo = Schemas['FileInfo']

/** An event of a watch. */
export type WatchEvent = Schemas['WatchEvent']

/** Options of methods that read. */
export interface ReadOptions extends RequestOptions {
    /** Of a project: a snapshot or a tag; the head by default. */
    snapshot?: string
}

/** A part of a file. */
export interface RangeOptions extends ReadOptions {
    /** First byte; 0 by default. */
    offset?: number
    /** Number of bytes; up to the end by default. */
    length?: number
}

/** Options of `list`. */
export interface ListFilesOptions extends ReadOptions {
    /** Whether the files of all directories below are listed too. */
    recursive?: boolean
    /** Maximum number of entries of a page. */
    limit?: number
    /** `next` of the previous page. */
    cursor?: string
}

/** Options of `write`. */
export interface WriteOptions extends RequestOptions {
    /** Permission bits in octal, such as `0600`. */
    mode?: string
    /** `etag` that the file must have. */
    ifMatch?: string
    /** `*` if the file must not exist. */
    ifNoneMatch?: string
    /** Whether missing directories are created; true by default. */
    parents?: boolean
    /** Whether the file is on the disk before the response. */
    sync?: boolean
}

/** The files of a project or of a snapshot. */
export class StoredFiles {
    protected readonly api: Api
    protected readonly base: string

    /** @internal */
    constructor(api: Api, base: string) {
        this.api = api
        this.base = base
    }

    /** Returns a file as text. */
    read(path: string, options: ReadOptions = {}): ApiPromise<string> {
        return this.api.text(this.file('GET', path, options))
    }

    /** Returns a file, or a part of it, as bytes. */
    readBytes(path: string, options: RangeOptions = {}): ApiPromise<Uint8Array> {
        const { offset = 0, length } = options
        if (length === 0) {
            const headers = new Headers()
            return new ApiPromise(
                Promise.resolve({ data: new Uint8Array(0), status: 200, headers, requestId: undefined, attempts: 0 }),
            )
        }
        const isPart = offset > 0 || length !== undefined
        const last = length === undefined ? '' : offset + length - 1
        const headers = { range: isPart ? `bytes=${offset}-${last}` : undefined }
        return this.api.bytes({ ...this.file('GET', path, options), headers })
    }

    /** Returns a file as a stream. */
    async readStream(path: string, options: ReadOptions = {}): Promise<ReadableStream<Uint8Array>> {
        return this.api.stream(this.file('GET', path, options))
    }

    /** Lists a directory. */
    list(path = '', options: ListFilesOptions = {}): List<FileInfo> {
        const { snapshot, limit, cursor, recursive, ...rest } = options
        const query = { path: path || undefined, snapshot, limit, cursor }
        const directory = list<FileInfo>(this.api, { path: `${this.base}/files/list`, query, options: rest })
        if (!recursive) return directory
        const below = (entry: FileInfo) => this.list(entry.path, { ...options, cursor: undefined })
        return new RecursiveList(directory, below)
    }

    /** Returns the facts about a file or directory. A link is followed. */
    async stat(path: string, options: ReadOptions = {}): Promise<FileInfo> {
        try {
            const head = await this.api.empty(this.file('HEAD', path, options)).withResponse()
            return infoOf(path, head.headers)
        } catch (error) {
            // The response to HEAD has no error.
            if (!(error instanceof WorkspaceError) || error.status < 400) throw error
        }
        try {
            // The same error with its reason. If the file exists by now, its first byte suffices.
            const first = await this.readBytes(path, { ...options, length: 1 }).withResponse()
            return infoOf(path, first.headers)
        } catch (error) {
            if (!(error instanceof IsADirectoryError || error instanceof NotAFileError)) throw error
            return this.#find(path, error, options)
        }
    }

    /** Finds an entry that is not a regular file in its directory. */
    async #find(path: string, missing: WorkspaceError, options: ReadOptions): Promise<FileInfo> {
        const parts = path.split('/').filter((part) => part !== '' && part !== '.')
        const name = parts.pop()
        const isRoot = name === undefined || path.replace(/\/+$/, '') === '/workspace'
        if (isRoot) return { path, name: '', kind: 'directory', mode: '0755' }
        const parent = (path.startsWith('/') ? '/' : '') + parts.join('/')
        for await (const entry of this.list(parent, { ...options, limit: 1000 })) {
            if (entry.name === name) return entry
        }
        throw missing
    }

    /** Returns whether a file or directory exists. */
    async exists(path: string, options: ReadOptions = {}): Promise<boolean> {
        try {
            await this.stat(path, options)
            return true
        } catch (error) {
            if (error instanceof PathNotFoundError) return false
            throw error
        }
    }

    /** Writes a directory, or a single file, of the server below a directory of this machine. */
    async download(path: string, directory: string, options: ReadOptions = {}): Promise<void> {
        const archive = await this.downloadArchive({ ...options, path })
        await unpackDirectory(chunks(archive), directory)
    }

    /** Returns a directory, or a single file, as a tar archive. */
    async downloadArchive(options: ReadOptions & { path?: string } = {}): Promise<ReadableStream<Uint8Array>> {
        const { path, snapshot, ...rest } = options
        const query = { path: path || undefined, snapshot }
        const call = {
            method: 'GET',
            path: `${this.base}/archive`,
            query,
            options: rest,
            timeout: LONG_TIMEOUT,
        } as const
        return this.api.stream(call)
    }

    protected file(method: 'GET' | 'HEAD', path: string, options: ReadOptions) {
        const { signal, snapshot } = options
        return { method, path: `${this.base}/files`, query: { path, snapshot }, options: { signal } } as const
    }
}

/** The files of a sandbox or a workspace. */
export class Files extends StoredFiles {
    /** Writes a file. The new content replaces the file in one step. */
    write(path: string, data: string | Uint8Array | Blob, options: WriteOptions = {}): ApiPromise<FileInfo> {
        const { mode, parents, sync, ifMatch, ifNoneMatch, ...rest } = options
        const headers = {
            'content-type': 'application/octet-stream',
            'if-match': ifMatch,
            'if-none-match': ifNoneMatch,
        }
        const query = { path, mode, parents, sync }
        return this.api.json({ method: 'PUT', path: `${this.base}/files`, query, headers, body: data, options: rest })
    }

    /** Creates a directory. */
    mkdir(path: string, options: { mode?: string; parents?: boolean } & RequestOptions = {}): ApiPromise<FileInfo> {
        const { mode, parents, ...rest } = options
        return this.api.json({
            method: 'POST',
            path: `${this.base}/files/mkdir`,
            json: { path, mode, parents },
            options: rest,
        })
    }

    /** Moves a file or a directory. */
    move(from: string, to: string, options: { overwrite?: boolean } & RequestOptions = {}): ApiPromise<FileInfo> {
        const { overwrite, ...rest } = options
        return this.api.json({
            method: 'POST',
            path: `${this.base}/files/move`,
            json: { from, to, overwrite },
            options: rest,
        })
    }

    /** Deletes a file, a link or a directory. */
    delete(path: string, options: { recursive?: boolean; ifMatch?: string } & RequestOptions = {}): ApiPromise<void> {
        const { recursive, ifMatch, ...rest } = options
        const headers = { 'if-match': ifMatch }
        return this.api.empty({
            method: 'DELETE',
            path: `${this.base}/files`,
            query: { path, recursive },
            headers,
            options: rest,
        })
    }

    /**
     * Returns an event for each change below a directory. The first event is `watching`: list the files after it,
     * and again after each later `watching`, which follows a lost connection, and after `gap`.
     */
    watch(path = '', options: RequestOptions = {}): AsyncGenerator<WatchEvent, void, undefined> {
        const query: Query = { path: path || undefined }
        const call = { method: 'GET', path: `${this.base}/files/watch`, query } as const
        return follow<WatchEvent>(
            this.api,
            {
                open: (isFirst, signal) => openStream(this.api, { ...call, options: { signal } }, isFirst),
                decode: (event) => [JSON.parse(event.data)],
                isLast: () => false,
            },
            options.signal,
        )
    }

    /** Sends a directory of this machine. */
    upload(directory: string, path = '', options: RequestOptions = {}): ApiPromise<void> {
        return this.uploadArchive(() => packDirectory(directory), { ...options, path })
    }

    /** Sends a tar archive: plain, gzip or zstd. A stream is sent once, without retries. */
    uploadArchive(tar: RequestBody, options: { path?: string } & RequestOptions = {}): ApiPromise<void> {
        const { path, ...rest } = options
        const headers = { 'content-type': 'application/x-tar' }
        const call = {
            method: 'PUT',
            path: `${this.base}/archive`,
            query: { path: path || undefined },
            headers,
        } as const
        return this.api.empty({ ...call, body: tar, options: rest, timeout: LONG_TIMEOUT })
    }
}

/** A list of all files below a directory. One page has all of them. */
class RecursiveList extends List<FileInfo> {
    readonly #directory: List<FileInfo>
    readonly #below: (entry: FileInfo) => List<FileInfo>

    constructor(directory: List<FileInfo>, below: (entry: FileInfo) => List<FileInfo>) {
        super(async (): Promise<Page<FileInfo>> => {
            const items: FileInfo[] = []
            for await (const item of this) items.push(item)
            return { items }
        })
        this.#directory = directory
        this.#below = below
    }

    override async *[Symbol.asyncIterator](): AsyncGenerator<FileInfo, void, undefined> {
        for await (const entry of this.#directory) {
            yield entry
            if (entry.kind !== 'directory') continue
            try {
                yield* this.#below(entry)
            } catch (error) {
                // The directory was deleted in the meantime.
                if (!(error instanceof PathNotFoundError)) throw error
            }
        }
    }
}

/** Returns the files below a path of the API. */
export function filesPath(kind: 'sandboxes' | 'workspaces' | 'projects' | 'snapshots', id: string): string {
    return `/${kind}${encode`/${id}`}`
}

function infoOf(path: string, headers: Headers): FileInfo {
    const modified = headers.get('last-modified')
    const total = /\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1]
    return {
        path: path.replace(/^\/workspace\//, ''),
        name: path.split('/').filter(Boolean).pop() ?? '',
        kind: 'file',
        size: Number(total ?? headers.get('content-length')),
        mode: headers.get('x-elevo-mode') ?? '',
        etag: headers.get('etag'),
        modifiedAt: modified === null ? undefined : new Date(modified),
    }
}

/** Returns the chunks of a stream. Not all browsers can iterate over one. */
async function* chunks(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
    const reader = stream.getReader()
    try {
        for (;;) {
            const { done, value } = await reader.read()
            if (done) return
            yield value
        }
    } finally {
        reader.cancel().catch(() => {})
    }
}
