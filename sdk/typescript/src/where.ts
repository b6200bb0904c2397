// Finds the server: by arguments, by variables, or the server that `elevo up` started for this user.

import { ServerUnreachableError } from './errors.js'
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
    const [url, named] = byVariables(given.apiUrl)
    const local = localServer()
    const address = (url ?? local?.url)?.replace(/\/+$/, '')
    if (!address) {
        throw new ServerUnreachableError(
            'there is no server: set `apiUrl` or ELEVO_SERVER, or start a server on this machine with `elevo up`',
        )
    }
    // The key of the owner must not go to any other server.
    const owner = address === local?.url ? ownerKey(local.directory) : undefined
    const key = given.apiKey ?? named ?? owner
    if (!key) {
        throw new ServerUnreachableError(`there is no key for ${address}: set \`apiKey\` or ELEVO_API_KEY`)
    }
    return { url: address, key, isLocal: url === undefined }
}

/** Returns the address and the key. A key of one pair of variables does not go to the server of the other. */
function byVariables(apiUrl: string | undefined): [url?: string, key?: string] {
    const elevo = { url: variable('ELEVO_SERVER'), key: variable('ELEVO_API_KEY') }
    const workspace = { url: variable('WORKSPACE_API_URL'), key: variable('WORKSPACE_API_KEY') }
    const anyKey = elevo.key ?? workspace.key
    if (apiUrl) return [apiUrl, anyKey]
    if (elevo.url) return [elevo.url, elevo.key]
    if (workspace.url) return [workspace.url, workspace.key]
    return [undefined, anyKey]
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
