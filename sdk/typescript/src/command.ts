import { type Api, path, type RequestOptions } from './api.js'
import { toBase64, toBytes } from './bytes.js'
import { CommandDecoder, type CommandEvent, type ExitEvent } from './command-events.js'
import { CommandExitError } from './errors.js'
import { follow, openStream, type Source } from './follow.js'
import { ProcessTimeoutError } from './generated/errors.js'
import type { ServerSentEvent } from './sse.js'
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

type Start = (isFirst: boolean) => Promise<Response>

/** The output of a command, from an offset. The first response comes from `start`, if the command is new. */
export class OutputSource implements Source<CommandEvent> {
    readonly #api: Api
    readonly #path: string
    readonly #start: Start | undefined
    readonly #decoder: CommandDecoder
    #isRunning = false
    /** The request that opens the stream. */
    opening: Promise<unknown> = Promise.resolve()
    /** Id of the request whose response was read last. */
    requestId: string | undefined

    constructor(api: Api, path: string, options: { offset?: number; limit?: number; start?: Start }) {
        this.#api = api
        this.#path = path
        this.#start = options.start
        this.#decoder = new CommandDecoder(options.offset ?? 0, options.limit)
    }

    open(isFirst: boolean): Promise<Response> {
        const opening = this.#start && !this.#isRunning ? this.#start(isFirst) : this.#attach(isFirst)
        this.opening = opening.catch(() => {})
        return opening
    }

    #attach(isFirst: boolean): Promise<Response> {
        const query = { offset: this.#decoder.offset }
        return openStream(this.#api, { method: 'GET', path: `${this.#path}/output`, query }, isFirst)
    }

    decode(event: ServerSentEvent, response: Response): Iterable<CommandEvent> {
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

/** Collects the events of a command. Throws `ProcessTimeoutError` if its time-out killed it. */
export async function collect(
    events: AsyncIterable<CommandEvent>,
    source: OutputSource,
    callbacks: OutputCallbacks,
): Promise<CommandResult> {
    const [stdout, stderr]: [string[], string[]] = [[], []]
    let hasGap = false
    let exit: ExitEvent | undefined
    for await (const event of events) {
        if (event.type === 'stdout') {
            stdout.push(event.data)
            callbacks.onStdout?.(event.data)
        } else if (event.type === 'stderr') {
            stderr.push(event.data)
            callbacks.onStderr?.(event.data)
        } else if (event.type === 'gap') {
            hasGap = true
        } else if (event.type === 'exit') {
            exit = event
        }
    }
    if (!exit) throw new Error('unreachable: a stream of output ends with `exit` or an error')
    const result = new CommandResult(exit, stdout.join(''), stderr.join(''), hasGap)
    if (exit.timedOut) throw timeoutError(result, source.requestId)
    return result
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
        return this.#inOrder(async () => {
            for (let at = 0; at < bytes.length; at += INPUT_BYTES) {
                await this.#input({ data: toBase64(bytes.subarray(at, at + INPUT_BYTES)) }, options)
            }
        })
    }

    /** Closes the standard input of the command. */
    closeStdin(options?: RequestOptions): Promise<void> {
        return this.#inOrder(() => this.#input({ eof: true }, options))
    }

    #inOrder(write: () => Promise<void>): Promise<void> {
        const written = this.#written.then(write)
        this.#written = written.catch(() => {})
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
