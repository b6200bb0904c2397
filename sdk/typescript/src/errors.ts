import type { CommandResult } from './command.js'

/** Whether the same request may succeed later. */
export type Retry = 'never' | 'afterChange' | 'later' | 'unknown' | (string & {})

/** The fields of an error. */
export interface ErrorFields {
    message: string
    code?: number
    name: string
    status?: number
    details?: Record<string, unknown>
    remediation: string
    retry?: Retry
    requestId?: string
    headers?: Headers
    cause?: unknown
}

/**
 * An error of the server, or of the client itself. Other errors are those of arguments with a wrong type, of files of
 * this machine, and the reason of an aborted signal.
 */
export class WorkspaceError extends Error {
    /** Number of the error, such as 2001; 0 for an error of the client itself. */
    readonly code: number
    /** Name of the error, such as `SANDBOX_NOT_FOUND`. */
    override readonly name: string
    /** Status of the response; 0 if there was none. */
    readonly status: number
    /** Facts about the error, for programs. */
    readonly details: Record<string, unknown>
    /** Advice to repair the cause. */
    readonly remediation: string
    /** Whether the same request may succeed later. */
    readonly retry: Retry
    /** Id of the request, which the log of the server has too. */
    readonly requestId: string | undefined
    /** Headers of the response. */
    readonly headers: Headers
    /** Number of times that the request was sent. */
    attempts = 1

    constructor(fields: ErrorFields) {
        super(fields.message, fields.cause === undefined ? undefined : { cause: fields.cause })
        this.name = fields.name
        this.code = fields.code ?? 0
        this.status = fields.status ?? 0
        this.details = fields.details ?? {}
        this.remediation = fields.remediation
        this.retry = fields.retry ?? 'never'
        this.requestId = fields.requestId
        this.headers = fields.headers ?? new Headers()
    }
}

/** The key is missing or invalid, or does not allow the request. */
export class AuthError extends WorkspaceError {}
/** The object does not exist, or the key may not see it. */
export class NotFoundError extends WorkspaceError {}
/** The state of an object does not allow the request. */
export class ConflictError extends WorkspaceError {}
/** A limit is reached. */
export class LimitError extends WorkspaceError {}
/** The request is wrong. */
export class InvalidRequestError extends WorkspaceError {}
/** The server, or a part of it, cannot carry out the request now. */
export class UnavailableError extends WorkspaceError {}

/** The client cannot connect to the server. The server has not received the request. */
export class ServerUnreachableError extends WorkspaceError {
    constructor(message: string, cause?: unknown) {
        const remediation = 'Check that the server runs, and that its address is correct.'
        super({ name: 'SERVER_UNREACHABLE', message, remediation, retry: 'later', cause })
    }
}

/** The connection was lost. The server may have carried out the request. */
export class ConnectionLostError extends WorkspaceError {
    constructor(message: string, cause?: unknown) {
        const remediation = 'Check whether the request took effect, or send it again with the same idempotencyKey.'
        super({ name: 'CONNECTION_LOST', message, remediation, retry: 'unknown', cause })
    }
}

/** The server did not begin to respond within the `timeout` of the client. */
export class RequestTimeoutError extends WorkspaceError {
    constructor(message: string) {
        const remediation =
            'Set a longer `timeout` of the client, or send the request again with the same idempotencyKey.'
        super({ name: 'REQUEST_TIMEOUT', message, remediation, retry: 'unknown' })
    }
}

/** `check()` was called on the result of a command with an exit code other than 0. */
export class CommandExitError extends WorkspaceError {
    /** The result of the command. */
    readonly result: CommandResult

    constructor(result: CommandResult) {
        const end = result.stderr.trimEnd().slice(-2000)
        const message = `the command ended with exit code ${result.exitCode}${end && `: ${end}`}`
        super({ name: 'COMMAND_EXIT', message, remediation: 'Read `result.stdout` and `result.stderr` of this error.' })
        this.result = result
    }
}

/** A request is not a genuine delivery of a webhook. */
export class WebhookSignatureError extends WorkspaceError {
    constructor(message: string) {
        const remediation = 'Verify the body as it was received, byte for byte, with the secret of the webhook.'
        super({ name: 'WEBHOOK_SIGNATURE', message, remediation })
    }
}
