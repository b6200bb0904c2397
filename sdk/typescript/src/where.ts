// Finds the server: by arguments, by variables, or the server that `elevo up` started for this user.

import { InvalidRequestError, ServerUnreachableError } from './errors.js'
import { builtin, runningProcess, variable } from './runtime.js'

/** A server and a key for it. */
export interface Found {
    /** Address of the API, without a slash at the end. */
    url: string
    key: string
    /** Whether the server is that of `elevo up`, which may have another address after a restart. */
    isLocal: boolean
}

/** Finds the server and the key. Throws if there is none. */
export function findServer(given: { apiUrl?: string; apiKey?: string }): Found {
    const [variableUrl, named] = byVariables()
    const url = given.apiUrl || variableUrl
    const local = localServer()
    const address = (url ?? local?.url)?.replace(/\/+$/, '')
    if (!address) {
        throw new ServerUnreachableError(
            'there is no server: set `apiUrl` or ELEVO_SERVER, or start a server on this machine with `elevo up`',
        )
    }
    // The key of the owner must not go to any other server.
    const owner = address === local?.url ? ownerKey(local.directory) : undefined
    const key = (given.apiKey ?? named ?? owner)?.trim()
    if (!key) {
        throw new ServerUnreachableError(`there is no key for ${address}: set \`apiKey\` or ELEVO_API_KEY`)
    }
    check(address, key)
    return { url: address, key, isLocal: url === undefined }
}

/** Rejects an address and a key that no request can use. The message does not have the key. */
function check(address: string, key: string): void {
    const invalid = (message: string, remediation: string) =>
        new InvalidRequestError({ name: 'INVALID_SETTING', message, remediation })
    if (!/^https?:\/\//i.test(address) || !URL.canParse(address)) {
        throw invalid(
            `\`${address}\` is not an address of a server`,
            'Begin the address with `http://` or `https://`, such as `http://127.0.0.1:8080`.',
        )
    }
    if (!/^[\x21-\x7e]+$/.test(key)) {
        throw invalid('the key has characters that a key cannot have', 'Copy the key again, without quotes.')
    }
}

/** Returns the first complete pair of variables, else each value of the first variable that has it. */
function byVariables(): [url: string | undefined, key: string | undefined] {
    const elevo = [variable('ELEVO_SERVER'), variable('ELEVO_API_KEY')] as const
    const workspace = [variable('WORKSPACE_API_URL'), variable('WORKSPACE_API_KEY')] as const
    const complete = [elevo, workspace].find(([url, key]) => url && key)
    return [complete?.[0] ?? elevo[0] ?? workspace[0], complete?.[1] ?? elevo[1] ?? workspace[1]]
}

/** Returns the server that runs with the data directory of this user. */
function localServer(): { url: string; directory: string } | undefined {
    const directory = variable('ELEVO_DATA') ?? defaultDirectory()
    const record = directory && read(`${directory}/server.json`)
    if (!directory || !record) {
        return undefined
    }
    try {
        const { address, certificate, pid } = JSON.parse(record)
        const url = `${certificate ? 'https' : 'http'}://${address}`
        return isRunning(pid) ? { url, directory } : undefined
    } catch {
        return undefined
    }
}

/** A server that was killed leaves its record behind, and another program may have its port. */
function isRunning(pid: number): boolean {
    try {
        return runningProcess?.kill(pid, 0) ?? false
    } catch (error) {
        return (error as { code?: string }).code === 'EPERM'
    }
}

function ownerKey(directory: string): string | undefined {
    return read(`${directory}/owner.key`)?.trim() || undefined
}

function defaultDirectory(): string | undefined {
    if (!runningProcess?.getuid) return undefined
    const absolute = (name: string) => [variable(name)].find((path) => path?.startsWith('/'))
    const [data, home] = [absolute('XDG_DATA_HOME'), absolute('HOME')]
    if (runningProcess.getuid() === 0) return '/var/lib/elevo'
    if (data) return `${data}/elevo`
    return home ? `${home}/.local/share/elevo` : '/var/lib/elevo'
}

function read(path: string): string | undefined {
    try {
        return builtin('node:fs')?.readFileSync(path, 'utf8')
    } catch {
        return undefined
    }
}
