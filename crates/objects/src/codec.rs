//! The primitives of every encoding. Each value has exactly one encoding, and
//! the reader rejects any other.

use bytes::{Buf, Bytes};
use elevo_core::Timestamp;

use crate::FORMAT_VERSION;
use crate::hash::Hash;

/// Reason why bytes are not the canonical encoding of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the object does.
    #[error("the object is cut short")]
    Truncated,
    /// Bytes follow the end of the object.
    #[error("bytes follow the end of the object")]
    TrailingBytes,
    /// The version of the format is unknown.
    #[error("format version {0} is not known")]
    UnknownVersion(u8),
    /// The object is not of the requested kind.
    #[error("the object is not of the expected kind")]
    WrongKind,
    /// A number is not in its shortest form or is out of range: for example a
    /// size, or totals that no tree could have.
    #[error("a number is not in its canonical form or range")]
    Number,
    /// A name is not valid, or a text is not UTF-8.
    #[error("a name is not valid, or a text is not UTF-8")]
    Text,
    /// A tag or flag is unknown.
    #[error("a tag or flag is unknown")]
    Tag,
    /// Items out of order, repeated, too many or too few.
    #[error("items are out of order, repeated, too many or too few")]
    Items,
    /// An item inside a node should have ended the node.
    #[error("a node continues after an item that should have ended it")]
    Boundary,
}

/// Result of decoding.
pub type Result<T> = std::result::Result<T, DecodeError>;

/// Appends `value` as a LEB128 number: seven bits per byte, least significant
/// first.
pub(crate) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number in zigzag encoding, so that small numbers of either
/// sign are short.
fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_number(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends the length of `bytes`, then the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a time: seconds, then nanoseconds within the second.
pub(crate) fn put_time(out: &mut Vec<u8>, time: Timestamp) {
    put_signed(out, time.seconds());
    put_number(out, time.nanos().into());
}

/// Reads an encoding from front to back, without copying.
#[derive(Debug)]
pub struct Reader(Bytes);

impl Reader {
    /// Opens an object, which must have the current version and `type_byte`.
    pub(crate) fn open(data: &Bytes, type_byte: u8) -> Result<Self> {
        let mut reader = Self(data.clone());
        match reader.byte()? {
            FORMAT_VERSION => {}
            other => return Err(DecodeError::UnknownVersion(other)),
        }
        if reader.byte()? != type_byte {
            return Err(DecodeError::WrongKind);
        }
        Ok(reader)
    }

    pub(crate) fn finish(self) -> Result<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::TrailingBytes)
        }
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        if self.0.is_empty() {
            return Err(DecodeError::Truncated);
        }
        Ok(self.0.get_u8())
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Number);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                let shortest = byte != 0 || shift == 0;
                return if shortest {
                    Ok(value)
                } else {
                    Err(DecodeError::Number)
                };
            }
        }
        Err(DecodeError::Number)
    }

    /// Reads a number that must not exceed `limit`.
    pub(crate) fn number_up_to(&mut self, limit: u64) -> Result<u64> {
        self.number_within(0, limit)
    }

    /// Reads a number from `least` to `most`.
    pub(crate) fn number_within(&mut self, least: u64, most: u64) -> Result<u64> {
        match self.number()? {
            value if (least..=most).contains(&value) => Ok(value),
            _ => Err(DecodeError::Number),
        }
    }

    fn signed(&mut self) -> Result<i64> {
        let raw = self.number()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        let seconds = self.signed()?;
        let nanos = self.number_up_to(u32::MAX.into())? as u32;
        Timestamp::new(seconds, nanos).ok_or(DecodeError::Number)
    }

    /// Reads a length, which must not exceed `limit`, and that many bytes.
    pub(crate) fn bytes(&mut self, limit: usize) -> Result<Bytes> {
        let length = self.number_up_to(limit as u64)? as usize;
        if self.0.len() < length {
            return Err(DecodeError::Truncated);
        }
        Ok(self.0.split_to(length))
    }

    pub(crate) fn text(&mut self, limit: usize) -> Result<String> {
        String::from_utf8(self.bytes(limit)?.into()).map_err(|_| DecodeError::Text)
    }

    pub(crate) fn hash(&mut self) -> Result<Hash> {
        if self.0.len() < 32 {
            return Err(DecodeError::Truncated);
        }
        let mut bytes = [0; 32];
        self.0.copy_to_slice(&mut bytes);
        Ok(Hash::from_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bytes: &'static [u8]) -> Result<u64> {
        Reader(Bytes::from_static(bytes)).number()
    }

    #[test]
    fn numbers_read_back_and_only_in_their_shortest_form() {
        for value in [
            0,
            1,
            127,
            128,
            300,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ] {
            let mut out = Vec::new();
            put_number(&mut out, value);
            assert_eq!(Reader(out.into()).number(), Ok(value));
        }
        assert_eq!(number(&[0x80, 0x00]), Err(DecodeError::Number));
        assert_eq!(number(&[0x80]), Err(DecodeError::Truncated));
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(
            Reader(Bytes::copy_from_slice(&too_large)).number(),
            Err(DecodeError::Number)
        );
    }

    #[test]
    fn signed_numbers_read_back() {
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            put_signed(&mut out, value);
            assert_eq!(Reader(out.into()).signed(), Ok(value));
        }
    }
}
