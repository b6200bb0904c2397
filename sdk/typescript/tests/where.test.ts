import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { InvalidRequestError, ServerUnreachableError } from '../src/errors.js'
import { findServer } from '../src/where.js'

const NAMES = ['ELEVO_SERVER', 'ELEVO_API_KEY', 'WORKSPACE_API_URL', 'WORKSPACE_API_KEY', 'ELEVO_DATA']
const before = NAMES.map((name) => [name, process.env[name]] as const)
let data: string

beforeEach(() => {
    for (const name of NAMES) delete process.env[name]
    data = mkdtempSync(join(tmpdir(), 'elevo-data-'))
    process.env.ELEVO_DATA = data
})

afterEach(() => {
    rmSync(data, { recursive: true })
    for (const [name, value] of before) {
        if (value === undefined) delete process.env[name]
        else process.env[name] = value
    }
})

function announce(record: object): void {
    writeFileSync(
        join(data, 'server.json'),
        JSON.stringify({ version: 1, address: '127.0.0.1:8080', pid: process.pid, ...record }),
    )
    writeFileSync(join(data, 'owner.key'), 'elv_owner\n')
}

test('arguments win over variables, and ELEVO_SERVER over WORKSPACE_API_URL', () => {
    Object.assign(process.env, { WORKSPACE_API_URL: 'http://two/', WORKSPACE_API_KEY: 'second' })
    assert.deepEqual(findServer({}), { url: 'http://two', key: 'second', isLocal: false })
    Object.assign(process.env, { ELEVO_SERVER: 'http://one', ELEVO_API_KEY: 'first' })
    assert.deepEqual(findServer({}), { url: 'http://one', key: 'first', isLocal: false })
    assert.deepEqual(findServer({ apiUrl: 'http://own//', apiKey: 'own' }), {
        url: 'http://own',
        key: 'own',
        isLocal: false,
    })
    assert.deepEqual(findServer({ apiUrl: 'http://own' }), { url: 'http://own', key: 'first', isLocal: false })
})

test('the first complete pair of variables wins, else each value of the first variable that has it', () => {
    Object.assign(process.env, { ELEVO_SERVER: 'http://one', WORKSPACE_API_KEY: 'second' })
    assert.deepEqual(findServer({}), { url: 'http://one', key: 'second', isLocal: false })
    process.env.WORKSPACE_API_URL = 'http://two'
    assert.deepEqual(findServer({}), { url: 'http://two', key: 'second', isLocal: false })
    process.env.ELEVO_API_KEY = 'first'
    assert.deepEqual(findServer({}), { url: 'http://one', key: 'first', isLocal: false })
})

test('an address without a scheme and a key with other characters are rejected, and the key is not shown', () => {
    for (const apiUrl of ['localhost:8080', '127.0.0.1', 'ftp://server', 'http://']) {
        assert.throws(() => findServer({ apiUrl, apiKey: 'key' }), InvalidRequestError)
    }
    for (const apiKey of ['elv_two words', 'elv_ä', 'elv_\u200b', 'elv_a\nb']) {
        const isSafe = (error: Error) => error instanceof InvalidRequestError && !error.message.includes('elv_')
        assert.throws(() => findServer({ apiUrl: 'http://one', apiKey }), isSafe)
    }
    assert.equal(findServer({ apiUrl: 'http://one', apiKey: ' elv_key\n' }).key, 'elv_key')
})

test('the server of this machine is found with the key of its owner', () => {
    announce({})
    assert.deepEqual(findServer({}), { url: 'http://127.0.0.1:8080', key: 'elv_owner', isLocal: true })
    assert.equal(findServer({ apiUrl: 'http://127.0.0.1:8080/' }).key, 'elv_owner')
    announce({ certificate: '/etc/certificate.pem' })
    assert.equal(findServer({}).url, 'https://127.0.0.1:8080')
})

test('the key of the owner goes to no other server', () => {
    announce({})
    assert.throws(() => findServer({ apiUrl: 'http://127.0.0.1:9' }), ServerUnreachableError)
})

test('the record of a server that has ended is ignored', () => {
    // Above the largest number of a process on Linux.
    announce({ pid: 2 ** 22 + 1 })
    assert.throws(() => findServer({}), /elevo up/)
})
