// Text, bytes and base64 on every runtime.

const encoder = new TextEncoder()

/** Returns text as UTF-8, and bytes as they are. */
export function toBytes(data: string | Uint8Array): Uint8Array {
    return typeof data === 'string' ? encoder.encode(data) : data
}

interface NodeBuffer {
    from(data: string, encoding: 'base64'): Uint8Array
    from(data: ArrayBufferLike, offset: number, length: number): { toString(encoding: 'base64'): string }
}

const buffer = (globalThis as { Buffer?: NodeBuffer }).Buffer

/** Returns bytes in base64. */
export function toBase64(bytes: Uint8Array): string {
    if (buffer) {
        return buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
    }
    let text = ''
    // A call has a limited number of arguments.
    for (let at = 0; at < bytes.length; at += 0x8000) {
        text += String.fromCharCode(...bytes.subarray(at, at + 0x8000))
    }
    return btoa(text)
}

/** Returns the bytes of base64. */
export function fromBase64(text: string): Uint8Array {
    if (buffer) {
        return buffer.from(text, 'base64')
    }
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0))
}

/** Returns the bytes of several pieces in one array. */
export function concat(pieces: readonly Uint8Array[]): Uint8Array {
    const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0))
    let at = 0
    for (const piece of pieces) {
        whole.set(piece, at)
        at += piece.length
    }
    return whole
}

/** Returns a random name of 32 digits, for keys of requests and for commands. */
export function randomName(): string {
    const bytes = crypto.getRandomValues(new Uint8Array(16))
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
