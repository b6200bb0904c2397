import {
    AuthError,
    ConflictError,
    type ErrorFields,
    InvalidRequestError,
    LimitError,
    NotFoundError,
    UnavailableError,
    WorkspaceError,
} from './errors.js'
import { classes } from './generated/errors.js'
import type { components } from './generated/schema.js'

type ErrorBody = components['schemas']['ErrorBody']

/** Returns the error of a response with a status of 400 or more. */
export async function errorOfResponse(response: Response): Promise<WorkspaceError> {
    const { status, headers } = response
    const body = parse(await response.text())
    if (body) {
        return errorOfBody(body, status, headers)
    }
    // A proxy responded. It may have passed on the request.
    const isLost = status >= 502 && status <= 504
    return new (groupOf(status))({
        message: `the response has the status ${status} and no error of an Elevo server`,
        name: `HTTP_${status}`,
        status,
        headers,
        remediation: 'Check the address of the server, and the proxy in front of it.',
        retry: isLost ? 'unknown' : 'never',
        requestId: headers.get('x-request-id') ?? undefined,
    })
}

/** Returns the error of an error body: of a response, or in a stream, where the code has a status of its own. */
export function errorOfBody(body: ErrorBody, status = 0, headers = new Headers()): WorkspaceError {
    const [known, usual] = classes[body.code] ?? []
    return new (known ?? groupOf(status))({
        message: body.message,
        code: body.code,
        name: body.name,
        status: status || usual,
        details: body.details,
        remediation: body.remediation,
        retry: body.retry,
        requestId: body.requestId ?? headers.get('x-request-id') ?? undefined,
        headers,
    })
}

function parse(text: string): ErrorBody | undefined {
    try {
        const error = JSON.parse(text)?.error
        return typeof error?.code === 'number' && typeof error.name === 'string' ? error : undefined
    } catch {
        return undefined
    }
}

function groupOf(status: number): new (fields: ErrorFields) => WorkspaceError {
    if (status === 401 || status === 403) return AuthError
    if (status === 404 || status === 410) return NotFoundError
    if (status === 409 || status === 412) return ConflictError
    if (status === 429 || status === 507) return LimitError
    return status >= 400 && status < 500 ? InvalidRequestError : UnavailableError
}
