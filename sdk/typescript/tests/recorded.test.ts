// Tests as users write them for their own code: with a recording in place of a server.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

import { CommandExitError, type Project, SandboxNotFoundError, withSandbox, WorkspaceClient } from '../src/index.js'
import { FakeTransport, record, recorded } from '../src/testing.js'
import { open, transportOf } from './transports.js'

function lines(name: string): string {
    return readFileSync(new URL(`../../scenarios/recorded/${name}.jsonl`, import.meta.url), 'utf8')
}

function clientOf(name: string): WorkspaceClient {
    return new WorkspaceClient({ transport: recorded(lines(name)) })
}

/** Code of a user: returns the output of a command, the file that it changed, and the changes. */
async function greet(client: WorkspaceClient) {
    return withSandbox(client, { template: 'base', name: 'quickstart' }, async (box) => {
        await box.files.write('hello.txt', 'hello\n')
        const before = await box.snapshot({ message: 'before' })
        const { stdout } = await box.process.run('echo world >> hello.txt; cat hello.txt')
        const text = await box.files.read('hello.txt')
        const { changes } = await box.diff({ from: before.id })
        return { stdout, text, changes: changes.map(({ kind, path }) => `${kind} ${path}`) }
    })
}

/** Code of a user: merges the first fork whose command succeeds, and returns the page of the project. */
async function bestOfTwo(client: WorkspaceClient): Promise<string> {
    const site: Project = await client.projects.create({ name: 'site' })
    await site.apply({ files: [{ path: 'index.md', content: '# Site\n' }] })
    const box = await client.sandbox.create({ template: 'base', name: 'writer', project: 'site' })
    const { succeeded } = await box.fork({ count: 2, name: 'try' })
    const commands = ['exit 1', 'echo Welcome. >> index.md']
    for (const [index, fork] of succeeded.entries()) {
        const { exitCode } = await fork.process.run(commands[index] as string)
        if (exitCode === 0) await fork.merge({ message: 'a welcome' })
    }
    const page = await site.files.read('index.md')
    for (const each of [...succeeded, box, site]) await each.delete()
    return page
}

test('code with files, a command and a diff runs with a recording', async () => {
    const expected = { stdout: 'hello\nworld\n', text: 'hello\nworld\n', changes: ['changed hello.txt'] }
    assert.deepEqual(await greet(clientOf('quickstart')), expected)
})

test('code with forks and a merge runs with a recording', async () => {
    assert.equal(await bestOfTwo(clientOf('fork-and-merge')), '# Site\nWelcome.\n')
})

test('a recorded command fails, and the next one on the same path has its own output', async () => {
    const box = await clientOf('failing-command').sandbox.create({ template: 'base' })
    const result = await box.process.run('echo 1 test failed >&2; exit 3')
    assert.throws(() => result.check(), CommandExitError)
    assert.equal(result.stderr, '1 test failed\n')
    let output = ''
    for await (const event of box.process.runStream('echo passed')) if (event.type === 'stdout') output += event.data
    assert.equal(output, 'passed\n')
})

test('a recorded error has its class and fields', async () => {
    await assert.rejects(
        async () => clientOf('error').sandbox.get('nothing'),
        (error: unknown) => {
            assert.ok(error instanceof SandboxNotFoundError)
            const { code, status, retry, attempts } = error
            assert.deepEqual(
                { code, status, retry, attempts },
                { code: 2001, status: 404, retry: 'never', attempts: 1 },
            )
            return true
        },
    )
})

test('a request that was not recorded is an error with the request and the next recorded one', async () => {
    const client = clientOf('error')
    const unexpected = /GET \/api\/v1\/sandboxes\/other.*next recorded request is GET \/api\/v1\/sandboxes\/nothing/
    await assert.rejects(async () => client.sandbox.get('other'), unexpected)
    await assert.rejects(async () => client.sandbox.get('nothing'), SandboxNotFoundError)
    await assert.rejects(async () => client.sandbox.get('nothing'), /the recording has ended/)
})

test('a query matches in every order and encoding', async () => {
    const request = { method: 'GET', path: '/api/v1/x?path=a%2Fb+c&limit=1' }
    const transport = new FakeTransport([{ request, response: { status: 204, headers: {} } }])
    const { status } = await transport.send({ method: 'GET', path: '/api/v1/x?limit=1&path=a/b%20c', headers: {} })
    assert.equal(status, 204)
})

test('a client with a recorder writes a recording that responds in the same way', async () => {
    const transport = record(recorded(lines('quickstart')))
    const first = await greet(new WorkspaceClient({ transport }))
    assert.deepEqual(await greet(new WorkspaceClient({ transport: recorded(transport.lines) })), first)
})

test('a recording has no secrets, and does not keep a stream open that its reader has left', async () => {
    const created = { id: 'key-1', secret: 'elv_secret' }
    const recorder = record(transportOf(() => Response.json(created)))
    const key = await new WorkspaceClient({ transport: recorder }).keys.create({ name: 'ci' })
    assert.equal(key.secret, 'elv_secret')
    assert.ok(recorder.lines[0]?.includes('"secret":"removed"'), recorder.lines[0])

    const stream = open('id: 1\ndata: {"id": 1}\n\n')
    const headers = { 'content-type': 'text/event-stream' }
    const events = record(transportOf(() => new Response(stream.body, { headers })))
    for await (const _ of new WorkspaceClient({ transport: events }).events.stream()) break
    assert.equal(stream.wasCancelled, true)
    assert.ok(events.lines[0]?.includes('{\\"id\\": 1}'), events.lines[0])
})
