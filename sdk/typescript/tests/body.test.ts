import assert from 'node:assert/strict'
import { test } from 'node:test'
import { guarded } from '../src/body.js'
import { ConnectionLostError, WorkspaceClient } from '../src/index.js'
import { cut, open, transportOf } from './transports.js'

test('a silent body is lost, also if its connection stays open', async () => {
    const silent = open('begun')
    const { signal } = new AbortController()
    let ends = 0
    const response = guarded(new Response(silent.body), { signal, silence: 20, ended: () => ends++ })
    await assert.rejects(response.text(), ConnectionLostError)
    assert.equal(silent.wasCancelled, true)
    assert.equal(ends, 1)
})

test('a slow reader does not count as a silent body', async () => {
    const { signal } = new AbortController()
    const response = guarded(new Response('content'), { signal, silence: 10 })
    await new Promise((resolve) => setTimeout(resolve, 30))
    assert.equal(await response.text(), 'content')
})

test('a signal ends the body of readStream and downloadArchive with its reason', async () => {
    for (const method of ['readStream', 'downloadArchive'] as const) {
        const body = open('begun')
        const box = await sandboxWith(new Response(body.body))
        const controller = new AbortController()
        const options = { signal: controller.signal }
        const stream = await (method === 'readStream'
            ? box.files.readStream('file', options)
            : box.files.downloadArchive(options))
        const reader = stream.getReader()
        await reader.read()
        const reading = reader.read()
        controller.abort(new RangeError('enough'))
        await assert.rejects(reading, RangeError)
        assert.equal(body.wasCancelled, true)
    }
})

test('a body of readStream that is cut ends with an error of the package', async () => {
    const box = await sandboxWith(new Response(cut('begun')))
    const stream = await box.files.readStream('file')
    await assert.rejects(new Response(stream).text(), ConnectionLostError)
})

test('a signal ends a call whose body stalls, and the call is not repeated', async () => {
    const transport = transportOf(() => new Response(open('{').body))
    const client = new WorkspaceClient({ transport })
    const controller = new AbortController()
    const me = client.me({ signal: controller.signal })
    controller.abort(new RangeError('enough'))
    await assert.rejects(me, RangeError)
    assert.equal(transport.requests.length, 1)
})

test('a file keeps its byte order mark', async () => {
    const box = await sandboxWith(new Response('\ufefftext'))
    assert.equal(await box.files.read('file'), '\ufefftext')
})

/** Returns a sandbox whose files have a response. */
async function sandboxWith(response: Response) {
    const transport = transportOf(({ path }) => (path.endsWith('/sbx-1') ? Response.json({ id: 'sbx-1' }) : response))
    return new WorkspaceClient({ transport }).sandbox.get('sbx-1')
}
