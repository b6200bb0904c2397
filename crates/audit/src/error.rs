use std::io;
use std::path::{Path, PathBuf};

/// Why the log could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process writes this log.
    #[error("{} is written by another process", .0.display())]
    InUse(PathBuf),
    /// A record is longer than a line may be.
    #[error("a record of {0} bytes is too long")]
    TooLong(usize),
    /// The log is not written at the moment.
    #[error("the audit log cannot be written")]
    Failing,
    /// The log is not written at the moment; the record waits in memory and is
    /// written once it can be.
    #[error("the audit log cannot be written yet: {0}")]
    Waiting(String),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    |source| Error::Io {
        path: path.into(),
        source,
    }
}
