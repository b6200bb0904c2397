//! Errors of archives.

use std::io;

use crate::meter::Exceeded;

/// A failure to read or write an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An entry of the archive is not allowed.
    #[error("`{name}` is rejected: {why}")]
    Refused {
        /// The name of the entry, escaped.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// The files, the headers or the archive itself exceed the limit.
    #[error("the archive has more than {0} bytes")]
    TooLarge(u64),
    /// The archive has more entries than the limit.
    #[error("the archive has more than {0} entries")]
    TooMany(u64),
    /// The archive ends before its end mark.
    #[error("the archive is cut off")]
    CutOff,
    /// The data is not a tar archive, or is damaged.
    #[error("the archive is damaged or not a tar: {0}")]
    Malformed(&'static str),
    /// The source of the archive failed, or its data does not decompress.
    #[error("cannot read the archive")]
    Read(#[source] io::Error),
    /// The destination of the archive failed.
    #[error("cannot write the archive")]
    Write(#[source] io::Error),
    /// The tree or its store failed.
    #[error(transparent)]
    Engine(#[from] elevo_engine::Error),
}

/// Result of reading or writing an archive.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn refused(name: &[u8], why: &'static str) -> Self {
        /// Maximum bytes of a name in an error; names may be hostile.
        const SHOWN: usize = 200;
        let mut shown = name[..name.len().min(SHOWN)].escape_ascii().to_string();
        if name.len() > SHOWN {
            shown += "…";
        }
        Self::Refused { name: shown, why }
    }

    /// Converts a failure to read the content of an entry.
    pub fn read(error: io::Error) -> Self {
        let inner = error.get_ref();
        if let Some(Exceeded(most)) = inner.and_then(|inner| inner.downcast_ref()) {
            return Self::TooLarge(*most);
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::CutOff,
            _ => Self::Read(error),
        }
    }
}
