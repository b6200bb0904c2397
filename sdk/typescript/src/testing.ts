/** Tests without a server: a transport that responds from recorded exchanges. */

import { bodyOf } from './body.js'
import { concat, fromBase64, toBase64 } from './bytes.js'
import { WorkspaceError } from './errors.js'
import type { Transport, TransportRequest } from './transport.js'

/** A recorded body. A stream of events is text. */
export type RecordedBody = { json: unknown } | { text: string } | { base64: string }

/** A request and its response: one line of a recording. */
export interface Exchange {
    request: { method: string; path: string; body?: RecordedBody }
    response: { status: number; headers: Record<string, string>; body?: RecordedBody }
}

/** The code under test sent a request that the recording does not have. The client does not send it again. */
export class UnexpectedRequestError extends WorkspaceError {
    constructor(message: string) {
        const remediation = 'Record the exchanges again with the present code, or correct the request.'
        super({ name: 'UNEXPECTED_REQUEST', message, remediation })
    }
}

/** A transport that responds from a recording. Exchanges with one method and path respond in their order. */
export class FakeTransport implements Transport {
    readonly #left: Exchange[]

    constructor(exchanges: Iterable<Exchange>) {
        this.#left = [...exchanges]
    }

    async send({ method, path }: TransportRequest): Promise<Response> {
        const wanted = normal(path)
        const at = this.#left.findIndex(({ request }) => request.method === method && normal(request.path) === wanted)
        if (at < 0) {
            const next = this.#left[0]?.request
            const expected = next
                ? `the next recorded request is ${next.method} ${next.path}`
                : 'the recording has ended'
            throw new UnexpectedRequestError(`the recording has no request ${method} ${path}; ${expected}`)
        }
        const [exchange] = this.#left.splice(at, 1) as [Exchange]
        const { status, headers, body } = exchange.response
        return new Response(content(body), { status, headers })
    }

    url(path: string): string {
        return `http://recorded${path}`
    }

    async connect(path: string): Promise<WebSocket> {
        throw new UnexpectedRequestError(`a recording has no WebSocket, such as ${path}`)
    }

    async close(): Promise<void> {}
}

/** Returns a transport for the lines of a recording: `new WorkspaceClient({ transport: recorded(lines) })`. */
export function recorded(lines: string | Iterable<string>): FakeTransport {
    const all = typeof lines === 'string' ? lines.split('\n') : [...lines]
    return new FakeTransport(all.filter((line) => line.trim()).map((line) => JSON.parse(line) as Exchange))
}

/** A transport that collects exchanges as lines. Keys are not in them, and fields `secret` have the value `removed`. */
export interface RecordingTransport extends Transport {
    /** The lines of the recording. */
    readonly lines: string[]
}

/** Wraps a transport, and records its exchanges. A line has the body of a response once it is read. */
export function record(transport: Transport): RecordingTransport {
    const lines: string[] = []
    return {
        lines,
        url: (path) => transport.url(path),
        connect: (path) => transport.connect(path),
        close: () => transport.close(),
        async send(request) {
            const response = await transport.send(request)
            const index = lines.push('') - 1
            const { method, path } = request
            const [sent, kept] = [sentBody(request), headersOf(response.headers)]
            const write = (received: Uint8Array) => {
                const body = receivedBody(received, kept['content-type'] ?? '')
                const exchange: Exchange = {
                    request: { method, path, body: sent },
                    response: { status: response.status, headers: kept, body },
                }
                lines[index] = JSON.stringify(exchange, withoutSecrets)
            }
            write(new Uint8Array(0))
            return copied(response, write)
        },
    }
}

function withoutSecrets(name: string, value: unknown): unknown {
    return name === 'secret' && typeof value === 'string' ? 'removed' : value
}

/** Returns a response whose body is kept as it passes, and handed over when it ends. */
function copied(response: Response, ended: (bytes: Uint8Array) => void): Response {
    const reader = bodyOf(response)?.getReader()
    if (!reader) return response
    const pieces: Uint8Array[] = []
    const source: UnderlyingDefaultSource<Uint8Array> = {
        async pull(controller) {
            try {
                const { done, value } = await reader.read()
                if (done) {
                    ended(concat(pieces))
                    return controller.close()
                }
                pieces.push(value)
                controller.enqueue(value)
            } catch (error) {
                ended(concat(pieces))
                controller.error(error)
            }
        },
        async cancel(reason) {
            ended(concat(pieces))
            await reader.cancel(reason)
        },
    }
    const { status, statusText, headers } = response
    return new Response(new ReadableStream(source, { highWaterMark: 0 }), { status, statusText, headers })
}

/** Returns a path and its query in a form that does not depend on encoding and order: SDKs differ in them. */
function normal(path: string): string {
    const { pathname, searchParams } = new URL(path, 'http://recorded')
    searchParams.sort()
    return `${pathname}?${searchParams}`
}

/** Headers that belong to a connection, not to a response. */
const CONNECTION = new Set(['connection', 'content-length', 'date', 'keep-alive', 'transfer-encoding'])

function headersOf(headers: Headers): Record<string, string> {
    return Object.fromEntries([...headers].filter(([name]) => !CONNECTION.has(name)))
}

/** Returns the body of a request, unless it is a stream. */
function sentBody({ headers, body }: TransportRequest): RecordedBody | undefined {
    if (body instanceof Uint8Array) return { base64: toBase64(body) }
    if (typeof body !== 'string') return undefined
    return headers['content-type'] === 'application/json' ? { json: JSON.parse(body) } : { text: body }
}

function receivedBody(bytes: Uint8Array, type: string): RecordedBody | undefined {
    if (bytes.length === 0) return undefined
    const text = new TextDecoder().decode(bytes)
    if (type.includes('json')) return jsonOf(text)
    return type.startsWith('text/') ? { text } : { base64: toBase64(bytes) }
}

/** Returns JSON, or text if the response was lost before its end. */
function jsonOf(text: string): RecordedBody {
    try {
        return { json: JSON.parse(text) }
    } catch {
        return { text }
    }
}

function content(body: RecordedBody | undefined): string | Uint8Array<ArrayBuffer> | null {
    if (!body) return null
    if ('json' in body) return JSON.stringify(body.json)
    return 'text' in body ? body.text : (fromBase64(body.base64) as Uint8Array<ArrayBuffer>)
}
