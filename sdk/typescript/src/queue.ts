/** A queue between a producer and one iterator. The oldest items are dropped above a limit of bytes. */
export class Queue implements AsyncIterable<Uint8Array> {
    readonly #limit: number
    #items: Uint8Array[] = []
    #bytes = 0
    #end: { error?: unknown } | undefined
    #wake = () => {}

    constructor(limit: number) {
        this.#limit = limit
    }

    /** Adds an item. */
    push(item: Uint8Array): void {
        this.#items.push(item)
        this.#bytes += item.length
        while (this.#bytes > this.#limit && this.#items.length > 1) {
            this.#bytes -= this.#items.shift()?.length ?? 0
        }
        this.#wake()
    }

    /** Ends the iteration after the items that are in the queue, with an error if there is one. */
    end(error?: unknown): void {
        this.#end ??= { error }
        this.#wake()
    }

    async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
        for (;;) {
            // One by one: the next iteration continues where this one stops.
            for (let item = this.#items.shift(); item; item = this.#items.shift()) {
                this.#bytes -= item.length
                yield item
            }
            if (this.#end?.error) throw this.#end.error
            if (this.#end) return
            await new Promise<void>((resolve) => {
                this.#wake = resolve
            })
        }
    }
}
