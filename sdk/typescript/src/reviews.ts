import { type Api, path, type RequestOptions } from './api.js'
import type { ApiPromise } from './api-promise.js'
import { toBase64 } from './bytes.js'
import { type List, list, type PageOptions } from './pages.js'
import { optionalId, type Ref, Resource, type Schemas } from './resource.js'

/** The fields of a review. */
export type ReviewData = Schemas['Review']
/** The version to land. */
export type Take = Schemas['Take']

/** A decision: a message, and with `edited` the content. */
export interface Decision {
    message?: string
    /** The content to land, if `take` is `edited`. */
    content?: string | Uint8Array
}

export interface Review extends ReviewData {}

/** A change that waits for a decision. */
export class Review extends Resource<ReviewData> {
    readonly #api: Api

    /** @internal */
    constructor(api: Api, data: ReviewData) {
        super()
        this.#api = api
        this.assign(data)
    }

    /** Decides which version lands. */
    resolve(take: Take, options: Decision & RequestOptions = {}): ApiPromise<this> {
        const { message, content, ...rest } = options
        const json = { take, message, ...contentOf(content) }
        const call = { method: 'POST', path: path`/reviews/${this.id}/resolve`, json, options: rest } as const
        return this.#api.json(call, (data: ReviewData) => this.assign(data))
    }

    /** Returns the content of the file on one side. */
    content(side: 'base' | 'project' | 'workspace', options?: RequestOptions): ApiPromise<Uint8Array> {
        return this.#api.bytes({ method: 'GET', path: path`/reviews/${this.id}/content`, query: { side }, options })
    }
}

/** The reviews of the tenant. */
export class ReviewService {
    readonly #api: Api

    /** @internal */
    constructor(api: Api) {
        this.#api = api
    }

    /** Lists reviews. */
    list(options: { project?: Ref; workspace?: Ref; state?: Schemas['ReviewState'] } & PageOptions = {}): List<Review> {
        const { project, workspace, state, limit, cursor, ...rest } = options
        const query = { project: optionalId(project), workspace: optionalId(workspace), state, limit, cursor }
        return list(
            this.#api,
            { path: '/reviews', query, options: rest },
            (data: ReviewData) => new Review(this.#api, data),
        )
    }

    /** Returns a review. */
    get(id: string, options?: RequestOptions): ApiPromise<Review> {
        const call = { method: 'GET', path: path`/reviews/${id}`, options } as const
        return this.#api.json(call, (data: ReviewData) => new Review(this.#api, data))
    }

    /** Decides several reviews. Resolves with the result of each. */
    resolve(
        decisions: ({ id: string; take: Take } & Decision)[],
        options?: RequestOptions,
    ): ApiPromise<{ succeeded: Review[]; failed: Schemas['Failed'][] }> {
        const items = decisions.map(({ content, ...rest }) => ({ ...rest, ...contentOf(content) }))
        const call = { method: 'POST', path: '/reviews/resolve', json: { items }, options } as const
        return this.#api.json(call, ({ succeeded, failed }: Schemas['ReviewsResolved']) => ({
            succeeded: succeeded.map((data) => new Review(this.#api, data)),
            failed,
        }))
    }
}

function contentOf(content: string | Uint8Array | undefined): { content?: string; base64?: string } {
    return content instanceof Uint8Array ? { base64: toBase64(content) } : { content }
}
