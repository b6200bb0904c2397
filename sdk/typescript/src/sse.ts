// Server-sent events, parsed as bytes: each byte is looked at once, however the stream is cut into chunks.

import { SILENCE } from './body.js'
import { ConnectionLostError } from './errors.js'

/** An event of a stream. */
export interface ServerSentEvent {
    /** Kind of the event; `message` by default. */
    event: string
    id: string | undefined
    /** Absent if the server only tells the id from which the stream continues after a lost connection. */
    data: string | undefined
}

/** An event that has data. */
export type ServerMessage = ServerSentEvent & { data: string }

const LINE_FEED = 10
const CARRIAGE_RETURN = 13
const SPACE = 32
const DATA = [...'data:'].map((char) => char.charCodeAt(0))

/** Parses chunks of a stream. Lines end with LF or CR LF. */
export class SseParser {
    readonly #decoder = new TextDecoder()
    /** The beginning of a line whose end has not arrived. */
    #rest = new Uint8Array(4096)
    #length = 0
    #event = 'message'
    #id: string | undefined
    #data: string | undefined;

    /** Returns the events that a chunk completes. */
    *push(chunk: Uint8Array): Generator<ServerSentEvent> {
        let from = 0
        for (;;) {
            const end = chunk.indexOf(LINE_FEED, from)
            if (end < 0) break
            const event = this.#line(this.#complete(chunk.subarray(from, end)))
            if (event) yield event
            from = end + 1
        }
        this.#keep(chunk.subarray(from))
    }

    /** Returns a line from its kept beginning and its end. */
    #complete(end: Uint8Array): Uint8Array {
        let line = end
        if (this.#length > 0) {
            this.#keep(end)
            line = this.#rest.subarray(0, this.#length)
            this.#length = 0
        }
        return line[line.length - 1] === CARRIAGE_RETURN ? line.subarray(0, -1) : line
    }

    #keep(bytes: Uint8Array): void {
        const length = this.#length + bytes.length
        if (length > this.#rest.length) {
            const larger = new Uint8Array(2 * length)
            larger.set(this.#rest.subarray(0, this.#length))
            this.#rest = larger
        }
        this.#rest.set(bytes, this.#length)
        this.#length = length
    }

    #line(line: Uint8Array): ServerSentEvent | undefined {
        if (line.length === 0) {
            return this.#dispatch()
        }
        if (DATA.every((byte, index) => line[index] === byte)) {
            const text = this.#decoder.decode(line.subarray(line[5] === SPACE ? 6 : 5))
            this.#data = this.#data === undefined ? text : `${this.#data}\n${text}`
            return undefined
        }
        const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(this.#decoder.decode(line)) ?? []
        if (name === 'event') this.#event = value ?? ''
        if (name === 'id') this.#id = value
        return undefined
    }

    #dispatch(): ServerSentEvent | undefined {
        const [event, id, data] = [this.#event, this.#id, this.#data]
        this.#event = 'message'
        this.#id = undefined
        this.#data = undefined
        return data === undefined && id === undefined ? undefined : { event, id, data }
    }
}

/** Options of `readEvents`. */
export interface ReadOptions {
    signal?: AbortSignal
    /** Is called when data arrives. */
    onData?: () => void
    /** Milliseconds without data after which the stream counts as lost. */
    silence?: number
}

/** Reads the events of a response. Throws `ConnectionLostError` if the stream fails or is silent. */
export async function* readEvents(response: Response, options: ReadOptions = {}): AsyncGenerator<ServerSentEvent> {
    const { signal, onData, silence = SILENCE } = options
    const reader = response.body?.getReader()
    if (!reader) throw new ConnectionLostError('the response has no stream')
    let stopped: unknown
    const stop = (reason: unknown) => {
        stopped = reason
        // Ends the read that waits.
        reader.cancel(reason).catch(() => {})
    }
    const abort = () => stop(signal?.reason)
    signal?.addEventListener('abort', abort, { once: true })
    const parser = new SseParser()
    const quiet = () => stop(new ConnectionLostError(`the stream had no data for ${silence} ms`))
    try {
        signal?.throwIfAborted()
        for (;;) {
            const timer = setTimeout(quiet, silence)
            const { done, value } = await reader.read().finally(() => clearTimeout(timer))
            if (stopped) throw stopped
            if (done) return
            onData?.()
            yield* parser.push(value)
        }
    } catch (error) {
        if (stopped) throw stopped
        throw signal?.aborted
            ? signal.reason
            : new ConnectionLostError(`the stream was lost: ${(error as Error).message}`, error)
    } finally {
        signal?.removeEventListener('abort', abort)
        reader.cancel().catch(() => {})
    }
}
