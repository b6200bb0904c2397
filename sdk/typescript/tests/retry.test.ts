import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConnectionLostError, ServerUnreachableError, WorkspaceError } from '../src/errors.js'
import { type Clock, realClock, withRetries } from '../src/retry.js'

const policy = { retries: 3, retryDelay: 1000, retryBackoff: 2 }

/** A clock whose pauses are recorded and take no time. */
function fakeClock(random = 0.5): Clock & { pauses: number[] } {
    const pauses: number[] = []
    return {
        pauses,
        now: () => 0,
        random: () => random,
        sleep: async (milliseconds, signal) => {
            signal?.throwIfAborted()
            pauses.push(milliseconds)
        },
    }
}

function later(retryAfter?: string): WorkspaceError {
    const headers = new Headers(retryAfter === undefined ? {} : { 'retry-after': retryAfter })
    return new WorkspaceError({ name: 'LATER', message: 'later', remediation: 'Wait.', retry: 'later', headers })
}

/** Fails with each of the errors, and then succeeds. Returns the pauses. */
async function pauses(errors: Error[], isRepeatable = true, clock = fakeClock()): Promise<number[]> {
    await withRetries(
        async (before) => {
            const error = errors[before.length]
            if (error) throw error
        },
        { policy, clock, isRepeatable },
    )
    return clock.pauses
}

test('pauses are 1, 2 and 4 seconds with jitter', async () => {
    const refused = () => new ServerUnreachableError('refused')
    assert.deepEqual(await pauses([refused(), later(), refused()]), [1000, 2000, 4000])
    assert.deepEqual(await pauses([refused(), refused()], true, fakeClock(0)), [750, 1500])
    assert.deepEqual(await pauses([refused(), refused()], true, fakeClock(1)), [1250, 2500])
})

test('Retry-After sets the pause, up to a minute', async () => {
    assert.deepEqual(await pauses([later('7'), later('0'), later('3600')]), [7000, 0, 60_000])
    assert.deepEqual(await pauses([later('soon')]), [1000])
})

test('after the last retry, the error is the last one, with the number of attempts', async () => {
    const errors = [later(), later(), later(), later(), later()]
    await assert.rejects(pauses(errors), (error) => error === errors[3] && errors[3]?.attempts === 4)
})

test('a lost response is retried only if the request can be repeated', async () => {
    assert.deepEqual(await pauses([new ConnectionLostError('lost')]), [1000])
    await assert.rejects(pauses([new ConnectionLostError('lost')], false), ConnectionLostError)
    // The server has not received this one.
    assert.deepEqual(await pauses([new ServerUnreachableError('refused')], false), [1000])
})

test('other errors are raised at once', async () => {
    const never = new WorkspaceError({ name: 'NEVER', message: 'no', remediation: 'Change it.' })
    const clock = fakeClock()
    await assert.rejects(pauses([never], true, clock), (error) => error === never && never.attempts === 1)
    assert.deepEqual(clock.pauses, [])
    await assert.rejects(pauses([new TypeError('a defect')]), TypeError)
})

test('an abort ends the pause, and the request is not sent again', async () => {
    const controller = new AbortController()
    let attempts = 0
    const attempt = () => {
        attempts++
        // The pause has begun by then.
        setImmediate(() => controller.abort(new Error('enough')))
        return Promise.reject(later('60'))
    }
    const options = { policy, clock: realClock, isRepeatable: true, signal: controller.signal }
    await assert.rejects(withRetries(attempt, options), /enough/)
    assert.equal(attempts, 1)
})

test('the clock of the machine waits, and leaves no listener', async () => {
    const { signal } = new AbortController()
    const removed: string[] = []
    signal.removeEventListener = (type: string) => removed.push(type)
    const before = realClock.now()
    await realClock.sleep(20, signal)
    // Timers may end up to a millisecond early.
    assert.ok(realClock.now() - before >= 18)
    assert.deepEqual(removed, ['abort'])
    const aborted = AbortSignal.abort(new Error('enough'))
    await assert.rejects(realClock.sleep(60_000, aborted), /enough/)
})
