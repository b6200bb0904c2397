import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
    chmodSync,
    mkdirSync,
    mkdtempSync,
    readFileSync,
    readlinkSync,
    rmSync,
    statSync,
    symlinkSync,
    writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { packDirectory, partsOf, unpackDirectory } from '../src/directories.js'
import { padding, readTar, type TarEntry, tarEnd, tarHeader } from '../src/tar.js'

/** Calls a function with an empty directory. */
async function withDirectory(use: (directory: string) => Promise<void>): Promise<void> {
    const directory = mkdtempSync(join(tmpdir(), 'elevo-tar-'))
    try {
        await use(directory)
    } finally {
        rmSync(directory, { recursive: true, force: true })
    }
}

/** Returns bytes in pieces of a size. */
async function* pieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

function archive(...entries: (Partial<TarEntry> & { path: string; content?: string })[]): Uint8Array {
    const parts = entries.flatMap(({ content = '', ...entry }) => {
        const size = Buffer.byteLength(content)
        const whole = { type: 'file', mode: 0o644, size, modified: 0, target: '', ...entry } as const
        return [tarHeader(whole), Buffer.from(content), padding(size)]
    })
    return Buffer.concat([...parts, tarEnd()])
}

const LONG = `${'directory/'.repeat(30)}ä-${'n'.repeat(120)}`

test('a directory survives the way through an archive, with long names, modes and links', () =>
    withDirectory(async (directory) => {
        const [from, to] = [join(directory, 'from'), join(directory, 'to')]
        mkdirSync(join(from, LONG, '..'), { recursive: true })
        writeFileSync(join(from, LONG), 'long')
        writeFileSync(join(from, 'program'), Buffer.alloc(700_000, 'x'))
        chmodSync(join(from, 'program'), 0o750)
        symlinkSync('../elsewhere', join(from, 'link'))
        mkdirSync(join(from, 'read-only'))
        writeFileSync(join(from, 'read-only/file'), '')
        chmodSync(join(from, 'read-only'), 0o555)
        const packed = new Uint8Array(await new Response(packDirectory(from)).arrayBuffer())
        for (const size of [packed.length, 1000]) {
            await unpackDirectory(pieces(packed, size), to)
            assert.equal(readFileSync(join(to, LONG), 'utf8'), 'long')
            assert.equal(statSync(join(to, 'program')).size, 700_000)
            assert.equal(statSync(join(to, 'program')).mode & 0o777, 0o750)
            assert.equal(readlinkSync(join(to, 'link')), '../elsewhere')
            assert.equal(statSync(join(to, 'read-only')).mode & 0o777, 0o555)
        }
        // The program tar reads the same.
        const names = execFileSync('tar', ['--list', '--file', '-'], {
            input: packed,
            encoding: 'utf8',
            env: { ...process.env, LC_ALL: 'C.UTF-8' },
        })
        assert.ok(names.split('\n').includes(LONG), names)
        chmodSync(join(from, 'read-only'), 0o755)
        chmodSync(join(to, 'read-only'), 0o755)
    }))

test('archives of the program tar are read', () =>
    withDirectory(async (directory) => {
        // Of 160 bytes: ustar has it in two parts.
        const path = `${'directory/'.repeat(15)}${'n'.repeat(10)}`
        const names = { gnu: LONG, pax: LONG, ustar: path }
        for (const [format, name] of Object.entries(names)) {
            const [from, to] = [join(directory, `${format}-from`), join(directory, format)]
            mkdirSync(join(from, name, '..'), { recursive: true })
            writeFileSync(join(from, name), 'content')
            const packed = execFileSync('tar', [
                '--create',
                `--format=${format}`,
                '--file',
                '-',
                '--directory',
                from,
                'directory',
            ])
            await unpackDirectory(pieces(packed, 512), to)
            assert.equal(readFileSync(join(to, name), 'utf8'), 'content')
        }
    }))

