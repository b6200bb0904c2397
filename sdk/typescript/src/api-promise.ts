/** The result of a call, with facts about its response. */
export interface ApiResult<T> {
    /** The result. */
    data: T
    /** Status of the response. */
    status: number
    /** Headers of the response. */
    headers: Headers
    /** Id of the request. */
    requestId: string | undefined
    /** Number of times that the request was sent. */
    attempts: number
}

/** The promise of a call. `withResponse()` returns the result with status, headers and request id. */
export class ApiPromise<T> implements Promise<T> {
    readonly #result: Promise<ApiResult<T>>
    readonly [Symbol.toStringTag] = 'ApiPromise'

    constructor(result: Promise<ApiResult<T>>) {
        this.#result = result
    }

    /** Returns the result with status, headers and request id of the response. */
    withResponse(): Promise<ApiResult<T>> {
        return this.#result
    }

    then<A = T, B = never>(
        fulfilled?: ((value: T) => A | PromiseLike<A>) | null,
        rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
    ): Promise<A | B> {
        return this.#result.then((result) => result.data).then(fulfilled, rejected)
    }

    catch<B = never>(rejected?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<T | B> {
        return this.then(undefined, rejected)
    }

    finally(settled?: (() => void) | null): Promise<T> {
        return this.then().finally(settled)
    }
}
