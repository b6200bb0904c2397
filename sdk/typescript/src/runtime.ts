// Access to modules that only some runtimes have.

import type * as FileSystem from 'node:fs'
import type * as Path from 'node:path'

interface Modules {
    'node:fs': typeof FileSystem
    'node:path': typeof Path
}

interface Process {
    env: Record<string, string | undefined>
    versions?: Record<string, string | undefined>
    getBuiltinModule?<Name extends keyof Modules>(name: Name): Modules[Name] | undefined
    getuid?(): number
    kill(pid: number, signal: 0): true
}

/** The process, on Node.js, Bun and Deno. */
export const runningProcess = (globalThis as { process?: Process }).process

/** Returns a module of Node.js, or `undefined` in a browser. Bundlers do not see an import. */
export function builtin<Name extends keyof Modules>(name: Name): Modules[Name] | undefined {
    return runningProcess?.getBuiltinModule?.(name)
}

/** Returns an environment variable that is neither absent nor empty. */
export function variable(name: string): string | undefined {
    // Deno without the permission to read variables throws.
    try {
        return runningProcess?.env[name] || undefined
    } catch {
        return undefined
    }
}

/** Returns the name and the version of the runtime, or `undefined` in a browser. */
export function runtimeName(): string | undefined {
    const versions = runningProcess?.versions
    if (versions?.bun) return `bun/${versions.bun}`
    if (versions?.deno) return `deno/${versions.deno}`
    return versions?.node && `node/${versions.node}`
}