test('an archive writes nothing outside its directory', () =>
    withDirectory(async (directory) => {
        const to = join(directory, 'to')
        const unpack = (...entries: Parameters<typeof archive>) => unpackDirectory(pieces(archive(...entries), 512), to)
        await assert.rejects(unpack({ path: '../escaped', content: 'x' }), /leads outside/)
        await assert.rejects(
            unpack({ path: 'a', type: 'symlink', target: directory }, { path: 'a/escaped', content: 'x' }),
            /not a directory/,
        )
        // Also if the link is there from before.
        await assert.rejects(unpack({ path: 'a/escaped', content: 'x' }), /not a directory/)
        await assert.rejects(unpack({ path: 'b', type: 'link', target: '../secret' }), /leads outside/)
        await assert.rejects(unpack({ path: 'b', type: 'link', target: 'a/secret' }), /not a directory/)
        // A file replaces a link, and does not go through it.
        writeFileSync(join(directory, 'victim'), 'before')
        await unpack({ path: 'c', type: 'symlink', target: join(directory, 'victim') }, { path: 'c', content: 'after' })
        assert.equal(readFileSync(join(directory, 'victim'), 'utf8'), 'before')
        assert.equal(readFileSync(join(to, 'c'), 'utf8'), 'after')
        // A leading slash counts from the directory.
        await unpack({ path: '/absolute', content: 'x' })
        assert.equal(readFileSync(join(to, 'absolute'), 'utf8'), 'x')
    }))

test('a damaged or incomplete archive is an error', async () => {
    const whole = archive({ path: 'file', content: 'x'.repeat(600) })
    const read = async (bytes: Uint8Array) => {
        for await (const { content } of readTar(pieces(bytes, 100))) for await (const _ of content);
    }
    await read(whole)
    await assert.rejects(read(whole.subarray(0, 900)), /incomplete/)
    await assert.rejects(read(whole.subarray(0, 100)), /incomplete/)
    // All entries are there, and the end is not.
    await assert.rejects(read(whole.subarray(0, -1024)), /incomplete/)
    const damaged = Uint8Array.from(whole)
    damaged[0] = 0x66 ^ 1
    await assert.rejects(read(damaged), /checksum/)
})

test('names that mean more on Windows are rejected there', () => {
    for (const name of ['..\\..\\x', 'C:x', 'a\\b', 'file:stream']) {
        assert.throws(() => partsOf(name, '\\'), /leads outside/)
        assert.deepEqual(partsOf(name, '/'), [name])
    }
    assert.deepEqual(partsOf('./a//b/', '\\'), ['a', 'b'])
})

test('an archive that cannot be unpacked is not read on', async () =>
    withDirectory(async (directory) => {
        let hasEnded = false
        async function* endless(): AsyncGenerator<Uint8Array> {
            try {
                yield archive({ path: '../escaped', content: 'x' })
                for (;;) yield new Uint8Array(512)
            } finally {
                hasEnded = true
            }
        }
        await assert.rejects(unpackDirectory(endless(), directory), /leads outside/)
        assert.equal(hasEnded, true)
    }))

test('the lengths of pax records count bytes, also if a value is not UTF-8', async () => {
    // GNU tar writes names as they are.
    const name = Buffer.concat([Buffer.from('path='), Buffer.from([0xff, 0xfe]), Buffer.from('\n')])
    const records = Buffer.concat([Buffer.from('11 '), name, Buffer.from('16 linkpath=abc\n')])
    const header = tarHeader({ path: 'pax', type: 'file', mode: 0o644, size: records.length, modified: 0, target: '' })
    header[156] = 'x'.charCodeAt(0)
    header.set(Buffer.from('        '), 148)
    const sum = header.reduce((total, byte) => total + byte, 0)
    header.set(Buffer.from(`${sum.toString(8).padStart(6, '0')}\0 `), 148)
    const rest = archive({ path: 'short', type: 'symlink', target: 'target' })
    const bytes = Buffer.concat([header, records, padding(records.length), rest])
    const entries = []
    for await (const { entry } of readTar(pieces(bytes, 512))) entries.push(entry)
    assert.equal(entries[0]?.path, '\ufffd\ufffd')
    assert.equal(entries[0]?.target, 'abc')
})
