import type { Api, Call, RequestOptions } from './api.js'

/** One page of a list. */
export interface Page<T> {
    /** The items of the page. */
    items: T[]
    /** Cursor of the next page; absent on the last page. */
    next?: string | null
}

/** Options of lists. */
export interface PageOptions extends RequestOptions {
    /** Maximum number of items of a page. */
    limit?: number
    /** `next` of the previous page. */
    cursor?: string
}

/** A list of objects: an iterator over all of them, or, with `await` or `page()`, one page. */
export class List<T, P extends Page<T> = Page<T>> implements AsyncIterable<T>, PromiseLike<P> {
    readonly #load: (cursor: string | undefined) => Promise<P>

    /** @internal */
    constructor(load: (cursor: string | undefined) => Promise<P>) {
        this.#load = load
    }

    /** Returns one page: the first, or that of the option `cursor`. */
    page(): Promise<P> {
        return this.#load(undefined)
    }

    then<A = P, B = never>(
        fulfilled?: ((page: P) => A | PromiseLike<A>) | null,
        rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
    ): Promise<A | B> {
        return this.page().then(fulfilled, rejected)
    }

    async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
        let cursor: string | undefined
        for (;;) {
            const page = await this.#load(cursor)
            yield* page.items
            const next = page.next ?? undefined
            // Events go on: each of their pages has `next`, which the last page does not advance.
            if (next === undefined || next === cursor) return
            cursor = next
        }
    }
}

/** Returns the list of a route. */
export function list<Data, T = Data, P extends Page<T> = Page<T>>(
    api: Api,
    call: Omit<Call, 'method'>,
    convert?: (data: Data) => T,
): List<T, P> {
    return new List((cursor) => {
        const query = cursor === undefined ? call.query : { ...call.query, page: undefined, cursor }
        return api.json<Page<Data>, P>({ ...call, query, method: 'GET' }, (data) => {
            const items = convert ? data.items.map(convert) : [...data.items]
            return { ...data, items } as unknown as P
        })
    })
}
