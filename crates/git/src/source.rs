//! A repository, and the history of one of its commits.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use gix::ObjectId;

use crate::error::{Error, Result, object};

/// Bytes of decoded objects that are cached.
const CACHE_BYTES: usize = 32 << 20;

/// Maximum bytes of a commit message; longer ones are truncated.
const MESSAGE_BYTES: usize = 64 << 10;

/// A repository and one of its commits.
///
/// Use from one thread only; reading blocks.
pub struct Source {
    pub(crate) repository: gix::Repository,
    tip: ObjectId,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("tip", &self.tip)
            .finish_non_exhaustive()
    }
}

/// A commit, without its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The hash of the commit.
    pub id: String,
    /// The author, as `name <address>`.
    pub author: String,
    /// The author's time, in seconds since 1970; `None` if it is unreadable.
    pub seconds: Option<i64>,
    /// The message. Invalid UTF-8 is replaced.
    pub message: String,
    pub(crate) tree: ObjectId,
}

impl Source {
    /// Opens the repository at `path`: a work tree, a linked work tree, or a
    /// bare repository. Only the settings of the repository itself are read.
    pub fn open(path: &Path, revision: &str) -> Result<Self> {
        let options = gix::open::Options::isolated();
        let opened = gix::open_opts(path, options);
        let mut repository = opened.map_err(|error| Error::Open(Box::new(error)))?;
        repository.object_cache_size(CACHE_BYTES);
        let unknown = |source| Error::Revision {
            revision: revision.to_owned(),
            source: Box::new(source),
        };
        let tip = repository
            .rev_parse_single(revision)
            .and_then(|id| id.object())
            .and_then(|found| found.peel_to_commit())
            .map_err(unknown)?
            .id;
        Ok(Self { repository, tip })
    }

    /// Returns the commit that the revision names.
    pub fn tip(&self) -> Result<Commit> {
        self.commit(self.tip)
    }

    /// Returns the commits from the first to the tip, following first parents.
    /// Commits that a shallow clone lacks are left out. Fails if there are more
    /// than `limit` commits.
    pub fn history(&self, limit: usize) -> Result<History<'_>> {
        let cut = self.shallow()?;
        let mut ids = Vec::new();
        let mut next = Some(self.tip);
        while let Some(id) = next {
            if ids.len() == limit {
                return Err(Error::TooLong(limit));
            }
            ids.push(id);
            let found = self.repository.find_commit(id).map_err(object)?;
            let first = found.parent_ids().next();
            next = first
                .filter(|_| !cut.contains(&id))
                .map(|parent| parent.detach());
        }
        Ok(History { source: self, ids })
    }

    /// Returns the commits whose parents a shallow clone lacks.
    fn shallow(&self) -> Result<HashSet<ObjectId>> {
        let commits = self.repository.shallow_commits().map_err(object)?;
        let commits = commits.iter().flat_map(|commits| commits.iter().copied());
        Ok(commits.collect())
    }

    fn commit(&self, id: ObjectId) -> Result<Commit> {
        let found = self.repository.find_commit(id).map_err(object)?;
        let author = found.author().map_err(object)?;
        let message = found.message_raw_sloppy();
        let message = &message[..message.len().min(MESSAGE_BYTES)];
        Ok(Commit {
            id: id.to_string(),
            author: format!("{} <{}>", author.name, author.email),
            seconds: author.time().ok().map(|time| time.seconds),
            message: String::from_utf8_lossy(message).into_owned(),
            tree: found.tree_id().map_err(object)?.detach(),
        })
    }
}

/// Iterates over commits, the oldest first.
#[derive(Debug)]
pub struct History<'a> {
    source: &'a Source,
    /// The newest first.
    ids: Vec<ObjectId>,
}

impl Iterator for History<'_> {
    type Item = Result<Commit>;

    fn next(&mut self) -> Option<Self::Item> {
        let id = self.ids.pop()?;
        Some(self.source.commit(id))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.ids.len(), Some(self.ids.len()))
    }
}

impl ExactSizeIterator for History<'_> {}
