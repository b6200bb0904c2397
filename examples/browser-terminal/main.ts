// Serves a page with a terminal in a sandbox. The key stays here: the page gets tickets.
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { WorkspaceClient } from '@elevo/workspace-sdk'

const port = Number(process.env.PORT ?? 3000)
const page = await readFile(new URL('index.html', import.meta.url))

const client = new WorkspaceClient()
await using box = await client.sandbox.create({ template: process.env.ELEVO_TEMPLATE ?? 'base', timeoutSeconds: 3600 })
// The page is simple: a shell without colours suits it.
const envs = { TERM: 'dumb', PS1: '$ ' }
const terminal = await box.pty.create({ cols: 80, rows: 24, shell: '/bin/sh', envs })

const backend = createServer(async (request, response) => {
  if (request.method !== 'POST' || request.url !== '/ticket') {
    response.writeHead(200, { 'content-type': 'text/html' }).end(page)
    return
  }
  try {
    // Ask here whether this visitor may use this terminal.
    const { url } = await box.pty.ticket(terminal.id)
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ url }))
  } catch (error) {
    console.error(`there is no ticket: ${error}`)
    response.writeHead(500).end()
  }
})
backend.listen(port, '127.0.0.1', () => console.log(`open http://127.0.0.1:${port}/ and type; exit ends the example`))

// Ctrl-C ends the shell, and with it the example, which deletes the sandbox.
process.once('SIGINT', () => terminal.kill().catch(() => terminal.close()))
try {
  const { exitCode } = await terminal.wait()
  console.log(`the shell has ended with exit code ${exitCode}`)
} finally {
  backend.close()
  backend.closeAllConnections()
}
