import { ServerUnreachableError, WorkspaceError } from './errors.js'

/** Time and chance. Tests inject their own. */
export interface Clock {
    /** Returns the time in milliseconds. */
    now(): number
    /** Waits. Rejects with the reason of the signal when it aborts. */
    sleep(milliseconds: number, signal?: AbortSignal): Promise<void>
    /** Returns a number from 0 to 1. */
    random(): number
}

/** The time of the machine. */
export const realClock: Clock = {
    now: () => performance.now(),
    sleep: (milliseconds, signal) =>
        new Promise((resolve, reject) => {
            signal?.throwIfAborted()
            const timer = setTimeout(() => {
                signal?.removeEventListener('abort', stop)
                resolve()
            }, milliseconds)
            const stop = () => {
                clearTimeout(timer)
                reject(signal?.reason)
            }
            signal?.addEventListener('abort', stop, { once: true })
        }),
    random: Math.random,
}

/** How often and when a request is sent again. */
export interface RetryPolicy {
    /** Maximum number of retries. */
    retries: number
    /** Milliseconds before the first retry. */
    retryDelay: number
    /** Factor between the pauses. */
    retryBackoff: number
}

/** The longest pause that `Retry-After` causes, in milliseconds. */
const LONGEST_PAUSE = 60_000

/** Returns true if the server has certainly not carried out the request, and may do so later. */
export function isRejectedForNow(error: unknown): boolean {
    return error instanceof ServerUnreachableError || (error instanceof WorkspaceError && error.retry === 'later')
}

/** Returns true if the server may have carried out the request. */
export function isLost(error: unknown): boolean {
    return error instanceof WorkspaceError && error.retry === 'unknown'
}

/** Sends a request until it succeeds or a retry does not help. Errors have the number of attempts. */
export async function withRetries<T>(
    attempt: (before: readonly unknown[]) => Promise<T>,
    options: { policy: RetryPolicy; clock: Clock; isRepeatable: boolean; signal?: AbortSignal },
): Promise<T> {
    const { policy, clock, isRepeatable, signal } = options
    const before: unknown[] = []
    for (;;) {
        try {
            return await attempt(before)
        } catch (error) {
            before.push(error)
            if (error instanceof WorkspaceError) {
                error.attempts = before.length
            }
            const helps = isRejectedForNow(error) || (isLost(error) && isRepeatable)
            if (!helps || before.length > policy.retries) {
                throw error
            }
            await clock.sleep(pause(error as WorkspaceError, before.length, policy, clock), signal)
        }
    }
}

function pause(error: WorkspaceError, attempts: number, policy: RetryPolicy, clock: Clock): number {
    const seconds = Number.parseFloat(error.headers.get('retry-after') ?? '')
    if (seconds >= 0) {
        return Math.min(seconds * 1000, LONGEST_PAUSE)
    }
    const jitter = 0.75 + clock.random() / 2
    return policy.retryDelay * policy.retryBackoff ** (attempts - 1) * jitter
}
