//! Reads files that are arguments of a command, up to a size limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::errors::Problem;

/// Reads a file as bytes; `-` is standard input.
pub(crate) fn bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Problem> {
    let failed = |source| Problem::Io {
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
        true => Err(Problem::FileTooLarge {
            path: path.into(),
            limit,
        }),
        false => Ok(read),
    }
}

/// Reads a file as UTF-8 text; `-` is standard input.
pub(crate) fn text(path: &Path, limit: u64) -> Result<String, Problem> {
    String::from_utf8(bytes(path, limit)?).map_err(|_| Problem::NoText(path.into()))
}
