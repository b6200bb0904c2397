// Requests without the SDK, to compare with.

/** Sends a request with the key of the environment by `fetch`. */
export async function bareFetch(path: string, body?: object): Promise<Response> {
  const headers = { authorization: `Bearer ${variable('ELEVO_API_KEY')}`, 'content-type': 'application/json' }
  const init = body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers }
  const response = await fetch(variable('ELEVO_SERVER') + path, init)
  if (!response.ok) throw new Error(`${path} failed with status ${response.status}: ${await response.text()}`)
  return response
}

function variable(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set; run the benchmark through sdk/scenarios/stage.py --direct`)
  return value
}
