//! The file with the keys that encrypt secrets.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::platform::clock;

const KEY: usize = 32;
const ID: usize = 8;
/// Maximum size of a key file.
const LARGEST: u64 = 64 << 10;
const LOST: &str = "lost ";

const HEAD: &str = "\
# Key of this server's secrets: variables of sandboxes and secrets of webhooks.
# Backups do not contain this key. Keep a copy apart from the backups: without the key, these values are lost.
# The first key encrypts and decrypts. Further keys, one on each line, only decrypt.
";

/// Identifies a key without revealing anything about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyId(String);

impl KeyId {
    fn of(key: &[u8; KEY]) -> Self {
        let hash = blake3::derive_key("elevo 2026-11-17 id of a key of secrets", key);
        Self(hex(&hash[..ID]))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for KeyId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match unhex::<ID>(text) {
            Some(_) => Ok(Self(text.into())),
            None => Err(()),
        }
    }
}

/// The keys of a file, in the order of its lines.
#[derive(Default)]
pub(crate) struct Keys {
    keys: Vec<(KeyId, [u8; KEY])>,
    /// Keys that the operator has marked as lost.
    lost: Vec<KeyId>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.keys.iter().map(|(id, _)| id);
        f.debug_list().entries(ids).finish()
    }
}

/// The reason why a key file cannot be used. Never contains parts of the file's
/// content.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyFileError {
    #[error("cannot read the key file {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "other users of this machine can read the key file {0}: run `chmod 600 {0}`",
        path.display()
    )]
    Open { path: PathBuf },
    #[error(
        "line {line} of the key file {} is not a key: a key has 64 hexadecimal digits, as \
         `openssl rand -hex 32` prints them",
        path.display()
    )]
    NotAKey { path: PathBuf, line: usize },
}

impl Keys {
    /// Reads the keys of a file; none if the file does not exist.
    pub(crate) fn read(path: &Path) -> Result<Self, KeyFileError> {
        let unreadable = |source| KeyFileError::Unreadable {
            path: path.into(),
            source,
        };
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            file => file.map_err(unreadable)?,
        };
        let stat = file.metadata().map_err(unreadable)?;
        if stat.permissions().mode() & 0o007 != 0 {
            return Err(KeyFileError::Open { path: path.into() });
        }
        if stat.len() > LARGEST {
            let (path, line) = (path.into(), 1);
            return Err(KeyFileError::NotAKey { path, line });
        }
        let text = io::read_to_string(file).map_err(unreadable)?;
        Self::parse(&text).map_err(|line| KeyFileError::NotAKey {
            path: path.into(),
            line,
        })
    }

    /// Parses the keys. Fails with the number of the first invalid line.
    fn parse(text: &str) -> Result<Self, usize> {
        let mut keys = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(id) = line.strip_prefix(LOST) {
                keys.lost.push(id.trim().parse().map_err(|()| number + 1)?);
                continue;
            }
            let key = unhex::<KEY>(line).ok_or(number + 1)?;
            keys.keys.push((KeyId::of(&key), key));
        }
        Ok(keys)
    }

    /// Creates a file with a new key, above the lines of lost keys. If another
    /// process has created a key first, returns the keys of that file.
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
        let locked = File::open(directory)?;
        locked.lock()?;
        let there = Self::read(path).map_err(io::Error::other)?;
        if !there.is_empty() {
            return Ok(there);
        }
        let lost = there.lost.iter().map(|id| format!("{LOST}{id}\n"));
        let lost: String = lost.collect();
        // Files of `tempfile` have the mode 0600.
        let mut new = tempfile::NamedTempFile::new_in(directory)?;
        write!(new, "{HEAD}{}\n{lost}", hex(&clock::random::<KEY>()))?;
        new.as_file().sync_all()?;
        new.persist(path)?;
        locked.sync_all()?;
        Self::read(path).map_err(io::Error::other)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the key that seals.
    pub(crate) fn first(&self) -> Option<(&KeyId, &[u8; KEY])> {
        self.keys.first().map(|(id, key)| (id, key))
    }

    pub(crate) fn get(&self, wanted: &KeyId) -> Option<&[u8; KEY]> {
        let found = self.keys.iter().find(|(id, _)| id == wanted);
        found.map(|(_, key)| key)
    }

    /// Returns whether the file mentions the key with this id: the key itself, or a
    /// line that declares it lost.
    pub(crate) fn knows(&self, wanted: &str) -> bool {
        let mut known = self.keys.iter().map(|(id, _)| id).chain(&self.lost);
        known.any(|id| id.as_str() == wanted)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses exactly `N` bytes from hexadecimal digits in lower or upper case.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(bytes)
}
