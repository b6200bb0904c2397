import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CommandDecoder, OutputEvent } from '../src/command-events.js'
import { ConnectionLostError } from '../src/errors.js'
import { readEvents, SseParser } from '../src/sse.js'

const TEXT = `: still there

event: stdout
id: 7
data: {"text":"ä € 😀"}

data: one\r
data:two\r
\r
id: 8

event: last
data:
: a comment
unknown: field
noColon

data: incomplete`

const EVENTS = [
    { event: 'stdout', id: '7', data: '{"text":"ä € 😀"}' },
    { event: 'message', id: undefined, data: 'one\ntwo' },
    { event: 'message', id: '8', data: undefined },
    { event: 'last', id: undefined, data: '' },
]

test('events are the same for every cut of the stream', () => {
    const bytes = new TextEncoder().encode(TEXT)
    for (let first = 0; first <= bytes.length; first++) {
        for (const size of [1, 2, 7, bytes.length]) {
            const parser = new SseParser()
            const found = [...parser.push(bytes.subarray(0, first))]
            for (let at = first; at < bytes.length; at += size)
                found.push(...parser.push(bytes.subarray(at, at + size)))
            assert.deepEqual(found, EVENTS, `cut at ${first}, then every ${size} bytes`)
        }
    }
})

test('a silent stream is lost, also if its connection stays open', async () => {
    const silent = new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode(': begun\n\n')),
    })
    let arrivals = 0
    const events = readEvents(new Response(silent), { silence: 20, onData: () => arrivals++ })
    await assert.rejects(events.next(), ConnectionLostError)
    assert.equal(arrivals, 1)
})

test('a slow reader does not count as a silent stream', async () => {
    const two = new TextEncoder().encode('data: 1\n\ndata: 2\n\n')
    const body = new ReadableStream({
        start(controller) {
            controller.enqueue(two)
            controller.close()
        },
    })
    const events = readEvents(new Response(body), { silence: 10 })
    assert.equal((await events.next()).value?.data, '1')
    await new Promise((resolve) => setTimeout(resolve, 30))
    assert.equal((await events.next()).value?.data, '2')
    assert.equal((await events.next()).done, true)
})

/** Returns the text and the bytes of standard output for pieces of bytes, which the server sends in base64. */
function decoded(pieces: Uint8Array[], limit?: number) {
    const decoder = new CommandDecoder(0, limit)
    const events = pieces.flatMap((piece, index) => {
        const data = { type: 'stdout', commandId: 'c', data: Buffer.from(piece).toString('base64'), encoding: 'base64' }
        return [...decoder.decode({ event: 'stdout', id: String(index), data: JSON.stringify(data) })]
    })
    const exit = JSON.stringify({ type: 'exit', commandId: 'c', exitCode: 0 })
    events.push(...decoder.decode({ event: 'exit', id: '9', data: exit }))
    const output = events.filter((event) => event instanceof OutputEvent)
    const last = events.at(-1)
    return {
        text: output.map((event) => event.data).join(''),
        bytes: Buffer.concat(output.map((event) => event.bytes)),
        truncated: last?.type === 'exit' && last.truncated,
    }
}

test('characters that are cut between events stay whole, and wrong bytes become replacement characters', () => {
    const bytes = Buffer.concat([Buffer.from('a€😀\ufeffz'), Buffer.from([0xff, 0xe2, 0x82])])
    for (let first = 0; first <= bytes.length; first++) {
        for (let second = first; second <= bytes.length; second++) {
            const pieces = [bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)]
            const result = decoded(pieces)
            assert.equal(result.text, 'a€😀\ufeffz\ufffd\ufffd', `cut at ${first} and ${second}`)
            assert.deepEqual(result.bytes, bytes)
        }
    }
})

test('output beyond maxOutputSize is discarded', () => {
    const result = decoded([Buffer.from('abc'), Buffer.from('def'), Buffer.from('ghi')], 4)
    assert.deepEqual(result, { text: 'abcd', bytes: Buffer.from('abcd'), truncated: true })
    assert.equal(decoded([Buffer.from('abc')], 3).truncated, false)
})
