import { type Api, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import type { Schemas } from './resource.js'

/** An address with a token that opens a port without a key. */
export type PortLink = Schemas['PortLink']

/** The ports of a sandbox. */
export class PortService {
    readonly #api: Api
    readonly #sandbox: string

    /** @internal */
    constructor(api: Api, sandbox: string) {
        this.#api = api
        this.#sandbox = sandbox
    }

    /** Returns the address of a port, for requests with a key. */
    url(port: number, below = ''): string {
        const base = path`/sandboxes/${this.#sandbox}/ports/${port}/`
        return this.#api.transport.url(`/api/v1${base}${below.replace(/^\/+/, '')}`)
    }

    /** Creates a link that opens the port without a key, for `expiresIn` seconds; 3600 by default. */
    link(port: number, options: { expiresIn?: number } & RequestOptions = {}): ApiPromise<PortLink> {
        const { expiresIn, ...rest } = options
        const call = { method: 'POST', path: path`/sandboxes/${this.#sandbox}/ports/${port}/link` } as const
        return this.#api.json({ ...call, json: { expiresIn }, options: rest })
    }
}
