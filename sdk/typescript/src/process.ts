import { linked } from './abort.js'
import { type Api, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import { randomName, toBase64 } from './bytes.js'
import { Command, type CommandResult, collect, type OutputCallbacks, OutputSource } from './command.js'
import type { CommandEvent } from './command-events.js'
import { follow, openStream } from './follow.js'
import { ProcessNotFoundError } from './generated/errors.js'
import { type List, list, type PageOptions } from './pages.js'
import type { Schemas } from './resource.js'
import { type Signal, signalNumber } from './signals.js'

/** A command that is running or ended recently. */
export type CommandInfo = Schemas['CommandInfo']

/** Options of a command. */
export interface StartOptions extends RequestOptions {
    /** Working directory; `/workspace` by default. */
    cwd?: string
    /** Environment variables, in addition to those of the sandbox. */
    envs?: Record<string, string>
    /** Milliseconds until the server kills the command; 0 for no limit. */
    timeout?: number
    /** Id of the command: letters, digits, `.`, `_` and `-`. The same call with the same id attaches to the command. */
    commandId?: string
    /** Standard input of the command. */
    stdin?: string | Uint8Array
    /** Whether standard input stays open for `write()`. */
    openStdin?: boolean
}

/** Options of a command whose output is streamed. */
export interface StreamOptions extends StartOptions {
    /** Maximum bytes of output of both streams together; the rest is discarded. A result has at most 16 MiB by default. */
    maxOutputSize?: number
    /** Whether the command is killed when the signal aborts, the iteration stops or an error ends it; `kill` by default. */
    onAbort?: 'kill' | 'leave'
}

/** Options of `run`. The default time-out is 60 s. */
export interface RunOptions extends StreamOptions, OutputCallbacks {}

/** Milliseconds that a cancelled call waits until its command is killed. */
const KILL_TIMEOUT = 10_000

/** Milliseconds between two attempts to kill a command whose start is on its way. */
const KILL_PAUSE = 200

/** The commands of a sandbox. */
export class ProcessService {
    readonly #api: Api
    readonly #sandbox: string

    /** @internal */
    constructor(api: Api, sandbox: string) {
        this.#api = api
        this.#sandbox = sandbox
    }

    /** Runs a command line, or a program with its arguments, and returns its result. */
    async run(command: string | string[], options: RunOptions = {}): Promise<CommandResult> {
        const [source, events] = this.#stream(command, options)
        return collect(events, source, options)
    }

    /** Runs a command, and returns its output as it arrives. To stop the iteration kills the command. */
    runStream(command: string | string[], options: StreamOptions = {}): AsyncGenerator<CommandEvent, void, undefined> {
        return this.#stream(command, options)[1]
    }

    /** Starts a command that runs on its own, with an open standard input. The server keeps its newest output. */
    async start(command: string | string[], options: StartOptions & OutputCallbacks = {}): Promise<Command> {
        const json = { ...this.#body(command, { openStdin: true, ...options }), background: true }
        await this.#api.json({ method: 'POST', path: this.#path('run'), json, options: requestOptions(options) })
        return new Command(this.#api, this.#sandbox, json.commandId, options)
    }

    /** Returns a command that was started earlier. */
    async attach(
        commandId: string,
        options: OutputCallbacks & RequestOptions & { offset?: number } = {},
    ): Promise<Command> {
        await this.get(commandId, { signal: options.signal })
        return new Command(this.#api, this.#sandbox, commandId, options)
    }

    /** Sends a signal to a command and its children; `SIGTERM` by default. */
    kill(commandId: string, signal?: Signal, options?: RequestOptions): ApiPromise<void> {
        const json = { signal: signalNumber(signal) }
        return this.#api.empty({ method: 'POST', path: this.#path(commandId, 'kill'), json, options })
    }

    /** Returns a command. */
    get(commandId: string, options?: RequestOptions): ApiPromise<CommandInfo> {
        return this.#api.json({ method: 'GET', path: this.#path(commandId), options })
    }

    /** Lists running and recently ended commands, oldest first. */
    list(options: PageOptions = {}): List<CommandInfo> {
        const { limit, cursor, ...rest } = options
        return list(this.#api, {
            path: path`/sandboxes/${this.#sandbox}/process`,
            query: { limit, cursor },
            options: rest,
        })
    }

    #path(...parts: string[]): string {
        return parts.reduce((text, part) => text + path`/${part}`, path`/sandboxes/${this.#sandbox}/process`)
    }

    #body(command: string | string[], options: StreamOptions) {
        const { cwd, envs, timeout, commandId = randomName(), stdin, openStdin, maxOutputSize } = options
        const given = typeof command === 'string' ? { command } : { args: command }
        const input = typeof stdin === 'string' ? { stdin } : stdin ? { stdinBase64: toBase64(stdin) } : {}
        return { ...given, ...input, commandId, cwd, envs, timeout, openStdin, maxOutputSize }
    }

    #stream(
        command: string | string[],
        options: StreamOptions,
    ): [OutputSource, AsyncGenerator<CommandEvent, void, undefined>] {
        const json = { ...this.#body(command, options), stream: true }
        // The same for all attempts, so that a lost start is attached to.
        const idempotencyKey = options.idempotencyKey ?? randomName()
        const call = { method: 'POST', path: this.#path('run'), json, keepsRequest: true } as const
        // If the caller aborts, the command may have started, and must be killed.
        const start = (isFirst: boolean, signal: AbortSignal) =>
            openStream(this.#api, { ...call, options: { idempotencyKey, signal } }, isFirst)
        const source = new OutputSource(this.#api, this.#path(json.commandId), { limit: options.maxOutputSize, start })
        return [source, this.#events(source, json.commandId, options)]
    }

    async *#events(
        source: OutputSource,
        id: string,
        options: StreamOptions,
    ): AsyncGenerator<CommandEvent, void, undefined> {
        const { signal, unlink } = linked(options.signal, this.#api.closing)
        signal.throwIfAborted()
        let isOver = options.onAbort === 'leave'
        let killed: Promise<void> | undefined
        const kill = () => {
            if (!isOver) killed ??= this.#api.finish(this.#killNow(source, id))
            return killed
        }
        // Also while the caller does not ask for the next event.
        signal.addEventListener('abort', kill, { once: true })
        try {
            for await (const event of follow(this.#api, source, signal)) {
                isOver ||= event.type === 'exit'
                yield event
            }
        } finally {
            unlink()
            await kill()
        }
    }

    /** Kills a command whose caller no longer waits for it, as soon as it has started. Never throws. */
    async #killNow(source: OutputSource, id: string): Promise<void> {
        const [limit, done] = [new AbortController(), new AbortController()]
        const { clock } = this.#api
        clock.sleep(KILL_TIMEOUT, done.signal).then(
            () => limit.abort(),
            () => {},
        )
        try {
            while (source.mayHaveStarted && !(await this.#tryKill(source, id, limit.signal))) {
                await clock.sleep(KILL_PAUSE, limit.signal)
            }
        } catch {
            // The reason of the caller is more important, and the time-out of the command ends it.
        } finally {
            done.abort()
        }
    }

    /** Kills a command. Returns false if it has not started yet. */
    async #tryKill(source: OutputSource, id: string, signal: AbortSignal): Promise<boolean> {
        const hasStarted = source.hasStarted
        const call = {
            method: 'POST',
            path: this.#path(id, 'kill'),
            json: { signal: signalNumber('SIGKILL') },
        } as const
        try {
            await this.#api.empty({ ...call, options: { signal }, isCleanup: true })
            return true
        } catch (error) {
            // A command that had started has ended.
            if (error instanceof ProcessNotFoundError) return hasStarted
            throw error
        }
    }
}

function requestOptions(options: RequestOptions): RequestOptions {
    return { signal: options.signal, idempotencyKey: options.idempotencyKey }
}
