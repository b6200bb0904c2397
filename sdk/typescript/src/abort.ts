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

/** A signal that aborts with the first of others. */
export interface Link {
    readonly signal: AbortSignal
    /** Aborts the signal, and no other. */
    abort(reason?: unknown): void
    /** Lets go of the others, which may live long. */
    unlink(): void
}

/** Returns a signal that aborts with the first of others. */
export function linked(...others: (AbortSignal | undefined)[]): Link {
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
