import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { Api } from '../src/api.js'
import { follow, openStream } from '../src/follow.js'
import {
    ConnectionLostError,
    InvalidRequestError,
    NotFoundError,
    ServerUnreachableError,
    UnavailableError,
    WorkspaceClient,
    WorkspaceError,
    withSandbox,
} from '../src/index.js'
import type { Clock } from '../src/retry.js'
import type { Transport } from '../src/transport.js'
import { cut, open, transportOf } from './transports.js'

const clientOf = (transport: Transport) => new WorkspaceClient({ transport, retries: 1, retryDelay: 0 })

test('an error of a transport that is not about a connection is raised as it is', async () => {
    const transport = transportOf(() => {
        throw new TypeError('a defect')
    })
    await assert.rejects(clientOf(transport).me(), TypeError)
    assert.equal(transport.requests.length, 1)
})

test('a response that is cut is lost, also if it is an error', async () => {
    for (const status of [200, 404]) {
        const transport = transportOf(() => new Response(cut('{"error": {'), { status }))
        await assert.rejects(clientOf(transport).me(), ConnectionLostError)
        assert.equal(transport.requests.length, 2)
    }
})

test('a page in place of JSON is an error with advice', async () => {
    const transport = transportOf(() => new Response('<html>', { status: 200 }))
    await assert.rejects(clientOf(transport).me(), UnavailableError)
    const missing = transportOf(() => new Response('<html>', { status: 404 }))
    await assert.rejects(clientOf(missing).me(), (error) => error instanceof NotFoundError && error.code === 0)
})

test('an error of the source of a body is raised, and the request is not repeated', async () => {
    const server = createServer((request, response) => request.resume().on('end', () => response.end())).listen(0)
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const client = new WorkspaceClient({ apiUrl: `http://127.0.0.1:${port}`, apiKey: 'key' })
    try {
        let attempts = 0
        const tar = () => {
            attempts++
            return new ReadableStream<Uint8Array>({
                pull: (controller) => controller.error(new RangeError('the file cannot be read')),
            })
        }
        await assert.rejects(client.snapshots.import(tar), RangeError)
        assert.equal(attempts, 1)
    } finally {
        server.closeAllConnections()
        server.close()
    }
})

test('ids that would change the path are rejected, and no request is sent', async () => {
    const transport = transportOf(() => Response.json({}))
    const client = clientOf(transport)
    for (const id of ['', '.', '..']) {
        const deleting = client.sandbox.delete(id)
        await assert.rejects(
            deleting,
            (error) => error instanceof InvalidRequestError && /valid id/.test(error.message),
        )
    }
    assert.deepEqual(transport.requests, [])
})

test('times become dates, and fields of the caller stay as they are', async () => {
    const time = '2026-01-02T03:04:05.678Z'
    const body = { id: 'sbx-1', createdAt: time, metadata: { createdAt: time } }
    const sandbox = await clientOf(transportOf(() => Response.json(body))).sandbox.get('sbx-1')
    assert.deepEqual(sandbox.createdAt, new Date(time))
    assert.deepEqual(sandbox.metadata, { createdAt: time })
})

test('a field of a newer server does not replace a method', async () => {
    const body = { id: 'sbx-1', delete: 'no', process: 'no', name: 'new' }
    const sandbox = await clientOf(transportOf(() => Response.json(body))).sandbox.get('sbx-1')
    assert.equal(typeof sandbox.delete, 'function')
    assert.equal(sandbox.name, 'new')
})

test('a stream that cannot be continued fails after a minute', async () => {
    let now = 0
    const clock: Clock = {
        now: () => now,
        random: () => 0.5,
        sleep: async (milliseconds) => {
            now += milliseconds
        },
    }
    let opened = 0
    const transport = transportOf(() => {
        if (opened++ > 0) throw new ServerUnreachableError('refused')
        return new Response(cut('data: 1\n\n'))
    })
    const api = new Api(transport, { timeout: 1000, retries: 3, retryDelay: 1000, retryBackoff: 2 }, clock)
    const source = {
        open: (isFirst: boolean) => openStream(api, { method: 'GET', path: '/events' }, isFirst),
        decode: (event: { data: string }) => [event.data],
        isLast: () => false,
    }
    const items = follow(api, source)
    assert.equal((await items.next()).value, '1')
    await assert.rejects(items.next(), ServerUnreachableError)
    assert.ok(now > 50_000 && now <= 60_000, `after ${now} ms`)
})

test('a client is closed once, waits for no body, and then rejects calls', async () => {
    const body = open('begun')
    let closes = 0
    const transport = transportOf(() => new Response(body.body))
    transport.close = async () => {
        closes++
    }
    const client = clientOf(transport)
    const reading = client.me()
    await Promise.all([client.close(), client.close()])
    await assert.rejects(reading, /client is closed/)
    const error = await client.me().catch((error) => error)
    assert.ok(error instanceof WorkspaceError && error.retry === 'never' && /client is closed/.test(error.message))
    assert.equal(closes, 1)
    assert.equal(transport.requests.length, 1)
})

test('the end of the client ends a stream of events', async () => {
    const client = clientOf(transportOf(() => new Response(open(': begun\n\n').body)))
    const next = client.events.stream().next()
    await client.close()
    await assert.rejects(next, /client is closed/)
})

test('many calls at once cause no warning', async () => {
    const warnings: Error[] = []
    const note = (warning: Error) => warnings.push(warning)
    process.on('warning', note)
    const client = clientOf(transportOf(() => Response.json({})))
    await Promise.all(Array.from({ length: 30 }, () => client.me()))
    // Node.js warns of more than ten listeners of one signal.
    const { signal } = new AbortController()
    await Promise.all(Array.from({ length: 10 }, () => client.me({ signal })))
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', note)
    assert.deepEqual(warnings, [])
})

