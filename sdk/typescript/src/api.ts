import { type Link, linked, type Stop, Stopper } from './abort.js'
import { ApiPromise, type ApiResult } from './api-promise.js'
import { guarded } from './body.js'
import { randomName } from './bytes.js'
import { withDates } from './dates.js'
import { errorOfResponse } from './error-response.js'
import {
    ConnectionLostError,
    InvalidRequestError,
    NotFoundError,
    RequestTimeoutError,
    UnavailableError,
    WorkspaceError,
} from './errors.js'
import { type Clock, isLost, type RetryPolicy, withRetries } from './retry.js'
import type { RequestBody, Transport } from './transport.js'

/** Options of every method. */
export interface RequestOptions {
    /** Ends the wait of the caller. */
    signal?: AbortSignal
    /** Names the request: a request with the same key is carried out once. The SDK chooses a key by default. */
    idempotencyKey?: string
}

/** Times until a response begins, in milliseconds, by kind of request. */
export const CREATE_TIMEOUT = 120_000
export const LONG_TIMEOUT = 15 * 60_000

/** One call of the API. */
export interface Call {
    method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
    /** Path below `/api/v1`, or a path at the root that begins with `//`. */
    path: string
    query?: Query
    /** A body that is sent as JSON. */
    json?: unknown
    /** A body that is sent as it is. */
    body?: RequestBody
    headers?: Record<string, string | undefined>
    options?: RequestOptions
    /** Milliseconds until the response begins; the `timeout` of the client by default. */
    timeout?: number
    /** Maximum number of retries; that of the client by default. */
    retries?: number
    /** Whether a lost response is raised at once, because the caller continues by other means. */
    raisesLost?: boolean
    /** Whether an abort ends only the retries, because the caller must know the outcome of a request on its way. */
    keepsRequest?: boolean
    /** Whether the call is allowed while the client closes, because it ends what the caller has begun. */
    isCleanup?: boolean
    /** A status of 400 or more whose response is a result. */
    accept?: number
}

/** Parameters of a query. Those that are `undefined` are left out. */
export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>

/** Settings of all calls of a client. */
export interface ApiSettings extends RetryPolicy {
    timeout: number
}

/** Builds a path, with each value encoded. */
export function path(parts: TemplateStringsArray, ...values: (string | number)[]): string {
    return parts.reduce((text, part, index) => text + encodeURIComponent(values[index - 1] as string | number) + part)
}

/** Returns a path. Throws if an id or a name in it would lead to another object. */
export function checkedPath(path: string): string {
    for (const part of path.replace(/^\/+/, '').split('/')) {
        // The parser of addresses removes these.
        if (part !== '' && part !== '.' && part !== '..') continue
        throw new InvalidRequestError({
            name: 'INVALID_PATH',
            message: `\`${part}\` is not a valid id or name`,
            remediation: 'Use an id or a name that the server returned.',
        })
    }
    return path
}

/** The longest time of a timer, in milliseconds. */
const LONGEST_TIMER = 2 ** 31 - 1

/** Milliseconds that `close()` waits for work that must not be cut off. */
const CLOSE_TIMEOUT = 10_000

/** Sends calls, with retries, and converts the responses. */
export class Api {
    readonly transport: Transport
    readonly settings: ApiSettings
    readonly clock: Clock
    readonly #closing = new Stopper()
    readonly #closed = new Stopper()
    readonly #unfinished = new Set<Promise<unknown>>()
    #close: Promise<void> | undefined

    constructor(transport: Transport, settings: ApiSettings, clock: Clock) {
        this.transport = transport
        this.settings = settings
        this.clock = clock
    }

    /** Aborts when the client begins to close: streams and terminals end. */
    get closing(): Stop {
        return this.#closing
    }

    /** Lets `close()` wait for work that must not be cut off, such as a kill. */
    finish<T>(work: Promise<T>): Promise<T> {
        this.#unfinished.add(work)
        const done = () => this.#unfinished.delete(work)
        work.then(done, done)
        return work
    }

