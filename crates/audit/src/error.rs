use std::io;
use std::path::{Path, PathBuf};

/// Errors of the audit log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process is writing this log.
    #[error("another process is writing the audit log in {}", .0.display())]
    InUse(PathBuf),
    /// A newer version of Elevo wrote the log.
    #[error(
        "the audit log in {} has format {found}, and this version of Elevo reads up to {known}; \
         install the version that wrote it or a newer one, or restore a backup from before the \
         upgrade",
        directory.display()
    )]
    Newer {
        /// The directory of the log.
        directory: PathBuf,
        /// Format of the log.
        found: u32,
        /// The newest format that this version reads.
        known: u32,
    },
    /// A record is longer than [`MAX_LINE_BYTES`](crate::MAX_LINE_BYTES).
    #[error("a record of {0} bytes is too long for a line of the audit log")]
    TooLong(usize),
    /// The log cannot be written at the moment.
    #[error("the audit log cannot be written")]
    Failing,
    /// The log cannot be written at the moment; the record waits in memory and is
    /// written as soon as possible.
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
