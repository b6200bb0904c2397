import { type Api, checkedPath, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import { InvalidRequestError } from './errors.js'
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

    /** Returns the address of a port, for requests with a key. Throws if the path leads to another address. */
    url(port: number, below = ''): string {
        const base = `/api/v1${checkedPath(path`/sandboxes/${this.#sandbox}/ports/${port}`)}/`
        const url = this.#api.transport.url(base + below.replace(/^\/+/, ''))
        // As a program that uses the address reads it: `..` and a backslash change the path.
        if (!new URL(url).href.startsWith(new URL(this.#api.transport.url(base)).href)) {
            throw new InvalidRequestError({
                name: 'INVALID_PATH',
                message: `the path \`${below}\` leads out of the port ${port}`,
                remediation: 'Use a path without `..`.',
            })
        }
        return url
    }

    /** Creates a link that opens the port without a key, for `expiresIn` seconds; 3600 by default. */
    link(port: number, options: { expiresIn?: number } & RequestOptions = {}): ApiPromise<PortLink> {
        const { expiresIn, ...rest } = options
        const call = { method: 'POST', path: path`/sandboxes/${this.#sandbox}/ports/${port}/link` } as const
        return this.#api.json({ ...call, json: { expiresIn }, options: rest })
    }
}
