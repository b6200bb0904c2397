// Runs the scenarios of sdk/scenarios: scenarios.mjs [NAMES...], inside stage.py.
// A name is that of a file without `.yaml`, or a part of the name of a scenario.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import * as sdk from '../src/index.js'
import { insert, lookUp, mismatch, show, type Variables } from './matching.js'

interface Step extends Record<string, unknown> {
    args?: unknown[]
    options?: Record<string, unknown>
    as?: string
    expect?: unknown
    error?: Record<string, unknown>
    only?: string[]
}

interface Scenario {
    file: string
    name: string
    steps: Step[]
    always?: { steps: Step[] }
}

const KINDS = ['call', 'get', 'stream', 'start', 'await', 'stage', 'client', 'repeat', 'eventually'] as const
const EVENTUALLY = 60_000

/** A failed step, with its place. */
class Failure extends Error {}

/** Sends a command to the stage. */
async function stage(command: string, body: unknown): Promise<unknown> {
    const init = { method: 'POST', body: JSON.stringify(body ?? {}) }
    const response = await fetch(`${process.env.ELEVO_STAGE}/${command}`, init)
    const result = (await response.json()) as { error?: string }
    if (response.status !== 200) throw new Error(`stage: ${result.error}`)
    return result
}

/** Runs one scenario. */
class Run {
    readonly #scenario: Scenario
    readonly #scratch = mkdtempSync(join(tmpdir(), 'elevo-scenario-'))
    readonly #variables: Variables
    readonly #clients = [new sdk.WorkspaceClient()]
    /** Objects that steps have created, to delete them at the end. */
    readonly #created = new Set<{ delete(): PromiseLike<void> }>()

    constructor(scenario: Scenario) {
        this.#scenario = scenario
        const unique = `s${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`
        this.#variables = { client: this.#clients[0], sdk, unique, scratch: this.#scratch }
    }

    async run(): Promise<void> {
        const { name, steps, always } = this.#scenario
        await stage('scenario', { name })
        try {
            await this.#steps(steps, this.#variables)
        } finally {
            try {
                await this.#steps(always?.steps ?? [], this.#variables)
            } finally {
                await this.#cleanUp()
            }
        }
    }

    async #cleanUp(): Promise<void> {
        await stage('clear', {})
        const order = ['Sandbox', 'Workspace', 'Project']
        const created = [...this.#created].sort(
            (a, b) => order.indexOf(a.constructor.name) - order.indexOf(b.constructor.name),
        )
        for (const object of created) {
            await object.delete().then(undefined, (error) => {
                // The steps may have revoked its key.
                if (!(error instanceof sdk.NotFoundError || error instanceof sdk.AuthError)) throw error
            })
        }
        for (const client of this.#clients) await client.close()
        rmSync(this.#scratch, { recursive: true, force: true })
    }

    async #steps(steps: Step[], variables: Variables): Promise<void> {
        for (const [index, step] of steps.entries()) {
            if (step.only && !step.only.includes('typescript')) continue
            const kind = KINDS.find((kind) => kind in step)
            const place = `step ${index + 1} (${kind}: ${show(step[kind ?? ''])})`
            if (!kind) throw new Failure(`${place}: the runner does not know this step`)
            try {
                await this.#step(kind, step, variables)
            } catch (error) {
                const text =
                    error instanceof Failure
                        ? error.message
                        : error instanceof Error && error.stack
                          ? `${show(error)}\n${error.stack}`
                          : show(error)
                throw new Failure(`${place}: ${text}`)
            }
        }
    }

