//! Files that are arguments of a command: reads them up to a size limit, and
//! names them for a server on this machine.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::errors::FileProblem;

/// Reads a file as bytes; `-` is standard input.
pub(crate) fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, FileProblem> {
    let failed = |source| FileProblem::Io {
        action: "read",
        path: path.into(),
        source,
    };
    let mut read = Vec::new();
    match path.as_os_str() == "-" {
        true => io::stdin().lock().take(limit + 1).read_to_end(&mut read),
        false => File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut read)),
    }
    .map_err(failed)?;
    match read.len() as u64 > limit {
        true => Err(FileProblem::TooLarge {
            path: path.into(),
            limit,
        }),
        false => Ok(read),
    }
}

/// Reads a file as UTF-8 text; `-` is standard input.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, FileProblem> {
    String::from_utf8(read_bytes(path, limit)?)
        .map_err(|_| FileProblem::ContentNotText(path.into()))
}

/// Makes a path absolute, because the server has another working directory.
pub(crate) fn absolute_text(path: PathBuf) -> Result<String, FileProblem> {
    let found = path.canonicalize().map_err(|source| FileProblem::Io {
        action: "find",
        path: path.clone(),
        source,
    })?;
    match found.into_os_string().into_string() {
        Ok(text) => Ok(text),
        Err(other) => Err(FileProblem::PathNotText(other.into())),
    }
}
