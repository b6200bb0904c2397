use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use bytes::Bytes;

/// The longest name a directory entry may have: what Linux file systems allow.
pub const MAX_NAME_BYTES: usize = 255;

/// One component of a path: any bytes but `/` and NUL, at most 255, and
/// neither `.` nor `..`, so that no name leads out of its directory.
///
/// Cloning is cheap; a name cut out of a larger buffer shares it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Bytes);

/// Why some bytes are not a [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// No bytes at all.
    #[error("a name cannot be empty")]
    Empty,
    /// More than [`MAX_NAME_BYTES`].
    #[error("a name cannot be longer than {MAX_NAME_BYTES} bytes")]
    TooLong,
    /// `.` or `..`.
    #[error("`.` and `..` are not names")]
    Dots,
    /// Contains `/` or NUL.
    #[error("a name cannot contain `/` or NUL")]
    ForbiddenByte,
}

impl Name {
    /// Checks `bytes` and takes them as a name, without copying.
    pub fn new(bytes: Bytes) -> Result<Self, InvalidName> {
        Self::check(&bytes)?;
        Ok(Self(bytes))
    }

    /// Checks `bytes` and copies them into a name of their own.
    pub fn copy_from(bytes: &[u8]) -> Result<Self, InvalidName> {
        Self::check(bytes)?;
        Ok(Self(Bytes::copy_from_slice(bytes)))
    }

    /// What makes bytes a name.
    pub fn check(bytes: &[u8]) -> Result<(), InvalidName> {
        match bytes {
            [] => Err(InvalidName::Empty),
            b"." | b".." => Err(InvalidName::Dots),
            _ if bytes.len() > MAX_NAME_BYTES => Err(InvalidName::TooLong),
            _ if bytes.iter().any(|byte| matches!(byte, b'/' | 0)) => {
                Err(InvalidName::ForbiddenByte)
            }
            _ => Ok(()),
        }
    }

    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    /// Lossy: bytes that are not UTF-8 are shown as replacement characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_but_slash_nul_and_dots_are_a_name() {
        for good in [&b"a"[..], b"...", b".x", b"\xff\xfe", b"\n", &[b'x'; 255]] {
            assert!(Name::copy_from(good).is_ok(), "{good:?}");
        }
        for (bad, why) in [
            (&b""[..], InvalidName::Empty),
            (b".", InvalidName::Dots),
            (b"..", InvalidName::Dots),
            (b"a/b", InvalidName::ForbiddenByte),
            (b"a\0", InvalidName::ForbiddenByte),
            (&[b'x'; 256], InvalidName::TooLong),
        ] {
            assert_eq!(Name::copy_from(bad), Err(why));
        }
    }
}
