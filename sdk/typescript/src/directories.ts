// Directories of this machine as tar archives. Needs a runtime with `node:fs`.

import { builtin } from './runtime.js'
import { padding, readTar, type TarEntry, tarEnd, tarHeader } from './tar.js'

function modules() {
    const [fs, path] = [builtin('node:fs'), builtin('node:path')]
    if (!fs || !path) {
        throw new TypeError('this runtime has no file system: use uploadArchive and downloadArchive')
    }
    return { fs, path, files: fs.promises }
}

/** Returns a directory as a tar archive. Sockets, pipes and devices are left out. */
export function packDirectory(directory: string): ReadableStream<Uint8Array> {
    const { fs } = modules()
    if (!fs.statSync(directory).isDirectory()) {
        throw new TypeError(`${directory} is not a directory; send a single file with write()`)
    }
    const pieces = pack(directory, '')
    return new ReadableStream({
        async pull(controller) {
            const { done, value } = await pieces.next()
            if (!done) return controller.enqueue(value)
            controller.enqueue(tarEnd())
            controller.close()
        },
        async cancel() {
            await pieces.return()
        },
    })
}

async function* pack(directory: string, below: string): AsyncGenerator<Uint8Array, void, undefined> {
    const { files, path } = modules()
    const names = await files.readdir(directory)
    for (const name of names.sort()) {
        const [from, to] = [path.join(directory, name), below + name]
        const stat = await files.lstat(from)
        const entry = { mode: stat.mode, modified: stat.mtimeMs / 1000, size: 0, target: '' }
        if (stat.isDirectory()) {
            yield tarHeader({ ...entry, path: `${to}/`, type: 'directory' })
            yield* pack(from, `${to}/`)
        } else if (stat.isSymbolicLink()) {
            yield tarHeader({ ...entry, path: to, type: 'symlink', target: await files.readlink(from) })
        } else if (stat.isFile()) {
            yield* packFile(from, { ...entry, path: to, type: 'file' })
        }
    }
}

async function* packFile(from: string, entry: TarEntry): AsyncGenerator<Uint8Array, void, undefined> {
    const file = await modules().files.open(from)
    try {
        const { size } = await file.stat()
        yield tarHeader({ ...entry, size })
        let left = size
        while (left > 0) {
            const piece = new Uint8Array(Math.min(left, 256 * 1024))
            const { bytesRead } = await file.read(piece, 0, piece.length)
            // Exactly as long as the header says, even if the file shrinks.
            yield bytesRead > 0 ? piece.subarray(0, bytesRead) : piece
            left -= bytesRead || piece.length
        }
        yield padding(size)
    } finally {
        await file.close()
    }
}

/** Writes the entries of a tar archive below a directory, and nothing outside of it. */
export async function unpackDirectory(archive: AsyncIterable<Uint8Array>, directory: string): Promise<void> {
    const { files, path } = modules()
    await files.mkdir(directory, { recursive: true })
    const root = await files.realpath(directory)
    const modes: [path: string, mode: number][] = []
    for await (const { entry, content } of readTar(archive)) {
        const parts = partsOf(entry.path, path.sep)
        if (parts.length === 0) continue
        const to = path.join(root, ...parts)
        await makeParents(root, parts.slice(0, -1))
        if (entry.type === 'directory') {
            await makeParents(root, parts)
            modes.push([to, entry.mode & 0o777])
            continue
        }
        await files.rm(to, { force: true })
        await unpackEntry(entry, content, to, root)
    }
    // Last, because files cannot be created in a directory that is read-only.
    for (const [to, mode] of modes.reverse()) await files.chmod(to, mode)
}

/** Returns the parts of a path in an archive. Throws if it leads out of the directory on this machine. */
export function partsOf(name: string, separator: string): string[] {
    const parts = name.split('/').filter((part) => part !== '' && part !== '.')
    // On Windows, these separate directories, and name drives and streams.
    const isForeign = separator === '\\' && /[\\:]/.test(name)
    if (isForeign || parts.includes('..')) {
        throw new TypeError(`the archive has the path ${name}, which leads outside or is not valid on this system`)
    }
    return parts
}

async function unpackEntry(
    entry: TarEntry,
    content: AsyncIterable<Uint8Array>,
    to: string,
    root: string,
): Promise<void> {
    const { files, path } = modules()
    if (entry.type === 'symlink') {
        return files.symlink(entry.target, to)
    }
    if (entry.type === 'link') {
        const parts = partsOf(entry.target, path.sep)
        await makeParents(root, parts.slice(0, -1))
        return files.link(path.join(root, ...parts), to)
    }
    const file = await files.open(to, 'wx', entry.mode & 0o777)
    try {
        for await (const piece of content) await file.writeFile(piece)
        await file.chmod(entry.mode & 0o777)
    } finally {
        await file.close()
    }
}

/** Creates directories step by step. A symbolic link on the way could lead outside. */
async function makeParents(root: string, parts: string[]): Promise<void> {
    const { files, path } = modules()
    let at = root
    for (const part of parts) {
        at = path.join(at, part)
        const stat = await files.lstat(at).catch(() => undefined)
        if (!stat) await files.mkdir(at)
        else if (!stat.isDirectory()) throw new TypeError(`${at} exists, and is not a directory`)
    }
}