    /** Ends streams and terminals, waits for unfinished work, and closes all connections. */
    close(): Promise<void> {
        this.#close ??= this.#end()
        return this.#close
    }

    async #end(): Promise<void> {
        this.#closing.abort(clientClosed())
        const done = new AbortController()
        const finished = Promise.allSettled(this.#unfinished).finally(() => done.abort())
        await Promise.race([finished, this.clock.sleep(CLOSE_TIMEOUT, done.signal).catch(() => {})])
        this.#closed.abort(clientClosed())
        await this.transport.close()
    }

    /** Calls, and converts the JSON of the response. */
    json<Data, Result = Data>(call: Call, convert?: (data: Data) => Result): ApiPromise<Result> {
        return this.#call(call, async (response) => {
            const data = withDates(await response.json()) as Data
            try {
                return convert ? convert(data) : (data as unknown as Result)
            } catch (error) {
                throw invalidResponse(call, response, error)
            }
        })
    }

    /** Calls, and ignores the body of the response. */
    empty(call: Call): ApiPromise<void> {
        return this.#call(call, async (response) => void (await response.arrayBuffer()))
    }

    /** Calls, and returns the body of the response. */
    bytes(call: Call): ApiPromise<Uint8Array> {
        return this.#call(call, async (response) => new Uint8Array(await response.arrayBuffer()))
    }

    /** Calls, and returns the body of the response as text. */
    text(call: Call): ApiPromise<string> {
        return this.#call(call, async (response) => {
            // A file may begin with a byte order mark.
            const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
            return decoder.decode(await response.arrayBuffer())
        })
    }

    /** Calls, and returns the body of the response as it arrives. */
    stream(call: Call): Promise<ReadableStream<Uint8Array>> {
        return this.#call(call, asBody).then()
    }

    /** Calls, and returns the response as soon as it begins. The caller guards its body, and ends it. */
    open(call: Call): Promise<Response> {
        return this.#call(call, asIs).then()
    }

    #call<T>(call: Call, read: (response: Response) => Promise<T>): ApiPromise<T> {
        return new ApiPromise(this.#withRetries(call, read))
    }

    async #withRetries<T>(call: Call, read: (response: Response) => Promise<T>): Promise<ApiResult<T>> {
        const { signal, idempotencyKey } = call.options ?? {}
        checkedPath(call.path)
        signal?.throwIfAborted()
        const changes = call.method !== 'GET' && call.method !== 'HEAD'
        const headers: Record<string, string> = {}
        for (const [name, value] of Object.entries(call.headers ?? {})) {
            if (value !== undefined) headers[name] = value
        }
        if (changes) {
            headers['idempotency-key'] = idempotencyKey ?? randomName()
        }
        if (call.json !== undefined) {
            headers['content-type'] = 'application/json'
        }
        const policy = { ...this.settings, retries: call.retries ?? this.settings.retries }
        // A stream is used up after one attempt.
        if (call.body instanceof ReadableStream) policy.retries = 0
        const link = linked(signal, this.#closed)
        return withRetries(
            async (before) => {
                try {
                    return await this.#attempt(call, headers, read, before.length + 1, link.signal)
                } catch (error) {
                    // An earlier attempt has deleted the object, and its response was lost.
                    const wasDeleted = call.method === 'DELETE' && error instanceof NotFoundError && before.some(isLost)
                    if (!wasDeleted) throw error
                    return {
                        data: undefined as T,
                        status: 204,
                        headers: error.headers,
                        requestId: error.requestId,
                        attempts: before.length + 1,
                    }
                }
            },
            { policy, clock: this.clock, isRepeatable: !call.raisesLost, signal: link.signal },
        ).finally(link.unlink)
    }

    async #attempt<T>(
        call: Call,
        headers: Record<string, string>,
        read: (response: Response) => Promise<T>,
        attempts: number,
        signal: AbortSignal,
    ): Promise<ApiResult<T>> {
        if (this.closing.aborted && !call.isCleanup) throw clientClosed()
        const link = linked(call.keepsRequest ? this.#closed : signal)
        let isLate = false
        const late = () => {
            isLate = true
            link.abort()
        }
        const limit = this.#limit(call)
        const timer = limit <= LONGEST_TIMER ? setTimeout(late, limit) : undefined
        try {
            link.signal.throwIfAborted()
            const body = call.json === undefined ? call.body : JSON.stringify(call.json)
            const request = { method: call.method, path: address(call), headers, body, signal: link.signal }
            const response = await this.transport.send(request)
            clearTimeout(timer)
            const data = await readResponse(call, this.#guarded(call, response, read, link), read)
            const requestId = response.headers.get('x-request-id') ?? undefined
            return { data, status: response.status, headers: response.headers, requestId, attempts }
        } catch (error) {
            if (isLate) throw lateError(call, limit)
            link.signal.throwIfAborted()
            throw error
        } finally {
            clearTimeout(timer)
            link.unlink()
        }
    }

    /** Returns a response whose body obeys the signal and the limit of silence. */
    #guarded(call: Call, response: Response, read: unknown, { signal }: Link): Response {
        if (read === asIs && response.ok) return response
        if (read !== asBody) return guarded(response, { signal })
        // The caller reads the body after the call has ended.
        const link = linked(call.options?.signal, this.#closed)
        return guarded(response, { signal: link.signal, ended: link.unlink })
    }

    /** Returns the milliseconds until a response begins. A `timeout` of 0 means no limit. */
    #limit(call: Call): number {
        const own = this.settings.timeout || Number.POSITIVE_INFINITY
        return Math.max(call.timeout ?? 0, own)
    }
}

