// The values and expectations of scenarios.

/** Variables of a scenario. */
export type Variables = Record<string, unknown>

/** Inserts variables: `${x.y}` alone is the value itself, and in a text its text. */
export function insert(value: unknown, variables: Variables): unknown {
    if (typeof value === 'string') {
        const whole = /^\$\{([^}]+)\}$/.exec(value)
        if (whole) return lookUp(whole[1] as string, variables)
        return value.replace(/\$\{([^}]+)\}/g, (_, path) => String(plain(lookUp(path, variables))))
    }
    if (Array.isArray(value)) return value.map((item) => insert(item, variables))
    if (value && typeof value === 'object') {
        return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, insert(field, variables)]))
    }
    return value
}

/** Returns the value at a path such as `box.id` or `list.0`. */
export function lookUp(path: string, variables: Variables): unknown {
    const [first, ...rest] = path.split('.') as [string, ...string[]]
    if (!(first in variables)) throw new Error(`there is no variable \`${first}\``)
    return rest.reduce((value, name) => (value as Record<string, unknown> | null | undefined)?.[name], variables[first])
}

/** Returns a value as scenarios see it: times as ISO text, bytes as UTF-8 text. */
export function plain(value: unknown): unknown {
    if (value === undefined) return null
    if (value instanceof Date) return value.toISOString()
    if (value instanceof Uint8Array) return new TextDecoder().decode(value)
    if (value instanceof Headers) return Object.fromEntries(value)
    return value
}

/** Returns why a value does not match an expectation, or `undefined` if it matches. */
export function mismatch(actual: unknown, expected: unknown, at = 'the value'): string | undefined {
    const value = plain(actual)
    const wrong = (text = show(expected)) => `${at}: expected ${text}, got ${show(value)}`
    if (expected === '$any') return value === null ? wrong('a value') : undefined
    if (typeof expected === 'string' && expected.startsWith('~')) {
        const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
        return new RegExp(expected.slice(1)).test(text) ? undefined : wrong()
    }
    if (Array.isArray(expected)) {
        if (!Array.isArray(value) || value.length !== expected.length) return wrong()
        return first(expected.map((item, index) => mismatch(value[index], item, `${at}.${index}`)))
    }
    if (expected && typeof expected === 'object') {
        return first(Object.entries(expected).map(([name, field]) => mismatchOfField(value, name, field, at)))
    }
    return value === expected ? undefined : wrong()
}

function mismatchOfField(value: unknown, name: string, expected: unknown, at: string): string | undefined {
    const wrong = () => `${at}: expected ${name} ${show(expected)}, got ${show(value)}`
    const check = (matches: boolean) => (matches ? undefined : wrong())
    const list = value as unknown[]
    switch (name) {
        case '$length':
            return check(list?.length === expected)
        case '$contains':
            if (typeof value === 'string') return check(value.includes(String(expected)))
            return check(Array.isArray(list) && list.some((item) => mismatch(item, expected) === undefined))
        case '$not':
            return check(mismatch(value, expected) !== undefined)
        case '$atLeast':
            return check((value as number) >= (expected as number))
        case '$atMost':
            return check((value as number) <= (expected as number))
    }
    if (value === null || typeof value !== 'object') return `${at}: expected an object with ${name}, got ${show(value)}`
    return mismatch((value as Record<string, unknown>)[name], expected, `${at}.${name}`)
}

function first(problems: (string | undefined)[]): string | undefined {
    return problems.find((problem) => problem !== undefined)
}

/** Returns a value as a short text. */
export function show(value: unknown): string {
    if (value instanceof Error) return `${value.constructor.name} ${value.name}: ${value.message}`
    const seen = new Set<unknown>()
    const text = JSON.stringify(value, (_, field) => {
        if (typeof field === 'bigint') return String(field)
        if (field && typeof field === 'object') {
            if (seen.has(field)) return undefined
            seen.add(field)
        }
        return plain(field)
    })
    return text === undefined ? String(value) : text.length > 600 ? `${text.slice(0, 600)}…` : text
}
