const NUMBERS = {
    SIGHUP: 1,
    SIGINT: 2,
    SIGQUIT: 3,
    SIGABRT: 6,
    SIGKILL: 9,
    SIGUSR1: 10,
    SIGUSR2: 12,
    SIGPIPE: 13,
    SIGALRM: 14,
    SIGTERM: 15,
    SIGCONT: 18,
    SIGSTOP: 19,
    SIGTSTP: 20,
    SIGWINCH: 28,
} as const

/** A signal, by its name or its number on Linux. */
export type Signal = keyof typeof NUMBERS | number

/** Returns the number of a signal. */
export function signalNumber(signal: Signal | undefined): number | undefined {
    if (typeof signal !== 'string') return signal
    const number = NUMBERS[signal]
    if (number === undefined) {
        throw new TypeError(`\`${signal}\` is not a known signal; use its number`)
    }
    return number
}
