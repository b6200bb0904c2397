import { ConnectionLostError, ServerUnreachableError, UnavailableError, WorkspaceError } from './errors.js'
import { builtin, runtimeName } from './runtime.js'
import { version } from './version.js'
import { findServer, type Found } from './where.js'

/** A body of a request. A stream is sent once; a function returns a new stream for each attempt. */
export type RequestBody = string | Uint8Array | Blob | ReadableStream<Uint8Array> | (() => ReadableStream<Uint8Array>)

/** A request of the client. */
export interface TransportRequest {
    method: string
    /** Path and query, such as `/api/v1/sandboxes?limit=1`. */
    path: string
    headers: Record<string, string>
    body?: RequestBody
    signal?: AbortSignal
}

/**
 * Carries requests to a server. `FetchTransport` is the one that a client uses by default;
 * `@elevo/workspace-sdk/testing` has another one, for tests.
 */
export interface Transport {
    /** Sends a request. Throws `ServerUnreachableError` or `ConnectionLostError` if there is no response. */
    send(request: TransportRequest): Promise<Response>
    /** Returns the complete address of a path. */
    url(path: string): string
    /** Opens a WebSocket. */
    connect(path: string): Promise<WebSocket>
    /** Closes all connections. */
    close(): Promise<void>
}

/** Codes of errors before a request was sent, of Node.js and Bun. */
const UNREACHABLE = new Set([
    'ECONNREFUSED',
    'ConnectionRefused',
    'ENOTFOUND',
    'EAI_AGAIN',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'UND_ERR_CONNECT_TIMEOUT',
    'FailedToOpenSocket',
])

/** Sends requests with `fetch`. */
export class FetchTransport implements Transport {
    #found: Found
    readonly #given: { apiUrl?: string; apiKey?: string }
    readonly #fetch: typeof fetch
    readonly #pool: Pool | undefined

    constructor(options: { apiUrl?: string; apiKey?: string; fetch?: typeof fetch } = {}) {
        this.#given = options
        this.#found = findServer(options)
        this.#fetch = options.fetch ?? fetch
        this.#pool = options.fetch ? undefined : ownPool(isLoopback(this.#found.url))
    }

    url(path: string): string {
        return this.#found.url + path
    }

    async send(request: TransportRequest): Promise<Response> {
        const { method, path, body, signal } = request
        const headers: Record<string, string> = { authorization: `Bearer ${this.#found.key}`, ...request.headers }
        const runtime = runtimeName()
        if (runtime) {
            headers['user-agent'] = `elevo-ts/${version} ${runtime}`
        }
        const upload = new Upload(typeof body === 'function' ? body() : body)
        const init: Record<string, unknown> = { method, headers, body: upload.body, signal, redirect: 'manual' }
        if (upload.body instanceof ReadableStream) init.duplex = 'half'
        if (method === 'DELETE') sendOnce(init, runtime)
        if (this.#pool) init.dispatcher = this.#pool
        // Bun otherwise ends a request after 5 minutes.
        init.timeout = false
        try {
            return await this.#direct(await this.#fetch(this.url(path), init))
        } catch (error) {
            if (signal?.aborted) throw error
            if (upload.failure) throw upload.failure.error
            if (error instanceof WorkspaceError) throw error
            throw this.#failed(error)
        }
    }

    /** Returns a response. Throws if it is a redirect, because the key must not go to another server. */
    async #direct(response: Response): Promise<Response> {
        const { type, status, headers } = response
        if (type !== 'opaqueredirect' && (status < 300 || status >= 400)) return response
        await response.body?.cancel()
        // A browser does not show the address.
        const location = headers.get('location') ?? 'another address'
        throw new UnavailableError({
            name: 'REDIRECTED',
            message: `${this.#found.url} redirects to ${location}`,
            remediation: 'Set the address to which the server redirects as `apiUrl` or ELEVO_SERVER.',
            status,
            headers,
        })
    }

