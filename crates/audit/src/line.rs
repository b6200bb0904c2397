//! Conversion of a record into a line, and back.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde_json::{Map, Value};

/// Maximum bytes of a line, including the newline.
pub const MAX_LINE_BYTES: usize = 64 << 10;

/// The previous hash of record 1, which has no previous record.
pub(crate) const NONE: [u8; 32] = [0; 32];

const CONTEXT: &str = "elevo audit 2026-11-16 chain";
const NAME: &[u8] = b",\"hash\":\"";
const END: &[u8] = b"\"}";
const DIGITS: usize = 64;

/// The newest record of a log. A head that is recorded elsewhere can prove later
/// that all records up to it still exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the record; 0 if the log is empty.
    pub number: u64,
    /// Hash of the record.
    pub hash: [u8; 32],
}

impl Head {
    pub(crate) const EMPTY: Self = Self {
        number: 0,
        hash: NONE,
    };
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, hex(&self.hash))
    }
}

impl FromStr for Head {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (number, hash) = text.split_once(':')?;
            Some(Self {
                number: number.parse().ok()?,
                hash: unhex(hash.as_bytes())?,
            })
        };
        read().ok_or_else(|| {
            format!(
                "`{text}` is not the head of a log; a head is a number, a colon and a hash of 64 \
                 hexadecimal digits"
            )
        })
    }
}

/// A well-formed line. [`check_line`] also returns whether its hash is right.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The number of the record and the hash that the line states.
    pub head: Head,
    /// The hash of the previous record, if the line states it.
    pub prev: Option<[u8; 32]>,
    /// The record.
    pub record: Map<String, Value>,
}

/// Reasons why a line is not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line exceeds [`MAX_LINE_BYTES`].
    #[error("the line is too long")]
    TooLong,
    /// The line does not end with a hash.
    #[error("the line does not end with a hash")]
    NoHash,
    /// The line is not a JSON object that begins with a number.
    #[error("the line is not a record")]
    NoRecord,
}

/// Returns the line of a record, with the newline, and the hash of the record.
pub(crate) fn write_line(
    number: u64,
    prev: &[u8; 32],
    is_first: bool,
    record: &Map<String, Value>,
) -> serde_json::Result<(Vec<u8>, [u8; 32])> {
    let mut line = format!("{{\"n\":{number}");
    if is_first {
        line += &format!(",\"prev\":\"{}\"", hex(prev));
    }
    for (name, value) in record {
        if matches!(name.as_str(), "n" | "prev" | "hash") {
            continue;
        }
        line.push(',');
        line += &serde_json::to_string(name)?;
        line.push(':');
        line += &serde_json::to_string(value)?;
    }
    let hash = chain(prev, line.as_bytes());
    let mut line = line.into_bytes();
    line.extend_from_slice(NAME);
    line.extend_from_slice(hex(&hash).as_bytes());
    line.extend_from_slice(END);
    line.push(b'\n');
    Ok((line, hash))
}

/// Returns the hash of a line that follows a record with hash `prev`.
pub(crate) fn chain(prev: &[u8; 32], body: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(prev);
    hasher.update(body);
    *hasher.finalize().as_bytes()
}

/// Splits a line into the part that is hashed and the hash that it states.
pub(crate) fn split(line: &[u8]) -> Result<(&[u8], [u8; 32]), LineError> {
    if line.len() >= MAX_LINE_BYTES {
        return Err(LineError::TooLong);
    }
    let parts = || {
        let rest = line.strip_suffix(END)?;
        let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
        Some((rest.strip_suffix(NAME)?, unhex(digits)?))
    };
    parts().ok_or(LineError::NoHash)
}

/// Parses a line, without its newline, that follows a record with hash `prev`;
/// also returns whether its hash is right.
pub fn check_line(line: &[u8], prev: &[u8; 32]) -> Result<(Checked, bool), LineError> {
    #[derive(Deserialize)]
    struct Fixed {
        n: u64,
        prev: Option<String>,
    }
    let (body, hash) = split(line)?;
    if !body.starts_with(b"{\"n\":") {
        return Err(LineError::NoRecord);
    }
    let fixed: Fixed = serde_json::from_slice(line).map_err(|_| LineError::NoRecord)?;
    let mut record: Map<String, Value> =
        serde_json::from_slice(line).map_err(|_| LineError::NoRecord)?;
    for name in ["n", "prev", "hash"] {
        record.remove(name);
    }
    let stated = match fixed.prev {
        None => None,
        Some(digits) => Some(unhex(digits.as_bytes()).ok_or(LineError::NoRecord)?),
    };
    let checked = Checked {
        head: Head {
            number: fixed.n,
            hash,
        },
        prev: stated,
        record,
    };
    let is_right = chain(prev, body) == hash;
    Ok((checked, is_right))
}

pub(crate) fn hex(bytes: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*bytes).to_hex().to_string()
}

/// Parses a hash. Capital letters are rejected, so that each hash has only one
/// text.
fn unhex(digits: &[u8]) -> Option<[u8; 32]> {
    if digits.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    blake3::Hash::from_hex(digits)
        .ok()
        .map(|hash| *hash.as_bytes())
}
