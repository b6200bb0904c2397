import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Api } from '../src/api.js'
import { UnavailableError, WorkspaceError } from '../src/index.js'
import { PTYService } from '../src/pty.js'
import type { Clock } from '../src/retry.js'
import { transportOf } from './transports.js'

/** One connection of a terminal, seen from the server. */
class Socket {
    readonly sent: { type: string; seq?: number }[] = []
    isClosed = false
    onopen: (() => void) | null = null
    onmessage: ((message: { data: string }) => void) | null = null
    onclose: unknown
    onerror: unknown

    send(text: string): void {
        this.sent.push(JSON.parse(text))
    }

    close(): void {
        this.isClosed = true
    }

    /** Delivers messages of the server to the client. */
    deliver(...messages: object[]): void {
        this.onopen?.()
        for (const message of messages) this.onmessage?.({ data: JSON.stringify(message) })
    }
}

const ATTACHED = { type: 'attached', offset: 0 }
const REAL: Clock = { now: () => 0, random: () => 0, sleep: () => new Promise(() => {}) }

/** Returns a service for terminals. Each connection calls `connected` with its socket once the client listens. */
function serviceOf(connected: (socket: Socket) => void, clock = REAL) {
    const transport = transportOf(({ path }) =>
        Response.json(path.endsWith('/tickets') ? { ticket: 't' } : { id: 'p' }),
    )
    transport.connect = async () => {
        const socket = new Socket()
        // The client sets its handlers in the turn in which it gets the socket.
        setImmediate(() => connected(socket))
        return socket as unknown as WebSocket
    }
    const api = new Api(transport, { timeout: 0, retries: 0, retryDelay: 0, retryBackoff: 1 }, clock)
    return { api, pty: new PTYService(api, 'sbx-1'), requests: transport.requests }
}

/** Returns an open terminal and its socket. */
async function opened(method: 'create' | 'attach' = 'create') {
    let socket: Socket | undefined
    const service = serviceOf((made) => {
        socket = made
        made.deliver(ATTACHED)
    })
    const terminal = await (method === 'create' ? service.pty.create() : service.pty.attach('p'))
    return { ...service, terminal, socket: socket as unknown as Socket }
}

test('close() rejects input that was not acknowledged, and all later input', async () => {
    const { terminal, socket } = await opened()
    const arrived = terminal.write('one')
    socket.deliver({ type: 'ack', seq: 1 })
    await arrived
    const pending = terminal.write('two')
    terminal.close()
    await assert.rejects(pending, /disconnected by close/)
    await assert.rejects(terminal.write('three'), /disconnected by close/)
    await assert.rejects(terminal.wait(), /disconnected by close/)
    assert.equal(socket.isClosed, true)
})

test('an error of the server rejects input that was not acknowledged', async () => {
    const { terminal, socket } = await opened()
    const pending = terminal.write('x')
    const error = { code: 1, name: 'KEY_REVOKED', message: 'the key was revoked', remediation: '', retry: 'never' }
    socket.deliver({ type: 'error', error })
    await assert.rejects(pending, /revoked/)
    await assert.rejects(terminal.wait(), /revoked/)
})

test('the end of the program resolves input, and later input is rejected at once', async () => {
    const { terminal, socket } = await opened()
    const pending = terminal.write('exit\n')
    socket.deliver({ type: 'exit', exitCode: 3 })
    await pending
    assert.deepEqual(await terminal.wait(), { exitCode: 3, signal: null })
    await assert.rejects(
        terminal.write('x'),
        (error) => error instanceof WorkspaceError && /has ended/.test(error.message),
    )
})

test('a signal ends the wait of write() and wait(), and not the terminal', async () => {
    const { terminal, socket } = await opened()
    const controller = new AbortController()
    const options = { signal: controller.signal }
    const waits = [terminal.write('x', options), terminal.wait(options)]
    controller.abort(new RangeError('enough'))
    for (const wait of waits) await assert.rejects(wait, RangeError)
    socket.deliver({ type: 'exit', exitCode: 0 })
    assert.equal((await terminal.wait()).exitCode, 0)
})

test('a disposed terminal is killed if it was created, and disconnected if it was attached', async () => {
    for (const method of ['create', 'attach'] as const) {
        const { terminal, socket, requests } = await opened(method)
        terminal.wait().catch(() => {})
        await terminal[Symbol.asyncDispose]()
        const kills = requests.filter((request) => request.method === 'DELETE').length
        assert.equal(kills, method === 'create' ? 1 : 0)
        if (method === 'attach') assert.equal(socket.isClosed, true)
        terminal.close()
    }
})

test('a server that accepts connections and refuses terminals is given up after a minute', async () => {
    let now = 0
    const clock: Clock = {
        ...REAL,
        now: () => now,
        sleep: async (milliseconds) => {
            now += milliseconds
        },
    }
    const error = { code: 1, name: 'BUSY', message: 'busy', remediation: '', retry: 'later' }
    const { pty } = serviceOf((socket) => socket.deliver(ATTACHED, { type: 'error', error }), clock)
    const terminal = await pty.attach('p')
    await assert.rejects(terminal.wait(), UnavailableError)
    assert.ok(now > 50_000 && now <= 60_000, `after ${now} ms`)
})

test('close() ends the pause before the next connection', async () => {
    let waits = () => {}
    const waiting = new Promise<void>((resolve) => {
        waits = resolve
    })
    const clock: Clock = {
        ...REAL,
        sleep: (_, signal) =>
            new Promise((_resolve, reject) => {
                signal?.addEventListener('abort', () => reject(signal.reason))
                waits()
            }),
    }
    const { pty } = serviceOf((socket) => socket.deliver(ATTACHED, { type: 'stopping' }), clock)
    const terminal = await pty.attach('p')
    await waiting
    terminal.close()
    await assert.rejects(terminal.wait(), /disconnected by close/)
})

test('the end of the client ends its terminals', async () => {
    const { api, terminal, socket } = await opened()
    const pending = terminal.write('x')
    await api.close()
    await assert.rejects(pending, /client is closed/)
    assert.equal(socket.isClosed, true)
})
