import { abortable } from './abort.js'
import { type Api, path, type RequestOptions } from './api.js'
import { randomName, toBytes } from './bytes.js'
import { errorOfBody } from './error-response.js'
import { ConnectionLostError, NotFoundError, WorkspaceError } from './errors.js'
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
    readonly #isNew: boolean
    /** Aborts when the terminal is disconnected on purpose. */
    readonly #closing = new AbortController()

    private constructor(api: Api, sandbox: string, id: string, options: OpenOptions, opened: () => void) {
        this.id = id
        this.#api = api
        this.#sandbox = sandbox
        this.#path = path`/sandboxes/${sandbox}/pty/${id}`
        this.#offset = options.offset ?? 0
        this.#onData = options.onData ?? ((data) => this.#queue.push(data))
        this.#isNew = options.isNew ?? false
        const close = () => this.#closing.abort(api.closing.reason)
        if (api.closing.aborted) close()
        api.closing.addEventListener('abort', close, { once: true })
        this.#ended = this.#follow(opened)
        this.#ended
            .finally(() => api.closing.removeEventListener('abort', close))
            .then(
                () => {
                    this.#input.exited(endedError(`the program of the terminal \`${id}\` has ended`))
                    this.#queue.end()
                },
                (error) => {
                    this.#input.fail(error)
                    this.#queue.end(this.#closing.signal.aborted ? undefined : error)
                },
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

    /**
     * Sends input. Resolves when the terminal has it, or its program has ended; rejects if it may not have arrived.
     * Input arrives in the order of the calls. The signal ends the wait, and the input is sent nevertheless.
     */
    async write(data: string | Uint8Array, options: RequestOptions = {}): Promise<void> {
        options.signal?.throwIfAborted()
        await abortable(this.#input.write(toBytes(data)), options.signal)
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
        this.#closing.abort(endedError('the terminal was disconnected by close()'))
    }

    /** Waits for the end of the program. */
    wait(options: RequestOptions = {}): Promise<TerminalExit> {
        return abortable(this.#ended, options.signal)
    }

    /** Closes a terminal of `create`, and kills the programs in it. Disconnects from a terminal of `attach`. */
    async [Symbol.asyncDispose](): Promise<void> {
        if (!this.#isNew) return this.close()
        await this.kill().catch((error) => {
            if (!(error instanceof NotFoundError)) throw error
        })
    }

    /** Stays connected until the terminal ends. */
    async #follow(opened: () => void): Promise<TerminalExit> {
        const { signal } = this.#closing
        let lostAt: number | undefined
        let pause = FIRST_PAUSE
        const works = () => {
            lostAt = undefined
            pause = FIRST_PAUSE
        }
        for (;;) {
            try {
                return await this.#connection(opened, works)
            } catch (error) {
                signal.throwIfAborted()
                lostAt ??= this.#api.clock.now()
                const isPassing = isLost(error) || isRejectedForNow(error)
                if (!isPassing || this.#api.clock.now() + pause > lostAt + PATIENCE) throw error
                await this.#api.clock.sleep(pause, signal)
                pause = Math.min(2 * pause, LONGEST_PAUSE)
            }
        }
    }

    /** Connects once. Returns the end of the terminal; throws when the connection is lost. */
    async #connection(opened: () => void, works: () => void): Promise<TerminalExit> {
        const { signal } = this.#closing
        // A WebSocket of a browser cannot send a key.
        const json = { path: `/api/v1${this.#path}/ws` }
        const { ticket } = await this.#api.json<Schemas['Ticket']>({
            method: 'POST',
            path: '/tickets',
            json,
            options: { signal },
        })
        const query = new URLSearchParams({
            ticket,
            format: 'binary',
            client: this.#name,
            offset: String(this.#offset),
        })
        const socket = await this.#api.transport.connect(`${json.path}?${query}`)
        let wasOpen = false
        let quiet: ReturnType<typeof setTimeout> | undefined
        let closed = () => {}
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
                    try {
                        const type = this.#message(data, resolve)
                        opened()
                        // A server that only accepts connections does not work.
                        if (type !== 'attached') works()
                    } catch (error) {
                        reject(error)
                    }
                }
                socket.onclose = ({ code, reason }) => reject(lostError(code, reason))
                // Node.js 22 has no event `close` if the connection was not open.
                socket.onerror = () => reject(lostError(1006, ''))
                closed = () => reject(signal.reason)
                signal.addEventListener('abort', closed, { once: true })
                if (signal.aborted) closed()
            })
        } catch (error) {
            signal.throwIfAborted()
            // A browser does not show why a server rejects a WebSocket. A terminal is also a command, whose output has a route.
            if (!wasOpen) await this.#checkExists()
            throw error
        } finally {
            signal.removeEventListener('abort', closed)
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

    /** Handles a message, and returns its type. */
    #message(data: string | ArrayBuffer, ended: (exit: TerminalExit) => void): string {
        if (typeof data !== 'string') {
            this.#offset += data.byteLength
            this.#onData(new Uint8Array(data))
            return 'output'
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
        return message.type
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

function lostError(code: number, reason: string): WorkspaceError {
    return new ConnectionLostError(`the connection to the terminal was closed: ${reason || `code ${code}`}`)
}

function endedError(message: string): WorkspaceError {
    const remediation = 'Connect to the terminal with `attach`, or create another one.'
    return new WorkspaceError({ name: 'TERMINAL_CLOSED', message, remediation })
}

interface OpenOptions {
    /** Whether the terminal was created for this connection. */
    isNew?: boolean
    offset?: number
    onData?: (data: Uint8Array) => void
    signal?: AbortSignal
}