test('a timeout of 0 means no limit, and so is an infinite one', async () => {
    for (const timeout of [0, Number.POSITIVE_INFINITY]) {
        const slow = () => new Promise<Response>((resolve) => setTimeout(() => resolve(Response.json({})), 20))
        await new WorkspaceClient({ transport: transportOf(slow), timeout, retries: 0 }).me()
    }
})

test('a list continues after an empty page, and ends where it does not advance', async () => {
    const pages = [
        { items: [], next: 'a' },
        { items: [{ id: 'one' }], next: 'b' },
        { items: [], next: 'b' },
    ]
    const transport = transportOf(() => Response.json(pages[transport.requests.length - 1]))
    const found = []
    for await (const webhook of clientOf(transport).webhooks.list()) found.push(webhook.id)
    assert.deepEqual(found, ['one'])
    assert.equal(transport.requests.length, 3)
})

test('events continue after the id at which the stream began', async () => {
    const bodies = ['id: 42\n\n', 'id: 43\ndata: {"id": 43}\n\n']
    const transport = transportOf(() => new Response(cut(bodies[transport.requests.length - 1] ?? '')))
    const { value } = await clientOf(transport).events.stream().next()
    assert.equal(value && 'id' in value && value.id, 43)
    assert.deepEqual(
        transport.requests.map(({ path }) => path),
        ['/api/v1/events', '/api/v1/events?cursor=42'],
    )
})

test('an abort ends the request of a stream, and no other follows', async () => {
    const controller = new AbortController()
    const transport = transportOf(({ signal }) => {
        controller.abort(new RangeError('enough'))
        assert.equal(signal?.aborted, true)
        throw new ServerUnreachableError('refused')
    })
    const events = clientOf(transport).events.stream({ signal: controller.signal })
    await assert.rejects(events.next(), RangeError)
    assert.equal(transport.requests.length, 1)
})

test('a redirect is an error that names the address, and is not followed or repeated', async () => {
    let requests = 0
    const server = createServer((_, response) => {
        requests++
        response.writeHead(301, { location: 'https://other.example/api' }).end()
    }).listen(0)
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const client = new WorkspaceClient({ apiUrl: `http://127.0.0.1:${port}`, apiKey: 'key' })
    try {
        await assert.rejects(client.me(), /redirects to https:\/\/other\.example\/api/)
        assert.equal(requests, 1)
    } finally {
        await client.close()
        server.close()
    }
})

test('close() ends requests and bodies on real connections', async () => {
    const server = createServer((_, response) => response.writeHead(200).write('{')).listen(0)
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const client = new WorkspaceClient({ apiUrl: `http://127.0.0.1:${port}`, apiKey: 'key' })
    const reading = client.me()
    const failed = assert.rejects(reading, /client is closed/)
    await client.close()
    await client.close()
    await failed
    server.closeAllConnections()
    server.close()
})

test('a response that is not a page is an error with advice', async () => {
    const transport = transportOf(() => Response.json({}))
    await assert.rejects(clientOf(transport).webhooks.list().page(), UnavailableError)
    await assert.rejects(clientOf(transport).sandbox.list().page(), UnavailableError)
    assert.equal(transport.requests.length, 2)
})

test('the address of a port keeps to the port', async () => {
    const client = clientOf(transportOf(() => Response.json({ id: 'sbx-1' })))
    const { ports } = await client.sandbox.get('sbx-1')
    const base = 'http://server/api/v1/sandboxes/sbx-1/ports/3000/'
    assert.equal(ports.url(3000, '/a/../b?c=..'), `${base}a/../b?c=..`)
    for (const below of ['../../../../keys', '..\\..\\keys', '%2e%2e/keys', 'a/../../4000/']) {
        assert.throws(() => ports.url(3000, below), InvalidRequestError)
    }
})

test('withSandbox deletes a sandbox that exists only after an abort', async () => {
    const controller = new AbortController()
    let created = (_: Response) => {}
    let wasDeleted = () => {}
    const deleted = new Promise<void>((resolve) => {
        wasDeleted = resolve
    })
    const transport = transportOf(({ method }) => {
        if (method === 'DELETE') wasDeleted()
        if (method === 'DELETE') return new Response(null, { status: 204 })
        return new Promise<Response>((resolve) => {
            created = resolve
        })
    })
    const never = () => assert.fail('the callback must not be called')
    const using = withSandbox(clientOf(transport), { template: 'base', signal: controller.signal }, never)
    controller.abort(new RangeError('enough'))
    await assert.rejects(using, RangeError)
    created(Response.json({ id: 'sbx-1' }))
    await deleted
})

test('the pool has the options of the shared pool, and no proxy for this machine', async () => {
    const name = Symbol.for('undici.globalDispatcher.1')
    new Headers()
    const shared = (globalThis as Record<symbol, unknown>)[name] as object
    const Agent = shared.constructor as new (options: object) => object
    const connect = (_: object, done: (error: Error) => void) => done(new Error('the connection of the program'))
    const own = new Agent({ connect })
    const noProxy: unique symbol = Symbol('no proxy agent')
    class EnvHttpProxyAgent {
        readonly [noProxy] = own
    }
    try {
        for (const [dispatcher, host] of [
            [own, 'server.example'],
            [new EnvHttpProxyAgent(), '127.0.0.1'],
        ] as const) {
            ;(globalThis as Record<symbol, unknown>)[name] = dispatcher
            const client = new WorkspaceClient({ apiUrl: `http://${host}:1234`, apiKey: 'key', retries: 0 })
            await assert.rejects(client.me(), /the connection of the program/)
            await client.close()
        }
    } finally {
        ;(globalThis as Record<symbol, unknown>)[name] = shared
    }
})
