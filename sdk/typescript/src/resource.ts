import type { components } from './generated/schema.js'

/** The types of the API, by their names in its description. */
export type Schemas = components['schemas']

/** An object of the server. Its fields are those of the response. */
export abstract class Resource<Data extends object> {
    #names: string[] = []

    /** Replaces the fields. A field never replaces a method, which newer servers could cause. */
    protected assign(data: Data): this {
        const fields = this as Record<string, unknown>
        for (const name of this.#names) delete fields[name]
        this.#names = Object.keys(data).filter((name) => !(name in this))
        for (const name of this.#names) fields[name] = data[name as keyof Data]
        return this
    }
}

/** An object or its id. */
export type Ref = string | { id: string }

/** Returns the id of an object. */
export function idOf(ref: Ref): string {
    return typeof ref === 'string' ? ref : ref.id
}

/** Returns the id of an object that may be absent. */
export function optionalId(ref: Ref | undefined): string | undefined {
    return ref === undefined ? undefined : idOf(ref)
}

/** Takes the options of a request out of the parameters of a method. */
export function split<T extends { signal?: AbortSignal; idempotencyKey?: string }>(
    parameters: T,
): { options: { signal?: AbortSignal; idempotencyKey?: string }; body: Omit<T, 'signal' | 'idempotencyKey'> } {
    const { signal, idempotencyKey, ...body } = parameters
    return { options: { signal, idempotencyKey }, body }
}
