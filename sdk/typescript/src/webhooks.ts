import { type Api, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import { concat, fromBase64, toBase64, toBytes } from './bytes.js'
import { withDates } from './dates.js'
import { WebhookSignatureError } from './errors.js'
import type { Event } from './events.js'
import { type List, list, type PageOptions } from './pages.js'
import { type Schemas, split } from './resource.js'

/** A receiver of events. */
export type Webhook = Schemas['Webhook']
/** A webhook with its new secret. */
export type RotatedWebhook = Schemas['RotatedWebhook']
/** A delivery of an event to a webhook. */
export type Delivery = Schemas['Delivery']

/** The webhooks of the tenant. */
export class WebhookService {
    readonly #api: Api

    /** @internal */
    constructor(api: Api) {
        this.#api = api
    }

    /** Creates a webhook. */
    create(params: Schemas['CreateWebhook'] & RequestOptions): ApiPromise<Webhook> {
        const { options, body } = split(params)
        return this.#api.json({ method: 'POST', path: '/webhooks', json: body, options })
    }

    /** Returns a webhook. */
    get(id: string, options?: RequestOptions): ApiPromise<Webhook> {
        return this.#api.json({ method: 'GET', path: path`/webhooks/${id}`, options })
    }

    /** Lists webhooks. */
    list(options: PageOptions = {}): List<Webhook> {
        const { limit, cursor, ...rest } = options
        return list(this.#api, { path: '/webhooks', query: { limit, cursor }, options: rest })
    }

    /** Changes the address or the kinds of events. */
    update(id: string, params: Schemas['ChangeWebhook'] & RequestOptions): ApiPromise<Webhook> {
        const { options, body } = split(params)
        return this.#api.json({ method: 'PATCH', path: path`/webhooks/${id}`, json: body, options })
    }

    /** Deletes a webhook. */
    delete(id: string, options?: RequestOptions): ApiPromise<void> {
        return this.#api.empty({ method: 'DELETE', path: path`/webhooks/${id}`, options })
    }

    /** Replaces the secret. For a time, the new and the previous secret both sign. */
    rotate(id: string, params: Schemas['RotateWebhook'] & RequestOptions = {}): ApiPromise<RotatedWebhook> {
        const { options, body } = split(params)
        return this.#api.json({ method: 'POST', path: path`/webhooks/${id}/rotate`, json: body, options })
    }

    /** Lists the deliveries of a webhook. */
    deliveries(id: string, options: { state?: Schemas['DeliveryState'] } & PageOptions = {}): List<Delivery> {
        const { state, limit, cursor, ...rest } = options
        return list(this.#api, {
            path: path`/webhooks/${id}/deliveries`,
            query: { state, limit, cursor },
            options: rest,
        })
    }

    /** Delivers an event again. */
    replay(id: string, event: number, options?: RequestOptions): ApiPromise<void> {
        return this.#api.empty({ method: 'POST', path: path`/webhooks/${id}/deliveries/${event}/replay`, options })
    }
}

/** Options of `verifyWebhook`. */
export interface VerifyOptions {
    /** Maximum age of a delivery in milliseconds; 5 minutes by default. */
    tolerance?: number
    /** The present time; that of the machine by default. */
    now?: Date
}

/**
 * Verifies a delivery of a webhook, as Standard Webhooks describe, and returns its event. Throws
 * `WebhookSignatureError`. `body` is the body as it was received; `secret` may be two secrets during a rotation.
 */
export async function verifyWebhook(
    body: string | Uint8Array,
    headers: Headers | Record<string, string | string[] | undefined>,
    secret: string | string[],
    options: VerifyOptions = {},
): Promise<Event> {
    const { tolerance = 300_000, now = new Date() } = options
    const id = header(headers, 'webhook-id')
    const timestamp = header(headers, 'webhook-timestamp')
    const signatures = header(headers, 'webhook-signature')
    if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
        throw new WebhookSignatureError('the body must be text or bytes as they were received, not a parsed object')
    }
    const age = Math.abs(now.getTime() - Number(timestamp) * 1000)
    if (!(age <= tolerance)) {
        throw new WebhookSignatureError(`the delivery has the time ${timestamp}, which is too far from the present`)
    }
    const signed = concat([toBytes(`${id}.${timestamp}.`), toBytes(body)])
    const expected = await Promise.all([secret].flat().map((one) => sign(one, signed)))
    const isGenuine = signatures.split(' ').some((given) => expected.some((own) => isEqual(given, own)))
    if (!isGenuine) {
        throw new WebhookSignatureError('no signature of the delivery is by the secret')
    }
    const text = typeof body === 'string' ? body : new TextDecoder().decode(body)
    return withDates(JSON.parse(text)) as Event
}

function header(headers: Headers | Record<string, string | string[] | undefined>, name: string): string {
    const found =
        headers instanceof Headers
            ? headers.get(name)
            : [Object.entries(headers).find(([other]) => other.toLowerCase() === name)?.[1]].flat()[0]
    if (typeof found !== 'string') {
        throw new WebhookSignatureError(`the request has no header \`${name}\``)
    }
    return found
}

const PREFIX = 'whsec_'

async function sign(secret: string, message: Uint8Array): Promise<string> {
    const key = secret.startsWith(PREFIX) ? fromBase64(secret.slice(PREFIX.length)) : toBytes(secret)
    if (key.length === 0) throw new WebhookSignatureError('the secret of the webhook is empty')
    const algorithm = { name: 'HMAC', hash: 'SHA-256' }
    const imported = await crypto.subtle.importKey('raw', key as BufferSource, algorithm, false, ['sign'])
    const signature = await crypto.subtle.sign('HMAC', imported, message as BufferSource)
    return `v1,${toBase64(new Uint8Array(signature))}`
}

/** Compares in a time that does not depend on the place of a difference. */
function isEqual(one: string, other: string): boolean {
    let difference = one.length ^ other.length
    for (let at = 0; at < other.length; at++) difference |= one.charCodeAt(at) ^ other.charCodeAt(at)
    return difference === 0
}
