//! The file that makes a directory a store, and has the version of its format.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::open::OpenError;

/// The format that this code reads and writes.
pub(crate) const SUPPORTED: u32 = 1;

const FILE: &str = "FORMAT";
const UNFINISHED: &str = "FORMAT.new";
const WORDS: &str = "elevo store ";

/// Returns the format of the store at `path`.
pub(crate) fn read(path: &Path) -> Result<u32, OpenError> {
    let not_a_store = || OpenError::NotAStore { path: path.into() };
    let text = match fs::read_to_string(path.join(FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_a_store()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(not_a_store()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(not_a_store()),
        Err(error) => return Err(OpenError::io(path, error)),
    };
    text.strip_prefix(WORDS)
        .and_then(|rest| rest.trim().parse().ok())
        .ok_or_else(not_a_store)
}

/// Rejects a store that this code cannot read.
pub(crate) fn check(path: &Path) -> Result<(), OpenError> {
    match read(path)? {
        SUPPORTED => Ok(()),
        found => Err(OpenError::NewerFormat {
            path: path.into(),
            found,
            supported: SUPPORTED,
        }),
    }
}

/// Makes the directory a store, durably and in one step.
pub(crate) fn write(path: &Path) -> io::Result<()> {
    let unfinished = path.join(UNFINISHED);
    let mut file = File::create(&unfinished)?;
    file.write_all(format!("{WORDS}{SUPPORTED}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path.join(FILE))?;
    File::open(path)?.sync_all()
}

/// Whether a file of this name may exist before [`write`] has been called.
pub(crate) fn is_unfinished(name: &std::ffi::OsStr) -> bool {
    name == UNFINISHED
}
