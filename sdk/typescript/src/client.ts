import { AgentService, KeyService, SystemService, TemplateService, TenantService } from './admin.js'
import { abortable } from './abort.js'
import { Api, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import { EventService } from './events.js'
import { ProjectService } from './projects.js'
import type { Schemas } from './resource.js'
import { realClock } from './retry.js'
import { ReviewService } from './reviews.js'
import type { Sandbox } from './sandbox.js'
import { type CreateSandboxParams, SandboxService } from './sandboxes.js'
import { SnapshotService } from './snapshots.js'
import { FetchTransport, type Transport } from './transport.js'
import { WebhookService } from './webhooks.js'
import { WorkspaceService } from './workspaces.js'

/** Settings of a client. Without `apiUrl`, the client finds the server by variables or on this machine. */
export interface ClientConfig {
    /** Address of the server, such as `http://127.0.0.1:8080`. */
    apiUrl?: string
    /** API key. */
    apiKey?: string
    /** Milliseconds until a response begins; 30,000 by default. Long operations have at least 120,000 or 900,000. */
    timeout?: number
    /** Maximum number of retries; 3 by default. */
    retries?: number
    /** Milliseconds before the first retry; 1,000 by default. */
    retryDelay?: number
    /** Factor between the pauses of retries; 2 by default. */
    retryBackoff?: number
    /** Replaces `fetch`. */
    fetch?: typeof fetch
    /** Replaces the connection to the server, for tests. */
    transport?: Transport
}

/** A client of an Elevo server. */
export class WorkspaceClient implements AsyncDisposable {
    /** Sandboxes. */
    readonly sandbox: SandboxService
    /** Templates of sandboxes. */
    readonly templates: TemplateService
    /** Projects. */
    readonly projects: ProjectService
    /** Workspaces. */
    readonly workspaces: WorkspaceService
    /** Reviews. */
    readonly reviews: ReviewService
    /** Snapshots. */
    readonly snapshots: SnapshotService
    /** Events. */
    readonly events: EventService
    /** Webhooks. */
    readonly webhooks: WebhookService
    /** API keys. */
    readonly keys: KeyService
    /** Agents. */
    readonly agents: AgentService
    /** Tenants. */
    readonly tenants: TenantService
    /** The server itself. */
    readonly system: SystemService
    readonly #api: Api

    constructor(config: ClientConfig = {}) {
        const { timeout = 30_000, retries = 3, retryDelay = 1_000, retryBackoff = 2 } = config
        const transport = config.transport ?? new FetchTransport(config)
        const api = new Api(transport, { timeout, retries, retryDelay, retryBackoff }, realClock)
        this.#api = api
        this.sandbox = new SandboxService(api)
        this.templates = new TemplateService(api)
        this.projects = new ProjectService(api)
        this.workspaces = new WorkspaceService(api)
        this.reviews = new ReviewService(api)
        this.snapshots = new SnapshotService(api)
        this.events = new EventService(api)
        this.webhooks = new WebhookService(api)
        this.keys = new KeyService(api, '/keys')
        this.agents = new AgentService(api, '/agents')
        this.tenants = new TenantService(api, '/tenants')
        this.system = new SystemService(api)
    }

    /** Returns the version, the features and the limits of the server. */
    info(options?: RequestOptions): ApiPromise<Schemas['Info']> {
        return this.#api.json({ method: 'GET', path: '/info', options })
    }

    /** Returns the rights and the limits of the key. */
    me(options?: RequestOptions): ApiPromise<Schemas['Me']> {
        return this.#api.json({ method: 'GET', path: '/me', options })
    }

    /**
     * Ends streams and terminals, waits until cancelled commands are killed, for at most 10 s, and closes all
     * connections. Later calls throw an error that says so.
     */
    close(): Promise<void> {
        return this.#api.close()
    }

    /** Closes the connections of the client. */
    [Symbol.asyncDispose](): Promise<void> {
        return this.close()
    }
}

/**
 * Creates a sandbox, calls a function with it, and deletes it. An abort of `signal` while the sandbox is created ends
 * the wait; the sandbox is then deleted once it exists.
 */
export async function withSandbox<T>(
    client: WorkspaceClient,
    params: CreateSandboxParams,
    callback: (sandbox: Sandbox) => T | Promise<T>,
): Promise<T> {
    const sandbox = await createOrDelete(client, params)
    let result: T
    try {
        result = await callback(sandbox)
    } catch (error) {
        // An error of the delete must not replace the error of the callback.
        await sandbox[Symbol.asyncDispose]().catch(() => {})
        throw error
    }
    await sandbox[Symbol.asyncDispose]()
    return result
}

/** Creates a sandbox. If the caller no longer waits for it, deletes it once it exists. */
async function createOrDelete(client: WorkspaceClient, params: CreateSandboxParams): Promise<Sandbox> {
    const { signal, ...rest } = params
    signal?.throwIfAborted()
    const creating = client.sandbox.create(rest).then()
    try {
        return await abortable(creating, signal)
    } catch (error) {
        if (signal?.aborted) creating.then((sandbox) => sandbox[Symbol.asyncDispose]()).catch(() => {})
        throw error
    }
}
