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
} from '../src/index.js'
import type { Clock } from '../src/retry.js'
import type { Transport } from '../src/transport.js'
import { cut, transportOf } from './transports.js'

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
        await assert.rejects(deleting, (error) => error instanceof InvalidRequestError && /valid id/.test(error.message))
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
