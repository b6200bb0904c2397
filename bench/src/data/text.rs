//! Random bytes in the form of source code, of records, or without structure.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt};

use super::numbers;

const WORDS: [&str; 64] = [
    "let",
    "self",
    "return",
    "if",
    "the",
    "value",
    "index",
    "result",
    "name",
    "path",
    "error",
    "match",
    "for",
    "key",
    "state",
    "node",
    "of",
    "to",
    "is",
    "a",
    "list",
    "count",
    "buffer",
    "write",
    "read",
    "next",
    "first",
    "length",
    "offset",
    "config",
    "request",
    "response",
    "handler",
    "context",
    "session",
    "token",
    "client",
    "server",
    "parse",
    "render",
    "update",
    "insert",
    "remove",
    "commit",
    "snapshot",
    "directory",
    "entry",
    "builder",
    "iterator",
    "options",
    "default",
    "message",
    "channel",
    "worker",
    "schedule",
    "timeout",
    "retry",
    "metrics",
    "collect",
    "transform",
    "validate",
    "serialize",
    "permission",
    "workspace",
];

const JOINTS: [&str; 8] = [" ", " ", " ", "_", ".", "(", ") ", " = "];

/// Program text of `length` bytes; compresses to about a third.
pub(super) fn source(rng: &mut Xoshiro256PlusPlus, length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length + 96);
    while out.len() < length {
        let dice = rng.next_u64();
        out.resize(out.len() + 4 * (dice % 4) as usize, b' ');
        for _ in 0..2 + (dice >> 8) % 7 {
            put_word(rng, &mut out);
            out.extend_from_slice(JOINTS[rng.next_u64() as usize % JOINTS.len()].as_bytes());
        }
        out.extend_from_slice(if dice & 1 << 40 == 0 { b";\n" } else { b" {\n" });
    }
    out.truncate(length);
    out
}

/// JSON records of `length` bytes.
pub(super) fn json(rng: &mut Xoshiro256PlusPlus, length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length + 256);
    out.extend_from_slice(b"[\n");
    while out.len() < length {
        let (id, score) = (rng.random_range(0..1_000_000), rng.random_range(0..100_000));
        out.extend_from_slice(format!("  {{\"id\": {id}, \"score\": 0.{score}, ").as_bytes());
        out.extend_from_slice(b"\"title\": \"");
        for _ in 0..4 {
            put_word(rng, &mut out);
            out.push(b' ');
        }
        out.extend_from_slice(b"\", \"enabled\": true},\n");
    }
    out.truncate(length);
    out
}

/// Incompressible bytes.
pub(crate) fn noise(length: usize, stream: &str, index: u64) -> Vec<u8> {
    random_bytes(&mut numbers(stream, index), length)
}

pub(super) fn random_bytes(rng: &mut Xoshiro256PlusPlus, length: usize) -> Vec<u8> {
    let mut out = vec![0; length];
    rng.fill_bytes(&mut out);
    out
}

/// Appends a word from the list, in which earlier words are more frequent. Sometimes appends a
/// number to the word.
fn put_word(rng: &mut Xoshiro256PlusPlus, out: &mut Vec<u8>) {
    let dice = rng.next_u64();
    let side = WORDS.len() as u64;
    let place = (dice % side) * ((dice >> 16) % side) / side;
    out.extend_from_slice(WORDS[place as usize].as_bytes());
    if (dice >> 32).is_multiple_of(8) {
        out.extend_from_slice(format!("{:x}", (dice >> 40) & 0xfff).as_bytes());
    }
}
