use std::io;

use crate::meter::Exceeded;

/// Why an archive was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something in the archive cannot be taken.
    #[error("`{name}` is refused: {why}")]
    Refused {
        /// Its name, made readable.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// The files of the archive, its headers or the archive itself are more than
    /// was allowed.
    #[error("the archive holds more than {0} bytes")]
    TooLarge(u64),
    /// The entries of the archive are more than was allowed.
    #[error("the archive holds more than {0} entries")]
    TooMany(u64),
    /// The archive ends before its end mark.
    #[error("the archive is cut off")]
    CutOff,
    /// What was read is no tar, or not all of one.
    #[error("the archive is damaged, or no tar: {0}")]
    Malformed(&'static str),
    /// What the archive is read from failed; also when it does not decompress.
    #[error("the archive cannot be read")]
    Read(#[source] io::Error),
    /// What the archive is written to failed.
    #[error("the archive cannot be written")]
    Write(#[source] io::Error),
    /// The tree or its store failed.
    #[error(transparent)]
    Engine(#[from] elevo_engine::Error),
}

/// Result of reading or writing an archive.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn refused(name: &[u8], why: &'static str) -> Self {
        /// Names are hostile; nobody reads more of one.
        const SHOWN: usize = 200;
        let mut shown = name[..name.len().min(SHOWN)].escape_ascii().to_string();
        if name.len() > SHOWN {
            shown += "…";
        }
        Self::Refused { name: shown, why }
    }

    /// What it means that the content of an entry could not be read.
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
