import { type Api, path, type RequestOptions } from './api.js'
import { randomName, toBytes } from './bytes.js'
import { errorOfBody } from './error-response.js'
import { ConnectionLostError, NotFoundError, type WorkspaceError } from './errors.js'
import { FIRST_PAUSE, LONGEST_PAUSE, openStream, PATIENCE } from './follow.js'
import { ProcessNotFoundError, PTYNotFoundError } from './generated/errors.js'
import { Queue } from './queue.js'
import type { Schemas } from './resource.js'
import { isLost, isRejectedForNow } from './retry.js'
import { TerminalInput } from './terminal-input.js'

/** Milliseconds between messages that keep a connection open. */
const PING = 15_000

/** Milliseconds without a message after which a connection counts as lost. */
const SILENCE = 45_000

/** Bytes of output that are kept for an iterator that has not read them. */
const QUEUE_BYTES = 16 * 1024 * 1024

/** The end of a terminal. */
export interface TerminalExit {
    /** Exit code; 128 plus the number of the signal if a signal killed the program. */
    exitCode: number
    /** The signal that killed the program. */
    signal: number | null
}

type ServerMessage = Schemas['PtyServerMessage']

/**
 * A terminal. It reconnects after a lost connection, without loss of output or input. Its output goes to `onData`,
 * or else to an iteration; the newest 16 MiB wait for it.
 */
export class Terminal implements AsyncIterable<Uint8Array>, AsyncDisposable {
    /** Id of the terminal. */
    readonly id: string
    readonly #api: Api
    readonly #sandbox: string
    readonly #path: string
    readonly #onData: (data: Uint8Array) => void
    /** Names this client to the server, for its numbered input. */
    readonly #name = randomName()
    readonly #input = new TerminalInput()
    readonly #queue = new Queue(QUEUE_BYTES)
    readonly #ended: Promise<TerminalExit>
    #offset: number
    #socket: WebSocket | undefined
    #isClosed = false

