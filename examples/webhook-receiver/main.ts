// Receives events by HTTP: verifies the signature, responds, and handles each event once.
// The example creates a webhook for itself, causes an event, and has the server send it twice.
import { randomBytes } from 'node:crypto'
import { on, once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { verifyWebhook, WebhookSignatureError, WorkspaceClient } from '@elevo/workspace-sdk'

const client = new WorkspaceClient()
const secret = `whsec_${randomBytes(32).toString('base64')}`
const receiver = createServer(async (request, response) => response.writeHead(await receive(request)).end())

// Returns the status of the response. Events are handled later, because the server sends an event
// again if it gets no response within some seconds.
async function receive(request: IncomingMessage): Promise<number> {
  try {
    // The signature is that of the body as it arrived, so the body is not parsed before.
    receiver.emit('event', await verifyWebhook(await buffer(request), request.headers, secret))
    return 204
  } catch (error) {
    if (error instanceof WebhookSignatureError) {
      console.log('rejected a request without a valid signature')
      return 401
    }
    // For example, the client has disconnected within its request.
    console.error(`a request failed: ${error}`)
    return 500
  }
}

const events = on(receiver, 'event')
receiver.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await once(receiver, 'listening')
// The server must reach this address. On loopback, it needs the setting WEBHOOK_ALLOW_PRIVATE=true.
const url = process.env.HOOK_URL ?? `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`

const webhook = await client.webhooks.create({ url, kinds: ['project.landed'], secret })
const project = await client.projects.create({ name: `webhook-${Date.now()}` })
try {
  // This request does not come from the server.
  await fetch(url, { method: 'POST', body: '{"id": 1, "kind": "project.landed"}' })
  await project.apply({ files: [{ path: 'page.md', content: '# Page\n' }] })

  // A service keeps the ids in its database.
  const seen = new Set<number>()
  for await (const [event] of events) {
    if (seen.has(event.id)) {
      console.log(`ignored ${event.kind}, which arrived again`)
      break
    }
    seen.add(event.id)
    console.log(`received ${event.kind}: step ${event.data.step} of ${event.data.project}`)
    await client.webhooks.replay(webhook.id, event.id)
  }
} finally {
  await client.webhooks.delete(webhook.id)
  await project.delete()
  receiver.close()
}