    async #step(kind: (typeof KINDS)[number], step: Step, variables: Variables): Promise<void> {
        let value: unknown
        try {
            value = await this.#value(kind, step, variables)
        } catch (error) {
            if (!step.error || error instanceof Failure) throw error
            checkError(error, insert(step.error, variables) as Record<string, unknown>)
            return
        }
        if (step.error) throw new Failure(`expected the error ${show(step.error)}, got ${show(value)}`)
        this.#keep(value)
        if (step.as) variables[step.as] = value
        if ('expect' in step) {
            const problem = mismatch(value, insert(step.expect, variables))
            if (problem) throw new Failure(problem)
        }
    }

    async #value(kind: (typeof KINDS)[number], step: Step, variables: Variables): Promise<unknown> {
        const named = step[kind] as string
        switch (kind) {
            case 'call':
                return readAll(await this.#call(named, step, variables))
            case 'get':
                return lookUp(named, variables)
            case 'stream':
                return this.#stream(named, step, variables)
            case 'start': {
                const task = (async () => readAll(await this.#call(named, step, variables)))()
                task.catch(() => {})
                return { task }
            }
            case 'await':
                return (lookUp(named, variables) as { task: Promise<unknown> }).task
            case 'stage': {
                const [command, body] = Object.entries(insert(step.stage, variables) as object)[0] as [string, unknown]
                return stage(command, body)
            }
            case 'client':
                return this.#client(insert(step.client, variables) as Record<string, unknown>)
            case 'repeat':
                return this.#repeat(step, variables)
            case 'eventually':
                return this.#eventually((step.eventually as { steps: Step[] }).steps, variables)
        }
    }

    /** Calls a method. */
    #call(path: string, step: Step, variables: Variables): unknown {
        const [owner, name] = split(path)
        const receiver = lookUp(owner, variables) as Record<string, (...values: unknown[]) => unknown>
        const method = receiver?.[name]
        if (typeof method !== 'function') throw new Failure(`\`${owner}\` has no method \`${name}\``)
        const values = (step.args ?? []).map((value) => insert(value, variables))
        if (step.options) {
            const { deadline, ...options } = insert(step.options, variables) as Record<string, unknown>
            values.push(deadline === undefined ? options : { ...options, signal: deadlineOf(deadline as number) })
        }
        if (step.callback) values.push(this.#callback(step.callback as { as: string; steps: Step[] }, variables))
        return method.apply(receiver, values)
    }

    #callback({ as, steps }: { as: string; steps: Step[] }, variables: Variables): (value: unknown) => Promise<void> {
        return async (value) => {
            variables[as] = value
            await this.#steps(steps, variables)
        }
    }

    /** Iterates over the result of a method, or over an object. */
    async #stream(path: string, step: Step, variables: Variables): Promise<unknown> {
        const [owner, name] = split(path)
        const isMethod =
            owner !== '' && typeof (lookUp(owner, variables) as Record<string, unknown>)?.[name] === 'function'
        let source = isMethod ? this.#call(path, step, variables) : lookUp(path, variables)
        // A list is both a promise and an iterator.
        if (!(Symbol.asyncIterator in Object(source))) source = await source
        const seen = { items: [] as unknown[], stdout: '', stderr: '', exitCode: null as unknown, gaps: 0, count: 0 }
        const pending = [step.each ?? []].flat() as { when: unknown; steps: Step[] }[]
        const decoder = new TextDecoder()
        for await (const item of source as AsyncIterable<Record<string, unknown>>) {
            const isText = item instanceof Uint8Array || typeof item === 'string'
            collect(seen, item, decoder)
            const matches = (expected: unknown) =>
                mismatch(isText ? seen.stdout : item, insert(expected, variables)) === undefined
            for (const each of pending.filter((each) => matches(each.when))) {
                pending.splice(pending.indexOf(each), 1)
                await this.#steps(each.steps, variables)
            }
            if ('until' in step && matches(step.until)) return seen
        }
        if ('until' in step) throw new Failure(`the stream ended before ${show(step.until)}: ${show(seen)}`)
        if (pending.length > 0) throw new Failure(`the stream ended before ${show(pending[0]?.when)}: ${show(seen)}`)
        return seen
    }

    #client(options: Record<string, unknown>): sdk.WorkspaceClient {
        const { key, server, ...rest } = options
        const apiUrl = (server ?? process.env.ELEVO_SERVER) as string
        const apiKey = (key ?? process.env.ELEVO_API_KEY) as string
        const client = new sdk.WorkspaceClient({ ...rest, apiUrl, apiKey })
        this.#clients.push(client)
        return client
    }

    async #repeat(step: Step, variables: Variables): Promise<void> {
        const steps = step.steps as Step[]
        const all: Promise<void>[] = []
        for (let index = 0; index < (step.repeat as number); index++) {
            // Parallel steps have variables of their own.
            const own: Variables = step.parallel
                ? Object.assign(Object.create(variables), { index })
                : Object.assign(variables, { index })
            const running = this.#steps(steps, own)
            if (step.parallel) all.push(running)
            else await running
        }
        await Promise.all(all)
    }

    async #eventually(steps: Step[], variables: Variables): Promise<void> {
        const end = Date.now() + EVENTUALLY
        for (;;) {
            try {
                return await this.#steps(steps, variables)
            } catch (error) {
                if (Date.now() > end) throw error
                await new Promise((resolve) => setTimeout(resolve, 100))
            }
        }
    }

    #keep(value: unknown): void {
        const created = (value as { succeeded?: unknown[] } | null)?.succeeded ?? [value]
        for (const object of created) {
            const name = (object as object | null)?.constructor?.name ?? ''
            if (['Sandbox', 'Workspace', 'Project'].includes(name))
                this.#created.add(object as { delete(): PromiseLike<void> })
        }
    }
}

