import { abortable } from './abort.js'
import { type Api, path, type RequestOptions } from './api.js'
import { toBase64, toBytes } from './bytes.js'
import { CommandDecoder, type CommandEvent, type ExitEvent } from './command-events.js'
import { CommandExitError } from './errors.js'
import { follow, openStream, type Source } from './follow.js'
import { ProcessTimeoutError } from './generated/errors.js'
import { isLost } from './retry.js'
import type { ServerMessage } from './sse.js'
import { type Signal, signalNumber } from './signals.js'

/** Maximum bytes of input in one request. */
const INPUT_BYTES = 512 * 1024

/** A command that has ended. An exit code other than 0 is a result, not an error. */
export class CommandResult {
    /** Id of the command. */
    readonly commandId: string
    /** Exit code; 128 plus the number of the signal if a signal killed the command. */
    readonly exitCode: number
    /** Standard output. */
    readonly stdout: string
    /** Standard error. */
    readonly stderr: string
    /** The signal that killed the command. */
    readonly signal: number | null
    /** Whether some output is missing. */
    readonly truncated: boolean

    constructor(exit: ExitEvent, stdout: string, stderr: string, truncated: boolean) {
        this.commandId = exit.commandId
        this.exitCode = exit.exitCode
        this.stdout = stdout
        this.stderr = stderr
        this.signal = exit.signal
        this.truncated = truncated || exit.truncated
    }

    /** Returns this result. Throws `CommandExitError` if the exit code is not 0. */
    check(): this {
        if (this.exitCode !== 0) throw new CommandExitError(this)
        return this
    }
}

type Start = (isFirst: boolean, signal: AbortSignal) => Promise<Response>

/** The output of a command, from an offset. The first response comes from `start`, if the command is new. */
export class OutputSource implements Source<CommandEvent> {
    readonly #api: Api
    readonly #path: string
    readonly #start: Start | undefined
    readonly #decoder: CommandDecoder
    #isRunning = false
    /** Whether a request to start the command is on its way, or was lost. */
    #isStarting = false
    #wasLost = false
    /** Whether the server has started the command. */
    hasStarted = false
    /** Id of the request whose response was read last. */
    requestId: string | undefined

    constructor(api: Api, path: string, options: { offset?: number; limit?: number; start?: Start }) {
        this.#api = api
        this.#path = path
        this.#start = options.start
        this.#decoder = new CommandDecoder(options.offset ?? 0, options.limit)
    }

    /** Whether the server may have started the command. */
    get mayHaveStarted(): boolean {
        return this.hasStarted || this.#isStarting || this.#wasLost
    }

