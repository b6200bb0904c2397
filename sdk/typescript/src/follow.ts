// Streams that continue after a lost connection.

import type { Api, Call } from './api.js'
import { errorOfBody } from './error-response.js'
import { ConnectionLostError } from './errors.js'
import { isLost, isRejectedForNow } from './retry.js'
import { readEvents, type ServerSentEvent } from './sse.js'

/** Milliseconds after which a stream that cannot be continued fails. */
export const PATIENCE = 60_000
export const FIRST_PAUSE = 100
export const LONGEST_PAUSE = 5_000

/** A stream of the server that can be opened where it was lost. */
export interface Source<T> {
    /** Opens the stream, at first or where it was lost. */
    open(isFirst: boolean): Promise<Response>
    /** Returns the items of an event. */
    decode(event: ServerSentEvent, response: Response): Iterable<T>
    /** Returns true if the stream is complete after an item. */
    isLast(item: T): boolean
}

/** Opens a stream. Only the first request has the retries of the client; `follow` repeats a lost one. */
export function openStream(api: Api, call: Call, isFirst: boolean): Promise<Response> {
    const headers = { accept: 'text/event-stream' }
    return api.open({ ...call, headers, retries: isFirst ? undefined : 0, raisesLost: true })
}

/** Returns the items of a stream. After a lost connection, opens it again for at most a minute. */
export async function* follow<T>(
    api: Api,
    source: Source<T>,
    signal?: AbortSignal,
): AsyncGenerator<T, void, undefined> {
    let isFirst = true
    let isComplete = false
    let lostAt: number | undefined
    let pause = FIRST_PAUSE
    for (;;) {
        try {
            const response = await abortable(source.open(isFirst), signal)
            isFirst = false
            const onData = () => {
                lostAt = undefined
                pause = FIRST_PAUSE
            }
            for await (const event of readEvents(response, { signal, onData })) {
                for (const item of items(source, event, response)) {
                    isComplete ||= source.isLast(item)
                    yield item
                }
            }
            // Read to its end, so that the connection can be used again.
            if (isComplete) return
            throw new ConnectionLostError('the server ended the stream before it was complete')
        } catch (error) {
            if (isComplete) return
            signal?.throwIfAborted()
            // The first request had its retries, unless its response was lost.
            const isPassing = isLost(error) || (!isFirst && isRejectedForNow(error))
            lostAt ??= api.clock.now()
            if (!isPassing || api.clock.now() + pause > lostAt + PATIENCE) throw error
            isFirst = false
            await api.clock.sleep(pause, signal)
            pause = Math.min(2 * pause, LONGEST_PAUSE)
        }
    }
}

/** Returns the items of an event. Throws for events that end a stream. */
function items<T>(source: Source<T>, event: ServerSentEvent, response: Response): Iterable<T> {
    if (event.event === 'stopping') {
        throw new ConnectionLostError('the server is stopping')
    }
    if (event.event === 'error') {
        throw errorOfBody(JSON.parse(event.data).error, 0, response.headers)
    }
    return source.decode(event, response)
}

/** Waits for a response, or rejects when the signal aborts. The response that comes later is discarded. */
async function abortable(opening: Promise<Response>, signal: AbortSignal | undefined): Promise<Response> {
    if (!signal) return opening
    let stop = () => {}
    const aborted = new Promise<never>((_, reject) => {
        stop = () => reject(signal.reason)
        signal.addEventListener('abort', stop, { once: true })
        if (signal.aborted) stop()
    })
    try {
        return await Promise.race([opening, aborted])
    } catch (error) {
        opening.then((response) => response.body?.cancel()).catch(() => {})
        throw error
    } finally {
        signal.removeEventListener('abort', stop)
    }
}