function split(path: string): [owner: string, name: string] {
    const at = path.lastIndexOf('.')
    return [path.slice(0, Math.max(at, 0)), path.slice(at + 1)]
}

/** Reads a stream of bytes to its end; returns any other value. */
async function readAll(value: unknown): Promise<unknown> {
    return value instanceof ReadableStream ? new Uint8Array(await new Response(value).arrayBuffer()) : value
}

interface Seen {
    items: unknown[]
    stdout: string
    stderr: string
    exitCode: unknown
    gaps: number
    count: number
}

function collect(seen: Seen, item: unknown, decoder: TextDecoder): void {
    seen.items.push(item)
    seen.count++
    if (item instanceof Uint8Array) seen.stdout += decoder.decode(item, { stream: true })
    else if (typeof item === 'string') seen.stdout += item
    else if (item && typeof item === 'object') {
        const event = item as { type?: string; kind?: string; data?: string; exitCode?: number }
        if (event.type === 'stdout') seen.stdout += event.data
        if (event.type === 'stderr') seen.stderr += event.data
        if (event.type === 'gap' || event.kind === 'gap') seen.gaps++
        if (event.type === 'exit') seen.exitCode = event.exitCode
    }
}

/** Returns a signal that aborts later, with the error that the SDK for Python has for a deadline. */
function deadlineOf(milliseconds: number): AbortSignal {
    const controller = new AbortController()
    const error = new sdk.RequestTimeoutError(`the deadline of ${milliseconds} ms has passed`)
    AbortSignal.timeout(milliseconds).addEventListener('abort', () => controller.abort(error))
    return controller.signal
}

function checkError(error: unknown, expected: Record<string, unknown>): void {
    const { class: name, ...fields } = expected
    const classes: string[] = []
    for (let at = Object.getPrototypeOf(error); at; at = Object.getPrototypeOf(at)) classes.push(at.constructor.name)
    if (name !== undefined && !classes.includes(String(name))) {
        throw new Failure(`expected the error ${name}, got ${show(error)}\n${(error as Error).stack}`)
    }
    const problem = mismatch(error, fields, 'the error')
    if (problem) throw new Failure(`${problem} (${show(error)})`)
    if (error instanceof sdk.WorkspaceError && error.code > 0) {
        const missing = (['message', 'remediation', 'requestId'] as const).find((field) => !error[field])
        if (missing) throw new Failure(`the error of the server has no ${missing}: ${show(error)}`)
    }
}

function scenarios(names: string[]): Scenario[] {
    const directory = process.env.ELEVO_SCENARIOS ?? ''
    const files = readdirSync(directory).filter((name) => name.endsWith('.yaml'))
    const all = files.sort().flatMap((name) => {
        const documents = parseAllDocuments(readFileSync(join(directory, name), 'utf8'))
        return [documents]
            .flat()
            .map((document) => ({ file: name.slice(0, -5), ...document.toJS({ maxAliasCount: -1 }) }) as Scenario)
    })
    if (names.length === 0) return all
    return all.filter(({ file, name }) => names.some((wanted) => wanted === file || name.includes(wanted)))
}

const chosen = scenarios(process.argv.slice(2))
let failures = 0
for (const scenario of chosen) {
    const began = performance.now()
    const time = () => `${((performance.now() - began) / 1000).toFixed(1)} s`
    try {
        await new Run(scenario).run()
        console.log(`ok    ${scenario.file}: ${scenario.name} (${time()})`)
    } catch (error) {
        failures++
        console.log(`FAIL  ${scenario.file}: ${scenario.name} (${time()})\n      ${(error as Error).message}`)
    }
}
console.log(`${chosen.length - failures} of ${chosen.length} scenarios passed`)
process.exit(failures > 0 || chosen.length === 0 ? 1 : 0)
