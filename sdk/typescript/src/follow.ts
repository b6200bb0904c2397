// Streams that continue after a lost connection.

import { abortable, linked } from './abort.js'
import type { Api, Call } from './api.js'
import { errorOfBody } from './error-response.js'
import { ConnectionLostError } from './errors.js'
import { isLost, isRejectedForNow } from './retry.js'
import { readEvents, type ServerMessage, type ServerSentEvent } from './sse.js'

/** Milliseconds after which a stream that cannot be continued fails. */
export const PATIENCE = 60_000
export const FIRST_PAUSE = 100
export const LONGEST_PAUSE = 5_000

/** A stream of the server that can be opened where it was lost. */
export interface Source<T> {
    /** Opens the stream, at first or where it was lost. */
    open(isFirst: boolean, signal: AbortSignal): Promise<Response>
    /** Records the id from which the stream continues after a lost connection. */
    begun?(id: string | undefined): void
    /** Returns the items of an event. */
    decode(event: ServerMessage, response: Response): Iterable<T>
    /** Returns true if the stream is complete after an item. */
    isLast(item: T): boolean
}

/** Opens a stream. Only the first request has the retries of the client; `follow` repeats a lost one. */
export function openStream(api: Api, call: Call, isFirst: boolean): Promise<Response> {
    const headers = { accept: 'text/event-stream' }
    return api.open({ ...call, headers, retries: isFirst ? undefined : 0, raisesLost: true })
}

/**
 * Returns the items of a stream. After a lost connection, opens it again for at most a minute. Ends with the reason of
 * the signal, or when the client closes.
 */
export async function* follow<T>(api: Api, source: Source<T>, given?: AbortSignal): AsyncGenerator<T, void, undefined> {
    const { signal, unlink } = linked(given, api.closing)
    const progress: Progress = { isFirst: true, isComplete: false, lostAt: undefined, pause: FIRST_PAUSE }
    try {
        for (;;) {
            try {
                yield* once(source, progress, signal)
                return
            } catch (error) {
                if (progress.isComplete) return
                signal.throwIfAborted()
                await pauseAfter(error, api, progress, signal)
            }
        }
    } finally {
        unlink()
    }
}

interface Progress {
    isFirst: boolean
    isComplete: boolean
    /** Time since which the stream is lost. */
    lostAt: number | undefined
    /** Milliseconds before it is opened again. */
    pause: number
}

/** Opens a stream, and returns its items. Throws if it ends before it is complete. */
async function* once<T>(
    source: Source<T>,
    progress: Progress,
    signal: AbortSignal,
): AsyncGenerator<T, void, undefined> {
    const opening = source.open(progress.isFirst, signal)
    const response = await abortable(opening, signal).catch((error) => {
        // The response that comes later is discarded.
        opening.then((late) => late.body?.cancel()).catch(() => {})
        throw error
    })
    progress.isFirst = false
    const onData = () => {
        progress.lostAt = undefined
        progress.pause = FIRST_PAUSE
    }
    for await (const event of readEvents(response, { signal, onData })) {
        for (const item of items(source, event, response)) {
            progress.isComplete ||= source.isLast(item)
            yield item
        }
    }
    // Read to its end, so that the connection can be used again.
    if (!progress.isComplete) throw new ConnectionLostError('the server ended the stream before it was complete')
}

/** Waits before a lost stream is opened again. Throws the error if that does not help, or a minute has passed. */
async function pauseAfter(error: unknown, api: Api, progress: Progress, signal: AbortSignal): Promise<void> {
    // The first request had its retries, unless its response was lost.
    const isPassing = isLost(error) || (!progress.isFirst && isRejectedForNow(error))
    progress.lostAt ??= api.clock.now()
    if (!isPassing || api.clock.now() + progress.pause > progress.lostAt + PATIENCE) throw error
    progress.isFirst = false
    await api.clock.sleep(progress.pause, signal)
    progress.pause = Math.min(2 * progress.pause, LONGEST_PAUSE)
}

/** Returns the items of an event. Throws for events that end a stream. */
function items<T>(source: Source<T>, event: ServerSentEvent, response: Response): Iterable<T> {
    if (event.event === 'stopping') {
        throw new ConnectionLostError('the server is stopping')
    }
    if (event.data === undefined) {
        source.begun?.(event.id)
        return []
    }
    if (event.event === 'error') {
        throw errorOfBody(JSON.parse(event.data).error, 0, response.headers)
    }
    return source.decode(event as ServerMessage, response)
}
