use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use bytes::Bytes;

/// Maximum length of a directory entry's name, as in Linux file systems.
pub const MAX_NAME_BYTES: usize = 255;

/// Name of the directories for Elevo's own files: stores, workspaces, and the
/// record of a directory's content. Snapshots never include an entry with this
/// name, at any depth.
pub const RESERVED_NAME: &[u8] = b".elevo";

/// One component of a path: any bytes except `/` and NUL, at most 255, and
/// neither `.` nor `..`, so that a name cannot lead out of its directory.
///
/// Cloning is cheap: a short name is stored inline, and a long name shares the
/// buffer it was cut from.
#[derive(Clone)]
pub struct Name(Held);

/// The bytes of a name. Most names are short, and an edit of a tree copies
/// hundreds of them: inline storage avoids reference counting.
#[derive(Clone)]
enum Held {
    Here { length: u8, bytes: [u8; SHORT] },
    Shared(Bytes),
}

/// The largest inline length that keeps [`Name`] as small as [`Bytes`].
const SHORT: usize = 23;
const _: () = assert!(size_of::<Name>() == size_of::<Bytes>());

/// Why some bytes are not a [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The name is empty.
    #[error("a name cannot be empty")]
    Empty,
    /// The name is longer than [`MAX_NAME_BYTES`].
    #[error("a name cannot be longer than {MAX_NAME_BYTES} bytes")]
    TooLong,
    /// The name is `.` or `..`.
    #[error("`.` and `..` are not names")]
    Dots,
    /// The name contains `/` or NUL.
    #[error("a name cannot contain `/` or NUL")]
    ForbiddenByte,
}

impl Name {
    /// Checks `bytes` and creates a name; a long name is not copied.
    pub fn new(bytes: Bytes) -> Result<Self, InvalidName> {
        Self::check(&bytes)?;
        Ok(Self::short(&bytes).unwrap_or(Self(Held::Shared(bytes))))
    }

    /// Checks `bytes` and copies them into a new name.
    pub fn copy_from(bytes: &[u8]) -> Result<Self, InvalidName> {
        Self::check(bytes)?;
        let long = || Self(Held::Shared(Bytes::copy_from_slice(bytes)));
        Ok(Self::short(bytes).unwrap_or_else(long))
    }

    /// Returns [`RESERVED_NAME`] as a name.
    pub fn reserved() -> Self {
        Self::short(RESERVED_NAME).unwrap_or_else(|| unreachable!("the reserved name is short"))
    }

    fn short(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; SHORT];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        let length = name.len() as u8;
        Some(Self(Held::Here { length, bytes }))
    }

    /// Checks whether `bytes` are a valid name.
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
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Held::Here { length, bytes } => &bytes[..usize::from(*length)],
            Held::Shared(bytes) => bytes,
        }
    }
}

impl Deref for Name {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Borrow<[u8]> for Name {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for Name {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Display for Name {
    /// Shows bytes that are not UTF-8 as replacement characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_any_bytes_except_slash_nul_and_dots() {
        for good in [&b"a"[..], b"...", b".x", b"\xff\xfe", b"\n", &[b'x'; 255]] {
            assert_eq!(Name::copy_from(good).as_deref(), Ok(good));
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

    #[test]
    fn short_and_long_names_behave_alike() {
        let bytes = [b'x'; MAX_NAME_BYTES];
        let names = (1..=MAX_NAME_BYTES).map(|length| &bytes[..length]);
        let names: Vec<_> = names
            .map(|name| {
                let shared = Name::new(Bytes::copy_from_slice(name)).unwrap();
                assert_eq!(Name::copy_from(name), Ok(shared.clone()));
                assert_eq!(shared.as_bytes(), name);
                shared
            })
            .collect();
        assert!(names.is_sorted());
    }
}
