// Transports and bodies of tests.

import type { Transport, TransportRequest } from '../src/transport.js'

type Respond = (request: TransportRequest) => Response | Promise<Response>

/** A transport that responds with the result of a function, and keeps the requests. */
export function transportOf(respond: Respond): Transport & { requests: TransportRequest[] } {
    const requests: TransportRequest[] = []
    return {
        requests,
        send: async (request) => {
            requests.push(request)
            return respond(request)
        },
        url: (path) => `http://server${path}`,
        connect: () => Promise.reject(new Error('no sockets')),
        close: async () => {},
    }
}

/** A body that ends with an error after some text. */
export function cut(text: string): ReadableStream<Uint8Array> {
    const chunks = [new TextEncoder().encode(text)]
    return new ReadableStream({
        pull(controller) {
            const chunk = chunks.shift()
            if (chunk) controller.enqueue(chunk)
            else controller.error(new Error('the connection was closed'))
        },
    })
}

/** A body that stays open after some text. `wasCancelled` becomes true when its reader leaves. */
export function open(text: string): { body: ReadableStream<Uint8Array>; wasCancelled: boolean } {
    const state = {
        wasCancelled: false,
        body: new ReadableStream<Uint8Array>({
            start: (controller) => controller.enqueue(new TextEncoder().encode(text)),
            cancel: () => {
                state.wasCancelled = true
            },
        }),
    }
    return state
}
