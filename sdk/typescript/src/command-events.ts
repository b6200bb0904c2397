import { concat, fromBase64, toBytes } from './bytes.js'
import type { Schemas } from './resource.js'
import type { ServerMessage } from './sse.js'

type RawEvent = Schemas['StreamEvent']
type OutputType = 'stdout' | 'stderr'

/** The command has started. */
export interface StartEvent {
    type: 'start'
    commandId: string
}

/** The output from `offset` to `end` is lost, because the server no longer has it. */
export interface GapEvent {
    type: 'gap'
    commandId: string
    offset: number
    end: number
}

/** The command has ended. The last event. */
export interface ExitEvent {
    type: 'exit'
    commandId: string
    /** Exit code; 128 plus the number of the signal if a signal killed the command. */
    exitCode: number
    /** The signal that killed the command. */
    signal: number | null
    /** Whether the time-out of the command killed it. */
    timedOut: boolean
    /** Whether output was discarded because of `maxOutputSize`. */
    truncated: boolean
}

/** An event of a command. */
export type CommandEvent = StartEvent | OutputEvent | GapEvent | ExitEvent

/** A piece of output. Text and bytes are computed when they are read. */
export class OutputEvent {
    readonly type: OutputType
    readonly commandId: string
    /** Position of the piece in the output, in bytes. */
    readonly offset: number
    readonly #content: string | Uint8Array
    readonly #before: Uint8Array
    readonly #after: number

    /** `before` are the first bytes of a character from earlier pieces; the last `after` bytes of both wait for later ones. */
    constructor(
        type: OutputType,
        commandId: string,
        offset: number,
        content: string | Uint8Array,
        before: Uint8Array,
        after: number,
    ) {
        this.type = type
        this.commandId = commandId
        this.offset = offset
        this.#content = content
        this.#before = before
        this.#after = after
    }

    /** The piece as text. A character that is cut off is in the text of the next piece. */
    get data(): string {
        if (typeof this.#content === 'string' && this.#before.length === 0) return this.#content
        const bytes = concat([this.#before, this.bytes])
        return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes.subarray(0, bytes.length - this.#after))
    }

    /** Returns the fields with the text, for logs. */
    toJSON(): { type: OutputType; commandId: string; offset: number; data: string } {
        return { type: this.type, commandId: this.commandId, offset: this.offset, data: this.data }
    }

    /** The piece as bytes. */
    get bytes(): Uint8Array {
        return toBytes(this.#content)
    }
}

const NONE = new Uint8Array(0)

/** Converts the events of a stream of output, and counts its offset. */
export class CommandDecoder {
    /** Offset of the next byte of output. */
    offset: number
    #hasStarted = false
    #room: number
    #isTruncated = false
    readonly #pending: Record<OutputType, Uint8Array> = { stdout: NONE, stderr: NONE }

    /** `limit` is the maximum number of bytes of output. */
    constructor(offset: number, limit: number | undefined) {
        this.offset = offset
        this.#room = limit ?? Number.POSITIVE_INFINITY
    }

    /** Returns the events for one of the server. */
    *decode(received: ServerMessage): Generator<CommandEvent> {
        const event: RawEvent = JSON.parse(received.data)
        const commandId = event.commandId
        const type = event.type as CommandEvent['type']
        if (type === 'stdout' || type === 'stderr') {
            const output = this.#output(type, event)
            this.offset = Number(received.id)
            if (output) yield output
        } else if (type === 'gap') {
            const [offset, end] = [event.offset ?? this.offset, event.end ?? this.offset]
            yield* this.#unfinished(commandId)
            this.offset = end
            yield { type, commandId, offset, end }
        } else if (type === 'start' && !this.#hasStarted) {
            this.#hasStarted = true
            yield { type, commandId }
        } else if (type === 'exit') {
            yield* this.#unfinished(commandId)
            const { exitCode, signal, timedOut, truncated } = event
            yield {
                type,
                commandId,
                exitCode: exitCode ?? 1,
                signal: signal ?? null,
                timedOut: timedOut ?? false,
                truncated: (truncated ?? false) || this.#isTruncated,
            }
        }
    }

    #output(type: OutputType, event: RawEvent): OutputEvent | undefined {
        const data = event.data ?? ''
        let content: string | Uint8Array = event.encoding === 'base64' ? fromBase64(data) : data
        if (this.#room !== Number.POSITIVE_INFINITY) {
            const bytes = toBytes(content)
            if (bytes.length > this.#room) {
                content = bytes.subarray(0, this.#room)
                this.#isTruncated = true
            }
            this.#room -= Math.min(bytes.length, this.#room)
        }
        if (content.length === 0) return undefined
        const before = this.#pending[type]
        // A text of the server ends with a complete character.
        const end = typeof content === 'string' ? NONE : concat([before, content.subarray(-3)])
        const after = unfinishedBytes(end)
        this.#pending[type] = after === 0 ? NONE : end.slice(-after)
        return new OutputEvent(type, event.commandId, event.offset ?? this.offset, content, before, after)
    }

    /** Returns the beginnings of characters whose ends will not come. */
    *#unfinished(commandId: string): Generator<OutputEvent> {
        for (const type of ['stdout', 'stderr'] as const) {
            const before = this.#pending[type]
            this.#pending[type] = NONE
            if (before.length > 0) yield new OutputEvent(type, commandId, this.offset, NONE, before, 0)
        }
    }
}

/** Returns the number of bytes at the end that begin a character and do not complete it. */
function unfinishedBytes(bytes: Uint8Array): number {
    for (let back = 1; back <= Math.min(3, bytes.length); back++) {
        const byte = bytes[bytes.length - back] as number
        if (byte >= 0xc0) {
            const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2
            return needed > back ? back : 0
        }
        if (byte < 0x80) return 0
    }
    return 0
}