    open(isFirst: boolean, signal: AbortSignal): Promise<Response> {
        if (this.#start && !this.#isRunning) return this.#begin(this.#start, isFirst, signal)
        const call = { method: 'GET', path: `${this.#path}/output`, query: { offset: this.#decoder.offset } } as const
        return openStream(this.#api, { ...call, options: { signal } }, isFirst)
    }

    async #begin(start: Start, isFirst: boolean, signal: AbortSignal): Promise<Response> {
        this.#isStarting = true
        try {
            const response = await start(isFirst, signal)
            this.hasStarted = true
            return response
        } catch (error) {
            this.#wasLost ||= isLost(error)
            throw error
        } finally {
            this.#isStarting = false
        }
    }

    decode(event: ServerMessage, response: Response): Iterable<CommandEvent> {
        this.#isRunning = true
        this.requestId = response.headers.get('x-request-id') ?? undefined
        return this.#decoder.decode(event)
    }

    isLast(item: CommandEvent): boolean {
        return item.type === 'exit'
    }
}

/** Functions that receive output as it arrives. */
export interface OutputCallbacks {
    /** Receives pieces of standard output. */
    onStdout?: (data: string) => void
    /** Receives pieces of standard error. */
    onStderr?: (data: string) => void
}

/** Bytes of output that a result has, unless `maxOutputSize` is set. */
const RESULT_BYTES = 16 * 1024 * 1024

/** Collects the events of a command. Throws `ProcessTimeoutError` if its time-out killed it. */
export async function collect(
    events: AsyncIterable<CommandEvent>,
    source: OutputSource,
    options: OutputCallbacks & { maxOutputSize?: number },
): Promise<CommandResult> {
    const output = { stdout: '', stderr: '' }
    // The source applies `maxOutputSize`.
    let room = options.maxOutputSize === undefined ? RESULT_BYTES : Number.POSITIVE_INFINITY
    let isIncomplete = false
    let exit: ExitEvent | undefined
    for await (const event of events) {
        if (event.type === 'stdout' || event.type === 'stderr') {
            const text = event.data
            const size = toBytes(text).length
            output[event.type] += size <= room ? text : firstBytes(text, room)
            isIncomplete ||= size > room
            room -= Math.min(size, room)
            const callback = event.type === 'stdout' ? options.onStdout : options.onStderr
            callback?.(text)
        } else if (event.type === 'gap') {
            isIncomplete = true
        } else if (event.type === 'exit') {
            exit = event
        }
    }
    if (!exit) throw new Error('unreachable: a stream of output ends with `exit` or an error')
    const result = new CommandResult(exit, output.stdout, output.stderr, isIncomplete)
    if (exit.timedOut) throw timeoutError(result, source.requestId)
    return result
}

/** Returns the characters of a text that are within a number of bytes. */
function firstBytes(text: string, length: number): string {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    return decoder.decode(toBytes(text).subarray(0, length), { stream: true })
}

/** Returns the error that the server has for a command that it does not stream. */
function timeoutError(result: CommandResult, requestId: string | undefined): ProcessTimeoutError {
    return new ProcessTimeoutError({
        code: 4001,
        name: 'PROCESS_TIMEOUT',
        status: 422,
        message: 'the command did not end within its timeout and was killed',
        remediation: 'Set a longer `timeout`, or run the command in the background and attach to it.',
        details: { ...result },
        requestId,
    })
}

/** A command that runs on its own. Iteration and `wait()` follow its output; to stop either leaves it running. */
export class Command implements AsyncIterable<CommandEvent> {
    /** Id of the command. */
    readonly id: string
    readonly #api: Api
    readonly #path: string
    readonly #offset: number
    readonly #options: OutputCallbacks & RequestOptions
    /** The last write; the next one follows it. */
    #written: Promise<void> = Promise.resolve()

    /** @internal */
    constructor(
        api: Api,
        sandbox: string,
        id: string,
        options: OutputCallbacks & RequestOptions & { offset?: number },
    ) {
        this.id = id
        this.#api = api
        this.#path = path`/sandboxes/${sandbox}/process/${id}`
        this.#offset = options.offset ?? 0
        this.#options = options
    }

    /** Iterates over the output. */
    [Symbol.asyncIterator](): AsyncGenerator<CommandEvent, void, undefined> {
        return follow(this.#api, this.#source(), this.#options.signal)
    }

    #source(): OutputSource {
        return new OutputSource(this.#api, this.#path, { offset: this.#offset })
    }

    /** Waits for the end of the command, and returns its result. */
    wait(options: RequestOptions = {}): Promise<CommandResult> {
        const source = this.#source()
        return collect(follow(this.#api, source, options.signal ?? this.#options.signal), source, this.#options)
    }

    /** Writes to the standard input of the command. Writes arrive in the order of the calls. */
    write(data: string | Uint8Array, options?: RequestOptions): Promise<void> {
        const bytes = toBytes(data)
        const key = options?.idempotencyKey
        return this.#inOrder(async () => {
            for (let at = 0; at < bytes.length; at += INPUT_BYTES) {
                // Each piece is a separate request.
                const idempotencyKey = key && at > 0 ? `${key}-${at / INPUT_BYTES}` : key
                const piece = { data: toBase64(bytes.subarray(at, at + INPUT_BYTES)) }
                await this.#input(piece, { ...options, idempotencyKey })
            }
        }, options?.signal)
    }

    /** Closes the standard input of the command. */
    closeStdin(options?: RequestOptions): Promise<void> {
        return this.#inOrder(() => this.#input({ eof: true }, options), options?.signal)
    }

    #inOrder(write: () => Promise<void>, signal: AbortSignal | undefined): Promise<void> {
        const before = this.#written
        const written = abortable(before, signal).then(write)
        // A write that no longer waits for its turn leaves the turn of the next one as it is.
        this.#written = Promise.allSettled([before, written]).then(() => {})
        return written
    }

    async #input(json: object, options: RequestOptions | undefined): Promise<void> {
        await this.#api.empty({ method: 'POST', path: `${this.#path}/input`, json, options })
    }

    /** Sends a signal to the command and its children; `SIGTERM` by default. */
    async kill(signal?: Signal, options?: RequestOptions): Promise<void> {
        const json = { signal: signalNumber(signal) }
        await this.#api.empty({ method: 'POST', path: `${this.#path}/kill`, json, options })
    }
}
