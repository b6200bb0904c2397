import { type Api, LONG_TIMEOUT, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import { type List, list, type PageOptions } from './pages.js'
import { type Schemas, split } from './resource.js'
import type { RequestBody } from './transport.js'

/** A template of sandboxes. */
export type Template = Schemas['Template']
/** An API key. */
export type Key = Schemas['Key']
/** A key with its secret, which only the response to the creation has. */
export type NewKey = Schemas['NewKey']
/** A named program that works in workspaces. */
export type Agent = Schemas['Agent']
/** A unit of isolation. */
export type Tenant = Schemas['Tenant']
/** A tenant with the secret of its first key. */
export type NewTenant = Schemas['NewTenant']

/** The templates of sandboxes. */
export class TemplateService {
    readonly #api: Api

    /** @internal */
    constructor(api: Api) {
        this.#api = api
    }

    /** Returns all templates. */
    async list(options: RequestOptions = {}): Promise<Template[]> {
        const templates: Template[] = []
        for await (const template of list<Template>(this.#api, {
            path: '/templates',
            query: { limit: 1000 },
            options,
        })) {
            templates.push(template)
        }
        return templates
    }

    /** Creates a template. The image is pulled if the container engine does not have it. */
    create(params: Schemas['AddTemplate'] & RequestOptions): ApiPromise<Template> {
        const { options, body } = split(params)
        return this.#api.json({ method: 'POST', path: '/templates', json: body, options, timeout: LONG_TIMEOUT })
    }

    /** Creates a template from an image archive, as `docker save` writes it: plain, gzip or zstd. */
    load(name: string, archive: RequestBody, options?: RequestOptions): ApiPromise<Template> {
        const headers = { 'content-type': 'application/x-tar' }
        const to = path`/templates/${name}/archive`
        return this.#api.json({ method: 'PUT', path: to, headers, body: archive, options, timeout: LONG_TIMEOUT })
    }

    /** Deletes a template. */
    delete(name: string, options?: RequestOptions): ApiPromise<void> {
        return this.#api.empty({ method: 'DELETE', path: path`/templates/${name}`, options })
    }
}

/** A list of objects that are created and deleted. */
class Collection<T, New, Params extends object> {
    protected readonly api: Api
    readonly #path: string

    /** @internal */
    constructor(api: Api, path: string) {
        this.api = api
        this.#path = path
    }

    /** Creates an object. */
    create(params: Params & RequestOptions): ApiPromise<New> {
        const { options, body } = split(params)
        return this.api.json({ method: 'POST', path: this.#path, json: body, options })
    }

    /** Lists the objects. */
    list(options: PageOptions = {}): List<T> {
        const { limit, cursor, ...rest } = options
        return list(this.api, { path: this.#path, query: { limit, cursor }, options: rest })
    }

    /** Deletes an object. */
    delete(id: string, options?: RequestOptions): ApiPromise<void> {
        return this.api.empty({ method: 'DELETE', path: this.#path + path`/${id}`, options })
    }
}

/** The API keys of the tenant. `delete` revokes a key. */
export class KeyService extends Collection<Key, NewKey, Schemas['CreateKey']> {}

/** The agents of the tenant. */
export class AgentService extends Collection<Agent, Agent, Schemas['CreateAgent']> {}

/** The tenants of the server. `delete` erases a tenant with all its data. */
export class TenantService extends Collection<Tenant, NewTenant, Schemas['CreateTenant']> {
    /** Changes the name or the limits, or suspends the tenant. */
    update(id: string, params: Schemas['ChangeTenant'] & RequestOptions): ApiPromise<Tenant> {
        const { options, body } = split(params)
        return this.api.json({ method: 'PATCH', path: path`/tenants/${id}`, json: body, options })
    }
}

/** The server itself. */
export class SystemService {
    readonly #api: Api

    /** @internal */
    constructor(api: Api) {
        this.#api = api
    }

    /** Returns numbers of sandboxes and the use of resources. */
    stats(options?: RequestOptions): ApiPromise<Schemas['SystemStats']> {
        return this.#api.json({ method: 'GET', path: '/stats', options })
    }

    /** Collects garbage. */
    gc(params: Schemas['Gc'] & RequestOptions = {}): ApiPromise<Schemas['GcResult']> {
        const { options, body } = split(params)
        return this.#api.json({ method: 'POST', path: '/gc', json: body, options, timeout: LONG_TIMEOUT })
    }

    /** Returns the state of the garbage collection. */
    gcStatus(options?: RequestOptions): ApiPromise<Schemas['GcStatus']> {
        return this.#api.json({ method: 'GET', path: '/gc', options })
    }

    /** Returns the state of the process. */
    health(options?: RequestOptions): ApiPromise<Schemas['Health']> {
        return this.#api.json({ method: 'GET', path: '//health', options })
    }

    /** Returns whether the server accepts requests, and the result of each probe. */
    async ready(options?: RequestOptions): Promise<Schemas['Ready']> {
        return this.#api.json<Schemas['Ready']>({ method: 'GET', path: '//ready', options, accept: 503 })
    }
}
