import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Api } from '../src/api.js'
import { ConnectionLostError, ProcessNotFoundError, ServerUnreachableError } from '../src/index.js'
import { ProcessService, type StreamOptions } from '../src/process.js'
import type { Clock } from '../src/retry.js'
import type { TransportRequest } from '../src/transport.js'
import { open, transportOf } from './transports.js'

const OUTPUT = 'event: stdout\nid: 1\ndata: {"type": "stdout", "commandId": "c", "data": "x", "offset": 0}\n\n'
const GONE = { error: { code: 4003, name: 'PROCESS_NOT_FOUND', message: 'no such command', remediation: '' } }
const settings = { timeout: 0, retries: 3, retryDelay: 1000, retryBackoff: 2 }

/** A clock with pauses that take a turn of the event loop; a longer one ends only by its signal. */
function clockOf(): Clock & { pauses: number[] } {
    const pauses: number[] = []
    return {
        pauses,
        now: () => 0,
        random: () => 0.5,
        sleep: (milliseconds, signal) => {
            pauses.push(milliseconds)
            return new Promise((resolve, reject) => {
                if (signal?.aborted) reject(signal.reason)
                signal?.addEventListener('abort', () => reject(signal.reason))
                if (milliseconds < 10_000) setImmediate(resolve)
            })
        },
    }
}

/** Runs the commands of a test, with responses to starts and kills. */
function serviceOf(respond: { start: (request: TransportRequest) => Response; kill?: () => Response }) {
    const transport = transportOf((request) => {
        if (!request.path.endsWith('/kill')) return respond.start(request)
        return respond.kill?.() ?? new Response(null, { status: 204 })
    })
    const clock = clockOf()
    const api = new Api(transport, settings, clock)
    const kills = () => transport.requests.filter(({ path }) => path.endsWith('/c/kill')).length
    const starts = () => transport.requests.filter(({ path }) => path.endsWith('/run')).length
    return { process: new ProcessService(api, 'sbx-1'), kills, starts, clock, api }
}

const running = () => new Response(open(OUTPUT).body)
const options = (more: StreamOptions = {}): StreamOptions => ({ commandId: 'c', ...more })

test('an error that ends a run kills the command, unless it is left', async () => {
    for (const onAbort of ['kill', 'leave'] as const) {
        const { process, kills } = serviceOf({ start: running })
        const onStdout = () => {
            throw new RangeError('a defect of the caller')
        }
        await assert.rejects(process.run('x', { ...options({ onAbort }), onStdout }), RangeError)
        assert.equal(kills(), onAbort === 'kill' ? 1 : 0)
    }
})

test('an abort kills the command while the caller does not ask for the next event', async () => {
    const { process, kills } = serviceOf({ start: running })
    const controller = new AbortController()
    const events = process.runStream('x', options({ signal: controller.signal }))
    await events.next()
    controller.abort(new RangeError('enough'))
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal(kills(), 1)
    await assert.rejects(events.next(), RangeError)
    assert.equal(kills(), 1)
})

test('a command whose start was lost is killed as soon as it has started', async () => {
    const controller = new AbortController()
    const responses = [Response.json(GONE, { status: 404 }), Response.json(GONE, { status: 404 })]
    const { process, kills, starts } = serviceOf({
        start: () => {
            controller.abort(new RangeError('enough'))
            throw new ConnectionLostError('lost')
        },
        kill: () => responses.shift() ?? new Response(null, { status: 204 }),
    })
    await assert.rejects(process.run('x', options({ signal: controller.signal })), RangeError)
    assert.equal(kills(), 3)
    assert.equal(starts(), 1)
})

test('a start that the server refused is not repeated after an abort, and nothing is killed', async () => {
    const controller = new AbortController()
    const { process, kills, starts } = serviceOf({
        start: () => {
            controller.abort(new RangeError('enough'))
            throw new ServerUnreachableError('refused')
        },
    })
    await assert.rejects(process.run('x', options({ signal: controller.signal })), RangeError)
    assert.equal(starts(), 1)
    // One kill may be on its way before the outcome of the start is known.
    assert.ok(kills() <= 1)
})

test('a start that fails for good kills nothing', async () => {
    const { process, kills } = serviceOf({ start: () => Response.json(GONE, { status: 404 }) })
    await assert.rejects(process.run('x', options()), ProcessNotFoundError)
    assert.equal(kills(), 0)
})

test('the end of the client kills the commands of its streams', async () => {
    const { process, kills, api } = serviceOf({ start: running })
    const events = process.runStream('x', options())
    await events.next()
    await api.close()
    assert.equal(kills(), 1)
    await assert.rejects(events.next(), /client is closed/)
})

test('a result has at most 16 MiB, and callbacks receive everything', async () => {
    const piece = 'é'.repeat(3 * 1024 * 1024)
    const lines = [0, 1, 2].map(
        (n) => `event: stdout\nid: ${n}\ndata: ${JSON.stringify({ type: 'stdout', commandId: 'c', data: piece })}\n\n`,
    )
    const exit = 'event: exit\nid: 9\ndata: {"type": "exit", "commandId": "c", "exitCode": 0}\n\n'
    const { process } = serviceOf({ start: () => new Response(lines.join('') + exit) })
    let received = 0
    const onStdout = (data: string) => {
        received += data.length
    }
    const result = await process.run('x', { ...options(), onStdout })
    assert.equal(result.stdout.length, 8 * 1024 * 1024)
    assert.equal(result.truncated, true)
    assert.equal(received, 9 * 1024 * 1024)
})

test('large input has a key for each request, and a write that waits for its turn obeys its signal', async () => {
    const requests: TransportRequest[] = []
    let release = () => {}
    const stuck = new Promise<void>((resolve) => {
        release = resolve
    })
    const transport = transportOf(async (request) => {
        if (request.path.endsWith('/input')) {
            requests.push(request)
            await stuck
        }
        return Response.json({})
    })
    const command = await new ProcessService(new Api(transport, settings, clockOf()), 'sbx-1').attach('c')
    const first = command.write(new Uint8Array(600 * 1024), { idempotencyKey: 'key' })
    const controller = new AbortController()
    const second = command.write('two', { signal: controller.signal })
    const third = command.write('three')
    controller.abort(new RangeError('enough'))
    await assert.rejects(second, RangeError)
    release()
    await Promise.all([first, third])
    const keys = requests.map(({ headers }) => headers['idempotency-key'])
    assert.equal(requests.length, 3)
    assert.deepEqual(keys.slice(0, 2), ['key', 'key-1'])
})