    private constructor(api: Api, sandbox: string, id: string, options: OpenOptions, opened: () => void) {
        this.id = id
        this.#api = api
        this.#sandbox = sandbox
        this.#path = path`/sandboxes/${sandbox}/pty/${id}`
        this.#offset = options.offset ?? 0
        this.#onData = options.onData ?? ((data) => this.#queue.push(data))
        this.#ended = this.#follow(opened)
        this.#ended.then(
            () => this.#end(undefined),
            (error) => this.#end(error),
        )
    }

    /** @internal */
    static async open(api: Api, sandbox: string, id: string, options: OpenOptions): Promise<Terminal> {
        const { signal } = options
        signal?.throwIfAborted()
        let stop = () => {}
        const opening = new Promise<Terminal>((resolve, reject) => {
            const terminal: Terminal = new Terminal(api, sandbox, id, options, () => resolve(terminal))
            terminal.wait().then(() => resolve(terminal), reject)
            stop = () => {
                terminal.close()
                reject(signal?.reason)
            }
        })
        signal?.addEventListener('abort', stop, { once: true })
        return opening.finally(() => signal?.removeEventListener('abort', stop))
    }

    /** Iterates over the output. */
    [Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
        return this.#queue[Symbol.asyncIterator]()
    }

    /** Sends input. Resolves when the terminal has it. Input arrives in the order of the calls. */
    write(data: string | Uint8Array): Promise<void> {
        return this.#input.write(toBytes(data))
    }

    /** Changes the size. */
    async resize(cols: number, rows: number, options?: RequestOptions): Promise<void> {
        await this.#api.empty({ method: 'POST', path: `${this.#path}/resize`, json: { cols, rows }, options })
    }

    /** Closes the terminal, and kills the programs in it. */
    async kill(options?: RequestOptions): Promise<void> {
        await this.#api.empty({ method: 'DELETE', path: this.#path, options })
    }

    /** Disconnects. The programs in the terminal keep running, and `attach` connects to it again. */
    close(): void {
        this.#isClosed = true
        this.#socket?.close()
    }

    /** Waits for the end of the program. */
    wait(): Promise<TerminalExit> {
        return this.#ended
    }

    /** Closes the terminal, and kills the programs in it. */
    async [Symbol.asyncDispose](): Promise<void> {
        await this.kill().catch((error) => {
            if (!(error instanceof NotFoundError)) throw error
        })
    }

    #end(error: unknown): void {
        this.#input.end()
        this.#queue.end(this.#isClosed ? undefined : error)
    }

    /** Stays connected until the terminal ends. */
    async #follow(opened: () => void): Promise<TerminalExit> {
        let lostAt: number | undefined
        let pause = FIRST_PAUSE
        const onMessage = () => {
            opened()
            lostAt = undefined
            pause = FIRST_PAUSE
        }
        for (;;) {
            try {
                return await this.#connection(onMessage)
            } catch (error) {
                lostAt ??= this.#api.clock.now()
                const isPassing = isLost(error) || isRejectedForNow(error)
                if (this.#isClosed || !isPassing || this.#api.clock.now() + pause > lostAt + PATIENCE) throw error
                await this.#api.clock.sleep(pause)
                pause = Math.min(2 * pause, LONGEST_PAUSE)
            }
        }
    }

    /** Connects once. Returns the end of the terminal; throws when the connection is lost. */
    async #connection(onMessage: () => void): Promise<TerminalExit> {
        // A WebSocket of a browser cannot send a key.
        const json = { path: `/api/v1${this.#path}/ws` }
        const { ticket } = await this.#api.json<Schemas['Ticket']>({ method: 'POST', path: '/tickets', json })
        const query = new URLSearchParams({
            ticket,
            format: 'binary',
            client: this.#name,
            offset: String(this.#offset),
        })
        const socket = await this.#api.transport.connect(`${json.path}?${query}`)
        this.#socket = socket
        let wasOpen = false
        let quiet: ReturnType<typeof setTimeout> | undefined
        const ping = setInterval(() => wasOpen && socket.send('{"type":"ping"}'), PING)
        try {
            return await new Promise((resolve, reject) => {
                const heard = () => {
                    clearTimeout(quiet)
                    quiet = setTimeout(
                        () => reject(new ConnectionLostError(`the terminal was silent for ${SILENCE} ms`)),
                        SILENCE,
                    )
                }
                heard()
                socket.onopen = () => {
                    wasOpen = true
                    this.#input.connected((message) => socket.send(message))
                }
                socket.onmessage = ({ data }) => {
                    heard()
                    onMessage()
                    try {
                        this.#message(data, resolve)
                    } catch (error) {
                        reject(error)
                    }
                }
                socket.onclose = ({ code, reason }) => reject(this.#closed(code, reason))
                // Node.js 22 has no event `close` if the connection was not open.
                socket.onerror = () => reject(this.#closed(1006, ''))
                if (this.#isClosed) socket.close()
            })
        } catch (error) {
            // A browser does not show why a server rejects a WebSocket. A terminal is also a command, whose output has a route.
            if (!wasOpen) await this.#checkExists()
            throw error
        } finally {
            clearInterval(ping)
            clearTimeout(quiet)
            this.#input.disconnected()
            // Output that arrives late comes again on the next connection.
            socket.onmessage = null
            socket.onopen = null
            socket.onerror = () => {}
            socket.close()
        }
    }

    #message(data: string | ArrayBuffer, ended: (exit: TerminalExit) => void): void {
        if (typeof data !== 'string') {
            this.#offset += data.byteLength
            this.#onData(new Uint8Array(data))
            return
        }
        const message: ServerMessage = JSON.parse(data)
        if (message.type === 'attached') {
            this.#offset = message.offset
        } else if (message.type === 'ack') {
            this.#input.acknowledged(message.seq)
        } else if (message.type === 'exit') {
            ended({ exitCode: message.exitCode, signal: message.signal ?? null })
        } else if (message.type === 'stopping') {
            throw new ConnectionLostError('the server is stopping')
        } else if (message.type === 'error') {
            const error = errorOfBody(message.error)
            // The program has ended before it received all input. Its exit follows.
            if (!(error instanceof ProcessNotFoundError)) throw error
        }
    }

    #closed(code: number, reason: string): WorkspaceError {
        if (this.#isClosed) return new ConnectionLostError('the terminal was disconnected by close()')
        return new ConnectionLostError(`the connection to the terminal was closed: ${reason || `code ${code}`}`)
    }

    /** Throws `PTYNotFoundError` if the terminal does not exist. */
    async #checkExists(): Promise<void> {
        try {
            const call = { method: 'GET', path: path`/sandboxes/${this.#sandbox}/process/${this.id}/output` } as const
            const output = await openStream(this.#api, { ...call, query: { offset: this.#offset } }, false)
            await output.body?.cancel()
        } catch (error) {
            if (!(error instanceof ProcessNotFoundError)) throw error
            const { status, headers, requestId, details } = error
            throw new PTYNotFoundError({
                code: 4101,
                name: 'PTY_NOT_FOUND',
                message: `there is no terminal \`${this.id}\``,
                remediation: 'Create a terminal first; a terminal without a client is closed after a while.',
                status,
                headers,
                requestId,
                details,
            })
        }
    }
}

interface OpenOptions {
    offset?: number
    onData?: (data: Uint8Array) => void
    signal?: AbortSignal
}
