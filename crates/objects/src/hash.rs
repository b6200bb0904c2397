//! Hashes and kinds of objects.

use std::fmt;
use std::str::FromStr;

/// BLAKE3 of an object's bytes, keyed by the object's [`Kind`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash([u8; 32]);

/// Kind of an object. Each kind hashes in a separate domain, so bytes of one
/// kind can never pass as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Raw bytes of file content or of a link's target.
    Chunk,
    /// Node of a directory tree.
    Directory,
    /// Node of a modification-time tree.
    Times,
    /// Node of a large file's chunk list.
    ChunkList,
    /// A snapshot record.
    Snapshot,
}

/// Identifies one object within a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Kind of the object.
    pub kind: Kind,
    /// Hash of the object's bytes in the domain of its kind.
    pub hash: Hash,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Chunk,
        Self::Directory,
        Self::Times,
        Self::ChunkList,
        Self::Snapshot,
    ];

    /// The BLAKE3 key that separates this kind from the others.
    const fn domain(self) -> &'static [u8; 32] {
        match self {
            Self::Chunk => b"elevo object v1: chunk          ",
            Self::Directory => b"elevo object v1: directory      ",
            Self::Times => b"elevo object v1: times          ",
            Self::ChunkList => b"elevo object v1: chunk list     ",
            Self::Snapshot => b"elevo object v1: snapshot       ",
        }
    }

    /// Returns the hash of `data` as an object of this kind.
    pub fn hash(self, data: &[u8]) -> Hash {
        Hash(*blake3::keyed_hash(self.domain(), data).as_bytes())
    }

    /// Returns the key of `data` as an object of this kind.
    pub fn key(self, data: &[u8]) -> ObjectKey {
        ObjectKey {
            kind: self,
            hash: self.hash(data),
        }
    }
}

impl Hash {
    /// Creates a hash from stored bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The hash's bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first eight bytes as a number: uniformly distributed, and cheap to
    /// test.
    pub(crate) fn prefix(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The text is not the 64 lowercase hexadecimal digits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hash must have 64 lowercase hexadecimal digits")]
pub struct InvalidHash;

impl FromStr for Hash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(InvalidHash);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

fn hex_digit(digit: u8) -> Result<u8, InvalidHash> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(InvalidHash),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_of_different_kinds_have_different_hashes() {
        let mut hashes: Vec<_> = Kind::ALL.iter().map(|kind| kind.hash(b"same")).collect();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), Kind::ALL.len());
    }

    #[test]
    fn hashes_are_pinned() {
        let hashes = Kind::ALL.map(|kind| kind.hash(b"hello\n").to_string());
        assert_eq!(
            hashes,
            [
                "0d0f26de73be160e547d7c2656796007f9b4e629b9645feccf9aa9457f688ee1",
                "913b33aba554aa23d4bc13e28f93744de074b25435298a1f70fe9831f1a2e296",
                "67e1ed1baee400801defd7f7d3995532da09284791891d1a1159f27fd4ee5a6c",
                "46412804ccada47fd94406961e08b89da91386aa6d84b73724e9fbee4f3fb1d3",
                "560cbed056af30f2bdde19b92bc0c65545b12ea8fefb2a8545aca27dbbe6680d",
            ]
        );
    }

    #[test]
    fn a_hash_reads_back_from_its_text() {
        let hash = Kind::Chunk.hash(b"x");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!("zz".parse::<Hash>(), Err(InvalidHash));
        assert_eq!(
            hash.to_string().to_uppercase().parse::<Hash>(),
            Err(InvalidHash)
        );
    }
}
