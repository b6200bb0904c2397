// Tar archives: ustar headers, with pax headers for what does not fit.

import { concat, toBytes } from './bytes.js'

/** Size of a block; everything in an archive begins at one. */
const BLOCK = 512

/** An entry of an archive. */
export interface TarEntry {
    path: string
    type: 'file' | 'directory' | 'symlink' | 'link'
    /** Permission bits. */
    mode: number
    size: number
    /** Time of the last change, in seconds since 1970. */
    modified: number
    /** Target of a link. */
    target: string
}

const FLAGS = { file: '0', link: '1', symlink: '2', directory: '5' } as const

/** Returns the header of an entry, with a pax header before it if the entry needs one. */
export function tarHeader(entry: TarEntry): Uint8Array {
    const records = [
        record('path', entry.path, fits(entry.path, 100)),
        record('linkpath', entry.target, fits(entry.target, 100)),
        record('size', String(entry.size), entry.size < 8 ** 11),
    ]
    const pax = concat(records)
    const plain = header(entry, FLAGS[entry.type])
    if (pax.length === 0) return plain
    const described = { ...entry, path: 'pax', target: '', size: pax.length }
    return concat([header(described, 'x'), pax, padding(pax.length), plain])
}

/** Returns the zeros that follow content of a size. */
export function padding(size: number): Uint8Array {
    return new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK)
}

/** Returns the end of an archive. */
export function tarEnd(): Uint8Array {
    return new Uint8Array(2 * BLOCK)
}

function fits(text: string, length: number): boolean {
    const bytes = toBytes(text)
    return bytes.length <= length && bytes.length === text.length
}

/** Returns a record of a pax header: its length, which counts itself, the name and the value. */
function record(name: string, value: string, isNeedless: boolean): Uint8Array {
    if (isNeedless) return new Uint8Array(0)
    const rest = toBytes(` ${name}=${value}\n`)
    let length = rest.length + 1
    while (String(length).length + rest.length !== length) length = String(length).length + rest.length
    return concat([toBytes(String(length)), rest])
}

function header(entry: TarEntry, flag: string): Uint8Array {
    const block = new Uint8Array(BLOCK)
    const put = (at: number, length: number, text: string) => block.set(toBytes(text).subarray(0, length), at)
    const octal = (value: number, digits: number) => Math.floor(value).toString(8).padStart(digits, '0')
    put(0, 100, entry.path)
    put(100, 8, octal(entry.mode & 0o7777, 7))
    put(108, 8, octal(0, 7))
    put(116, 8, octal(0, 7))
    put(124, 12, octal(entry.size < 8 ** 11 ? entry.size : 0, 11))
    put(136, 12, octal(Math.max(entry.modified, 0), 11))
    put(148, 8, '        ')
    put(156, 1, flag)
    put(157, 100, entry.target)
    put(257, 8, 'ustar\u000000')
    const sum = block.reduce((total, byte) => total + byte, 0)
    put(148, 8, `${octal(sum, 6)}\0 `)
    return block
}

/** Reads an archive. The content of an entry must be read, or is skipped, before the next entry. */
export async function* readTar(
    archive: AsyncIterable<Uint8Array>,
): AsyncGenerator<{ entry: TarEntry; content: AsyncIterable<Uint8Array> }> {
    const input = new BlockReader(archive)
    try {
        yield* entries(input)
    } finally {
        await input.close()
    }
}

async function* entries(input: BlockReader): AsyncGenerator<{ entry: TarEntry; content: AsyncIterable<Uint8Array> }> {
    let more: Record<string, string> = {}
    for (;;) {
        const block = await input.take(BLOCK)
        if (!block) throw new TypeError('the archive is incomplete')
        if (block.every((byte) => byte === 0)) return
        const { entry, flag } = parse(block)
        if (flag === 'x' || flag === 'L' || flag === 'K') {
            const content = await input.take(entry.size + padding(entry.size).length)
            const bytes = content?.subarray(0, entry.size) ?? new Uint8Array(0)
            if (flag === 'x') more = { ...more, ...records(bytes) }
            else more[flag === 'L' ? 'path' : 'linkpath'] = decode(bytes).replace(/\0+$/, '')
            continue
        }
        entry.path = more.path ?? entry.path
        entry.target = more.linkpath ?? entry.target
        entry.size = more.size === undefined ? entry.size : Number(more.size)
        more = {}
        const content = input.content(entry.size)
        // Global headers, devices and pipes are left out.
        if ('\x000125'.includes(flag)) yield { entry, content }
        for await (const _ of content) {
            // Skips the rest.
        }
        await input.take(padding(entry.size).length)
    }
}

