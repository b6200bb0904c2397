//! The version of the format of a log.
//!
//! Format 1 has no file for it. A later format has a file `FORMAT` with the line
//! `elevo audit log VERSION`, so that this version leaves such a log unchanged
//! instead of setting its lines aside as damaged.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Error, Result, at};

/// The format that this code reads and writes.
const KNOWN: u32 = 1;

const FILE: &str = "FORMAT";
const WORDS: &str = "elevo audit log ";

/// Fails if a newer version of Elevo wrote the log in `directory`.
pub fn check_format(directory: &Path) -> Result<()> {
    let path = directory.join(FILE);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text.map_err(at(&path))?,
    };
    let found = text.strip_prefix(WORDS);
    match found.and_then(|found| found.trim_end().parse().ok()) {
        Some(KNOWN) => Ok(()),
        Some(found) => Err(Error::Newer {
            directory: directory.into(),
            found,
            known: KNOWN,
        }),
        None => Err(at(&path)(io::ErrorKind::InvalidData.into())),
    }
}