function clientClosed(): WorkspaceError {
    return new WorkspaceError({
        name: 'CLIENT_CLOSED',
        message: 'the client is closed',
        remediation: 'Create another client.',
    })
}

function lateError(call: Call, limit: number): RequestTimeoutError {
    return new RequestTimeoutError(`the server did not begin to respond to ${nameOf(call)} within ${limit} ms`)
}

/** Reads a response. Throws its error, or `ConnectionLostError` if it is incomplete. */
async function readResponse<T>(call: Call, response: Response, read: (response: Response) => Promise<T>): Promise<T> {
    try {
        if (!response.ok && response.status !== call.accept) throw await errorOfResponse(response)
        return await read(response)
    } catch (error) {
        if (error instanceof WorkspaceError) throw error
        if (error instanceof SyntaxError) throw invalidResponse(call, response, error)
        const message = `the response to ${nameOf(call)} was lost: ${(error as Error).message}`
        throw new ConnectionLostError(message, error)
    }
}

function invalidResponse(call: Call, { status, headers }: Response, cause: unknown): WorkspaceError {
    return new UnavailableError({
        name: 'INVALID_RESPONSE',
        message: `the response to ${nameOf(call)} is not one of an Elevo server`,
        remediation: 'Check the address of the server, and the proxy in front of it.',
        status,
        headers,
        cause,
    })
}

function nameOf(call: Call): string {
    return `${call.method} ${call.path}`
}

async function asBody(response: Response): Promise<ReadableStream<Uint8Array>> {
    return response.body ?? new Blob([]).stream()
}

async function asIs(response: Response): Promise<Response> {
    return response
}

function address(call: Call): string {
    const query = new URLSearchParams()
    for (const [name, value] of Object.entries(call.query ?? {})) {
        if (value === undefined || value === null) continue
        const values = typeof value === 'object' ? value : [String(value)]
        for (const item of values) query.append(name, item)
    }
    const text = query.toString()
    const base = call.path.startsWith('//') ? call.path.slice(1) : `/api/v1${call.path}`
    return text ? `${base}?${text}` : base
}
