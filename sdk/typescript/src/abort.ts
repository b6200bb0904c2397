// Signals that end a wait.

/** Waits for a promise, or rejects with the reason of the signal when it aborts. The work of the promise goes on. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    if (!signal) return promise
    let stop = () => {}
    const aborted = new Promise<never>((_, reject) => {
        stop = () => reject(signal.reason)
        signal.addEventListener('abort', stop, { once: true })
        if (signal.aborted) stop()
    })
    try {
        return await Promise.race([promise, aborted])
    } finally {
        signal.removeEventListener('abort', stop)
    }
}

/** The part of an `AbortSignal` that a listener needs. */
export interface Stop {
    readonly aborted: boolean
    readonly reason: unknown
    addEventListener(type: 'abort', listener: () => void, options: { once: true }): void
    removeEventListener(type: 'abort', listener: () => void): void
}

/** Stops any number of listeners at once. Node.js warns of more than ten listeners of an `AbortSignal`. */
export class Stopper implements Stop {
    readonly #listeners = new Set<() => void>()
    aborted = false
    reason: unknown

    /** Calls the listeners. */
    abort(reason: unknown): void {
        this.aborted = true
        this.reason = reason
        for (const listener of this.#listeners) listener()
        this.#listeners.clear()
    }

    addEventListener(_type: 'abort', listener: () => void): void {
        this.#listeners.add(listener)
    }

    removeEventListener(_type: 'abort', listener: () => void): void {
        this.#listeners.delete(listener)
    }
}

/** A signal that aborts with the first of others. */
export interface Link {
    readonly signal: AbortSignal
    /** Aborts the signal, and no other. */
    abort(reason?: unknown): void
    /** Lets go of the others, which may live long. */
    unlink(): void
}

/** Returns a signal that aborts with the first of others. */
export function linked(...others: (Stop | undefined)[]): Link {
    const controller = new AbortController()
    const unlinks: (() => void)[] = []
    for (const other of others) {
        if (!other) continue
        const stop = () => controller.abort(other.reason)
        if (other.aborted) stop()
        other.addEventListener('abort', stop, { once: true })
        unlinks.push(() => other.removeEventListener('abort', stop))
    }
    return {
        signal: controller.signal,
        abort: (reason) => controller.abort(reason),
        unlink: () => {
            for (const unlink of unlinks) unlink()
        },
    }
}