function parse(block: Uint8Array): { entry: TarEntry; flag: string } {
    const text = (at: number, length: number) => decode(block.subarray(at, at + length)).replace(/\0.*$/s, '')
    const number = (at: number, length: number) => Number.parseInt(text(at, length).trim() || '0', 8)
    const sum = block.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0)
    if (sum !== number(148, 8)) throw new TypeError('the archive is damaged: a header has a wrong checksum')
    const flag = String.fromCharCode(block[156] ?? 0)
    const type = (Object.keys(FLAGS) as (keyof typeof FLAGS)[]).find((name) => FLAGS[name] === flag) ?? 'file'
    const isUstar = text(257, 6) === 'ustar'
    const prefix = isUstar ? text(345, 155) : ''
    const path = prefix ? `${prefix}/${text(0, 100)}` : text(0, 100)
    // A size of 8 GiB or more may be binary, as GNU tar writes it.
    const isBinary = (block[124] ?? 0) >= 0x80
    const size = isBinary ? block.subarray(128, 136).reduce((value, byte) => value * 256 + byte, 0) : number(124, 12)
    const entry: TarEntry = {
        path,
        type,
        mode: number(100, 8),
        size,
        modified: number(136, 12),
        target: text(157, 100),
    }
    return { entry, flag }
}

function decode(bytes: Uint8Array): string {
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
}

function records(bytes: Uint8Array): Record<string, string> {
    const found: Record<string, string> = {}
    for (let at = 0; at < bytes.length;) {
        const length = Number.parseInt(decode(bytes.subarray(at, at + 20)), 10)
        if (!(length > 0)) break
        const line = decode(bytes.subarray(at, at + length - 1))
        const [, name, value] = /^\d+ ([^=]*)=(.*)$/s.exec(line) ?? []
        if (name !== undefined) found[name] = value ?? ''
        at += length
    }
    return found
}

/** Reads a stream in pieces of given sizes. */
class BlockReader {
    readonly #chunks: AsyncIterator<Uint8Array>
    #chunk: Uint8Array = new Uint8Array(0)

    constructor(archive: AsyncIterable<Uint8Array>) {
        this.#chunks = archive[Symbol.asyncIterator]()
    }

    /** Ends the stream, also before its end. */
    async close(): Promise<void> {
        await this.#chunks.return?.()
    }

    /** Returns the next bytes; `undefined` at the end of the stream. */
    async take(size: number): Promise<Uint8Array | undefined> {
        const pieces: Uint8Array[] = []
        for await (const piece of this.content(size, true)) pieces.push(piece)
        const bytes = pieces.length === 1 ? (pieces[0] as Uint8Array) : concat(pieces)
        if (bytes.length === size) return bytes
        if (bytes.length === 0) return undefined
        throw new TypeError('the archive is incomplete')
    }

    /** Returns the next bytes in pieces, as they arrive. */
    async *content(size: number, mayEnd = false): AsyncGenerator<Uint8Array> {
        let left = size
        while (left > 0) {
            if (this.#chunk.length === 0) {
                const { done, value } = await this.#chunks.next()
                if (done && mayEnd) return
                if (done) throw new TypeError('the archive is incomplete')
                this.#chunk = value
                continue
            }
            const piece = this.#chunk.subarray(0, left)
            this.#chunk = this.#chunk.subarray(piece.length)
            left -= piece.length
            yield piece
        }
    }
}
