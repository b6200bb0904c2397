import { type Api, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import type { Schemas } from './resource.js'
import { Terminal } from './terminal.js'

/** A secret that opens one stream once. `url` is complete. */
export type Ticket = Schemas['Ticket']

/** Options of a new terminal. */
export interface PTYOptions extends RequestOptions {
    /** Width in columns; 80 by default. */
    cols?: number
    /** Height in rows; 24 by default. */
    rows?: number
    /** Working directory; `/workspace` by default. */
    cwd?: string
    /** Environment variables, in addition to those of the sandbox. */
    envs?: Record<string, string>
    /** The program to run. Default: `/bin/bash` if it exists, else `/bin/sh`. */
    shell?: string
    /** Receives the output as it arrives. Without it, iterate over the terminal. */
    onData?: (data: Uint8Array) => void
}

/** Options of `attach`. */
export interface AttachOptions extends RequestOptions {
    /** Number of bytes of output to skip. */
    offset?: number
    /** Receives the output as it arrives. Without it, iterate over the terminal. */
    onData?: (data: Uint8Array) => void
}

/** The terminals of a sandbox. */
export class PTYService {
    readonly #api: Api
    readonly #sandbox: string

    /** @internal */
    constructor(api: Api, sandbox: string) {
        this.#api = api
        this.#sandbox = sandbox
    }

    /** Creates a terminal, and connects to it. */
    async create(options: PTYOptions = {}): Promise<Terminal> {
        const { cols = 80, rows = 24, cwd, envs, shell, onData, signal, idempotencyKey } = options
        const json = { cols, rows, cwd, envs, shell }
        const call = { method: 'POST', path: path`/sandboxes/${this.#sandbox}/pty`, json } as const
        const session = await this.#api.json<Schemas['PtySession']>({ ...call, options: { signal, idempotencyKey } })
        return Terminal.open(this.#api, this.#sandbox, session.id, { onData, signal, isNew: true })
    }

    /** Connects to a terminal that was created earlier. */
    attach(ptyId: string, options: AttachOptions = {}): Promise<Terminal> {
        return Terminal.open(this.#api, this.#sandbox, ptyId, options)
    }

    /** Creates a ticket with which a page in a browser connects to a terminal once, within 30 seconds. */
    ticket(ptyId: string, options?: RequestOptions): ApiPromise<Ticket> {
        const json = { path: `/api/v1${path`/sandboxes/${this.#sandbox}/pty/${ptyId}/ws`}` }
        return this.#api.json({ method: 'POST', path: '/tickets', json, options })
    }

    /** Changes the size of a terminal. */
    resize(ptyId: string, cols: number, rows: number, options?: RequestOptions): ApiPromise<void> {
        const call = { method: 'POST', path: path`/sandboxes/${this.#sandbox}/pty/${ptyId}/resize` } as const
        return this.#api.empty({ ...call, json: { cols, rows }, options })
    }

    /** Closes a terminal, and kills the programs in it. */
    kill(ptyId: string, options?: RequestOptions): ApiPromise<void> {
        return this.#api.empty({ method: 'DELETE', path: path`/sandboxes/${this.#sandbox}/pty/${ptyId}`, options })
    }
}
