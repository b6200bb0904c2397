import type { Api, RequestOptions } from './api.js'
import { withDates } from './dates.js'
import { follow, openStream } from './follow.js'
import { List, type Page, type PageOptions } from './pages.js'
import { optionalId, type Ref, type Schemas } from './resource.js'

/** A durable record that something happened. */
export type Event = Schemas['Event']

/** Events with an id below `oldest` may be missing, because the server has deleted them. */
export interface EventGap {
    kind: 'gap'
    oldest: number
}

/** A page of events. `next` is there also on the last page, because events go on. */
export interface EventPage extends Page<Event> {
    next: string
    /** Events that the server has deleted. */
    gap?: { oldest: number } | null
}

/** A selection of events. */
export interface EventOptions extends RequestOptions {
    /** Kinds of events, such as `sandbox.created`; all by default. */
    kinds?: string[]
    /** Only events of this sandbox. */
    sandbox?: Ref
    /** Only events of this project. */
    project?: Ref
    /** `next` of a page, or the id of an event: only later events. */
    cursor?: string | number
}

/** The events of the tenant. */
export class EventService {
    readonly #api: Api

    /** @internal */
    constructor(api: Api) {
        this.#api = api
    }

    /** Lists past events. The iteration ends with the newest event. */
    list(options: EventOptions & Omit<PageOptions, 'cursor'> = {}): List<Event, EventPage> {
        const call = { method: 'GET', path: '/events', options: { signal: options.signal } } as const
        return new List(async (next) => {
            const page = await this.#api.json<EventPage>({
                ...call,
                query: query({ ...options, cursor: next ?? options.cursor }),
            })
            return page
        })
    }

    /** Returns events as they happen: those after `cursor`, or new ones. Continues after a lost connection. */
    stream(options: EventOptions = {}): AsyncGenerator<Event | EventGap, void, undefined> {
        let cursor = options.cursor
        return follow<Event | EventGap>(
            this.#api,
            {
                open: (isFirst, signal) => {
                    const call = { method: 'GET', path: '/events', query: query({ ...options, cursor }) } as const
                    return openStream(this.#api, { ...call, options: { signal } }, isFirst)
                },
                begun: (id) => {
                    cursor = id ?? cursor
                },
                decode: ({ event, id, data }) => {
                    cursor = id ?? cursor
                    const item = withDates(JSON.parse(data)) as Event
                    return [event === 'gap' ? ({ ...(item as object), kind: 'gap' } as EventGap) : item]
                },
                isLast: () => false,
            },
            options.signal,
        )
    }
}

function query(options: EventOptions & { limit?: number }) {
    const { kinds, sandbox, project, cursor, limit } = options
    return { kinds: kinds?.join(','), sandbox: optionalId(sandbox), project: optionalId(project), cursor, limit }
}
