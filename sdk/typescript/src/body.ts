// Bodies of responses that end when a signal aborts or the connection is silent.

import { ConnectionLostError } from './errors.js'

/** Milliseconds without data after which a body counts as lost. The server sends something every 15 s. */
export const SILENCE = 45_000

/** Statuses whose responses have no body. */
const EMPTY = new Set([204, 205, 304])

/** Returns the body of a response. Some runtimes have one for statuses that have none. */
export function bodyOf(response: Response): ReadableStream<Uint8Array> | null {
    return EMPTY.has(response.status) ? null : response.body
}

/** Options of `guarded`. */
export interface GuardOptions {
    /** Ends the body with its reason. */
    signal: AbortSignal
    /** Is called once the body has ended. */
    ended?: () => void
    /** Milliseconds without data after which the body counts as lost. */
    silence?: number
}

/**
 * Returns a response whose body ends with the reason of the signal, or with `ConnectionLostError` if it fails or is
 * silent. Time that passes between two reads does not count.
 */
export function guarded(response: Response, options: GuardOptions): Response {
    const { signal, ended = () => {}, silence = SILENCE } = options
    const reader = bodyOf(response)?.getReader()
    if (!reader) {
        ended()
        return response
    }
    let stopped: { reason: unknown } | undefined
    const stop = (reason: unknown) => {
        stopped ??= { reason }
        // Ends the read that waits.
        reader.cancel(reason).catch(() => {})
    }
    const abort = () => stop(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    const finish = () => {
        signal.removeEventListener('abort', abort)
        ended()
    }
    const quiet = () => stop(new ConnectionLostError(`the response had no data for ${silence} ms`))
    const source: UnderlyingDefaultSource<Uint8Array> = {
        async pull(controller) {
            const timer = setTimeout(quiet, silence)
            try {
                const { done, value } = await reader.read()
                if (stopped) throw stopped.reason
                if (!done) return controller.enqueue(value)
                finish()
                controller.close()
            } catch (error) {
                finish()
                const lost = () => new ConnectionLostError(`the response was lost: ${(error as Error).message}`, error)
                controller.error(stopped ? stopped.reason : lost())
            } finally {
                clearTimeout(timer)
            }
        },
        async cancel(reason) {
            finish()
            await reader.cancel(reason)
        },
    }
    const { status, statusText, headers } = response
    return new Response(new ReadableStream(source, { highWaterMark: 0 }), { status, statusText, headers })
}
