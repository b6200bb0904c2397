//! Files that a command is given, read whole within a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::errors::Problem;

/// The bytes of a file; `-` is standard input.
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

/// The same as text.
pub(crate) fn text(path: &Path, limit: u64) -> Result<String, Problem> {
    String::from_utf8(bytes(path, limit)?).map_err(|_| Problem::NoText(path.into()))
}