    #failed(error: unknown): Error {
        const { url, isLocal } = this.#found
        const cause = (error as { cause?: { code?: string; message?: string } }).cause
        const code = cause?.code ?? (error as { code?: string }).code ?? ''
        const reason = [cause?.message, (error as Error).message, code].find(Boolean)
        // Deno has no codes, and a port that `fetch` does not allow has none.
        if (!UNREACHABLE.has(code) && !/connection refused|dns error|bad port|certificate/i.test(`${reason}`)) {
            return new ConnectionLostError(`the connection to ${url} was lost: ${reason}`, error)
        }
        const unreachable = new ServerUnreachableError(`cannot connect to ${url}: ${reason}`, error)
        if (isLocal) {
            // The server may have another port after a restart.
            try {
                this.#found = findServer(this.#given)
            } catch {
                // The server does not run. A later attempt looks again.
            }
        }
        return unreachable
    }

    async connect(path: string): Promise<WebSocket> {
        const constructor = globalThis.WebSocket ?? (await optionalWebSocket())
        const socket = new constructor(this.url(path).replace(/^http/, 'ws'))
        socket.binaryType = 'arraybuffer'
        return socket
    }

    async close(): Promise<void> {
        await this.#pool?.destroy()
    }
}

/** Returns the WebSocket of the package `ws`, for Node.js 20. */
async function optionalWebSocket(): Promise<typeof WebSocket> {
    // Bundlers for browsers must not look for the package.
    const imported = await import(/* @vite-ignore */ /* webpackIgnore: true */ 'ws').catch((cause) => {
        throw new WorkspaceError({
            name: 'NO_WEBSOCKET',
            message: 'this runtime has no WebSocket, which terminals need',
            remediation: 'Install the package `ws`, or use Node.js 22 or newer.',
            cause,
        })
    })
    return imported.WebSocket as unknown as typeof WebSocket
}

/** Returns whether an address is on this machine. */
function isLoopback(url: string): boolean {
    return ['127.0.0.1', '[::1]', 'localhost'].includes(new URL(url).hostname)
}

/** The body of a request. Keeps an error of its source, which is not an error of the connection. */
class Upload {
    readonly body: Exclude<RequestBody, () => unknown> | undefined
    failure: { error: unknown } | undefined

    constructor(body: Exclude<RequestBody, () => unknown> | undefined) {
        this.body = body instanceof ReadableStream ? this.#watch(body.getReader()) : body
    }

    #watch(reader: ReadableStreamDefaultReader<Uint8Array>): ReadableStream<Uint8Array> {
        return new ReadableStream({
            pull: async (controller) => {
                try {
                    const { done, value } = await reader.read()
                    if (done) controller.close()
                    else controller.enqueue(value)
                } catch (error) {
                    this.failure = { error }
                    controller.error(error)
                }
            },
            cancel: (reason) => reader.cancel(reason),
        })
    }
}

/**
 * Keeps Bun and Deno from sending a DELETE a second time on their own, after its response was lost: the client would
 * only see that nothing is there. Bun does so on connections that it uses again, Deno if it has the whole body.
 */
function sendOnce(init: Record<string, unknown>, runtime: string | undefined): void {
    init.keepalive = false
    if (runtime?.startsWith('deno/')) {
        init.body = new Blob([]).stream()
        init.duplex = 'half'
    }
}

interface Pool {
    destroy(): Promise<void>
}

/**
 * Returns a pool of connections for Node.js, whose `fetch` otherwise ends a request after 5 minutes
 * without data. Node.js has no module with the class of its pool, so the class of the pool that all
 * requests of the process share is used, with the options that the program may have set.
 */
function ownPool(isLocal: boolean): Pool | undefined {
    if (!builtin('node:fs')) return undefined
    // Node.js creates the shared pool at the first use of a class of fetch.
    new Headers()
    const shared = (globalThis as Record<symbol, unknown>)[Symbol.for('undici.globalDispatcher.1')]
    // A proxy of the environment does not lead to this machine. Its pool has another one without a proxy.
    const direct = isLocal ? [shared, ...valuesOf(shared)].find(isAgent) : shared
    if (!isAgent(direct)) return undefined
    const options = valuesOf(direct, 'options')[0] as object | undefined
    const constructor = direct.constructor as new (options: object) => Pool
    return new constructor({ ...options, headersTimeout: 0, bodyTimeout: 0 })
}

function isAgent(value: unknown): value is object {
    return value?.constructor?.name === 'Agent'
}

/** Returns the values of the symbols of an object, or of those with one description. */
function valuesOf(value: unknown, description?: string): unknown[] {
    if (typeof value !== 'object' || value === null) return []
    const symbols = Object.getOwnPropertySymbols(value)
    const named = symbols.filter((symbol) => description === undefined || symbol.description === description)
    return named.map((symbol) => (value as Record<symbol, unknown>)[symbol])
}
