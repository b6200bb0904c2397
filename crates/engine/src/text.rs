//! Decides which entries are text, and reads them, for the line counts of
//! change statistics and the hunks of patches.

use bytes::Bytes;
use elevo_objects::Entry;

use crate::error::Result;
use crate::file;
use crate::lines::LineBudget;
use crate::repository::Repository;

/// Default maximum size of a file that is split into lines.
pub const DEFAULT_MAX_TEXT_BYTES: u64 = 16 * 1024 * 1024;

/// Number of bytes of a file that are searched for NUL: the same as in git.
const LOOKED_AT: usize = 8000;

/// One side of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Nothing with bytes: absent, or a directory.
    Nothing,
    /// A file without NUL bytes in its beginning, or the target of a link.
    Text(Bytes),
    /// Any other file, or a file over the limit.
    Binary,
}

impl Side {
    /// Reads an entry whole, if it is not larger than `max_text_bytes` and the
    /// budget has room for it.
    pub(crate) async fn read(
        repository: &Repository,
        entry: Option<&Entry>,
        max_text_bytes: u64,
        budget: &mut LineBudget,
    ) -> Result<Self> {
        match entry {
            None | Some(Entry::Directory { .. }) => Ok(Self::Nothing),
            Some(Entry::Link(link)) => {
                let target = repository.chunks(&[link.hash]).await?;
                Ok(Self::Text(target.into_iter().next().unwrap_or_default()))
            }
            Some(Entry::File { content, .. }) if content.size() > max_text_bytes => {
                Ok(Self::Binary)
            }
            Some(Entry::File { content, .. }) => {
                budget.read(0)?;
                let start = file::read_range(repository, content, 0, LOOKED_AT).await?;
                if start.contains(&0) {
                    return Ok(Self::Binary);
                }
                if start.len() as u64 == content.size() {
                    return Ok(Self::Text(start));
                }
                budget.read(content.size())?;
                let whole = file::read_range(repository, content, 0, usize::MAX).await?;
                Ok(Self::Text(whole))
            }
        }
    }

    /// The bytes to compare line by line; `None` for a binary file.
    pub(crate) fn lines(&self) -> Option<&[u8]> {
        match self {
            Self::Nothing => Some(&[]),
            Self::Text(bytes) => Some(bytes),
            Self::Binary => None,
        }
    }
}
