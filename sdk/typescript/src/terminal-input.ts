import { toBase64 } from './bytes.js'

/** Maximum bytes of one message; the server accepts 64 KiB. */
const PIECE = 32 * 1024

/** Maximum number of messages that are sent and not acknowledged. */
const MAX_UNACKNOWLEDGED = 32

interface Piece {
    seq: number
    message: string
    arrived: () => void
    failed: (error: unknown) => void
}

/** Numbered input of a terminal. It is sent again after a lost connection until it is acknowledged. */
export class TerminalInput {
    #last = 0
    #waiting: Piece[] = []
    /** Number of waiting pieces that were sent on this connection. */
    #sent = 0
    #send: ((message: string) => void) | undefined
    /** Why no more input is accepted. */
    #end: { error: unknown } | undefined

    /** Adds input. Resolves when the terminal has it, or its program has ended. */
    async write(data: Uint8Array): Promise<void> {
        if (this.#end) throw this.#end.error
        const arrivals: Promise<void>[] = []
        for (let at = 0; at < data.length; at += PIECE) {
            const seq = ++this.#last
            const message = JSON.stringify({ type: 'input', data: toBase64(data.subarray(at, at + PIECE)), seq })
            arrivals.push(new Promise((arrived, failed) => this.#waiting.push({ seq, message, arrived, failed })))
        }
        this.#pump()
        await Promise.all(arrivals)
    }

    /** Sends the waiting input on a new connection. */
    connected(send: (message: string) => void): void {
        this.#send = send
        this.#sent = 0
        this.#pump()
    }

    /** Keeps input until there is another connection. */
    disconnected(): void {
        this.#send = undefined
    }

    /** Records that the terminal has the input up to a number. */
    acknowledged(seq: number): void {
        while (this.#waiting[0] && this.#waiting[0].seq <= seq) {
            this.#waiting.shift()?.arrived()
            this.#sent = Math.max(this.#sent - 1, 0)
        }
        this.#pump()
    }

    /** Accepts no more input, because the program has ended. It needs the waiting input no longer. */
    exited(error: unknown): void {
        this.#end ??= { error }
        this.acknowledged(this.#last)
    }

    /** Accepts no more input. The waiting input may not have arrived. */
    fail(error: unknown): void {
        this.#end ??= { error }
        for (const piece of this.#waiting.splice(0)) piece.failed(error)
    }

    #pump(): void {
        while (this.#send && this.#sent < Math.min(this.#waiting.length, MAX_UNACKNOWLEDGED)) {
            this.#send(this.#waiting[this.#sent++]?.message ?? '')
        }
    }
}
