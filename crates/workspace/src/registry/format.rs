//! The version of the format of a registry.
//!
//! Format 1 does not state its version. The first line of a later format is
//! `{"format":VERSION}`, so that this version does not mistake it for damage.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::LogState;
use crate::error::{Error, Result};

/// The format that this code reads and writes.
pub(super) const FORMAT: u32 = 1;

/// The reason why a line is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    Damaged,
    /// The log has this newer format.
    Newer(u32),
}

impl Rejected {
    pub(super) fn error(self, log: &Path, line: usize) -> Error {
        let path = log.to_owned();
        match self {
            Self::Damaged => Error::Registry { path, line },
            Self::Newer(found) => Error::NewerRegistry {
                path,
                found,
                known: FORMAT,
            },
        }
    }
}

/// Fails if a newer version of Elevo wrote the registry of the workspaces in
/// `root`. Reads only the first line, and changes nothing.
pub fn check_format(root: &Path) -> Result<()> {
    let log = root.join("registry/log");
    let mut line = Vec::new();
    let read = match File::open(&log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file.and_then(|file| BufReader::new(file).read_until(b'\n', &mut line)),
    };
    read.map_err(Error::io("read", &log))?;
    match LogState::default().apply(&line) {
        Err(rejected @ Rejected::Newer(_)) => Err(rejected.error(&log, 1)),
        // Opening the registry reports a damaged line.
        _ => Ok(()),
    }
}
