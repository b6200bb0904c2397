import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verifyWebhook, WebhookSignatureError } from '../src/index.js'

// The example in the libraries of Standard Webhooks.
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const BODY = '{"test": 2432232314}'
const NOW = new Date(1_614_265_330_000)
const HEADERS = {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
}

const verify = (headers: Record<string, string | undefined>, secret: string | string[] = SECRET, now = NOW) =>
    verifyWebhook(BODY, headers, secret, { now })

test('a genuine delivery has its event, however its headers are given', async () => {
    const expected = { test: 2432232314 }
    assert.deepEqual(await verify(HEADERS), expected)
    assert.deepEqual(
        await verifyWebhook(new TextEncoder().encode(BODY), new Headers(HEADERS), SECRET, { now: NOW }),
        expected,
    )
    const upper = Object.fromEntries(Object.entries(HEADERS).map(([name, value]) => [name.toUpperCase(), value]))
    assert.deepEqual(await verify(upper), expected)
})

test('one of several signatures and one of several secrets suffice', async () => {
    await verify({ ...HEADERS, 'webhook-signature': `v1,AAAA ${HEADERS['webhook-signature']}` })
    await verify(HEADERS, ['another secret', SECRET])
})

test('the time of an event becomes a date', async () => {
    const body = '{"id":1,"kind":"x","timestamp":"2026-01-02T03:04:05Z","data":{}}'
    const [id, seconds] = ['msg', String(NOW.getTime() / 1000)]
    const key = await crypto.subtle.importKey('raw', Buffer.from('plain'), { name: 'HMAC', hash: 'SHA-256' }, false, [
        'sign',
    ])
    const signature = Buffer.from(await crypto.subtle.sign('HMAC', key, Buffer.from(`${id}.${seconds}.${body}`)))
    const headers = {
        'webhook-id': id,
        'webhook-timestamp': seconds,
        'webhook-signature': `v1,${signature.toString('base64')}`,
    }
    const event = await verifyWebhook(body, headers, 'plain', { now: NOW })
    assert.deepEqual(event.timestamp, new Date('2026-01-02T03:04:05Z'))
})

test('anything else is an error', async () => {
    const wrong = (headers: Record<string, string | undefined>, secret?: string, now?: Date) =>
        assert.rejects(verify(headers, secret, now), WebhookSignatureError)
    await wrong(HEADERS, 'another secret')
    await wrong({ ...HEADERS, 'webhook-id': 'other' })
    await wrong({ ...HEADERS, 'webhook-signature': '' })
    await wrong({ ...HEADERS, 'webhook-signature': HEADERS['webhook-signature'].slice(0, -1) })
    await wrong({ ...HEADERS, 'webhook-signature': undefined })
    await wrong({ ...HEADERS, 'webhook-timestamp': 'soon' })
    await verify(HEADERS, SECRET, new Date(NOW.getTime() + 300_000))
    await wrong(HEADERS, SECRET, new Date(NOW.getTime() + 301_000))
    await wrong(HEADERS, SECRET, new Date(NOW.getTime() - 301_000))
    await wrong(HEADERS, '')
    await wrong(HEADERS, 'whsec_')
    const parsed = JSON.parse(BODY) as unknown as string
    await assert.rejects(verifyWebhook(parsed, HEADERS, SECRET, { now: NOW }), WebhookSignatureError)
    await assert.rejects(verifyWebhook(`${BODY} `, HEADERS, SECRET, { now: NOW }), WebhookSignatureError)
})

test('headers may be arrays', async () => {
    const headers = Object.fromEntries(Object.entries(HEADERS).map(([name, value]) => [name, [value]]))
    await verifyWebhook(BODY, headers, SECRET, { now: NOW })
})
