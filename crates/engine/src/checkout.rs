//! A snapshot into a directory. (Signatures settled; being filled in.)
use std::path::{Path, PathBuf};

use elevo_core::Name;
use elevo_objects::Snapshot;

use crate::error::Result;
use crate::progress::Progress;
use crate::repository::Repository;

/// How a snapshot is checked out.
#[derive(Clone, Debug)]
pub struct CheckoutOptions {
    /// Threads that write; at least 1.
    pub threads: usize,
    /// Names at the root of the directory that are never touched.
    pub leave_out: Vec<Name>,
    /// Overwrite and remove what is not as the previous snapshot has it.
    pub force: bool,
    /// A directory to share file content with where the file system can.
    pub seed: Option<Seed>,
}

/// A directory known to hold a snapshot, from which files that are the same
/// can be cloned (reflink) instead of written.
#[derive(Clone, Debug)]
pub struct Seed {
    /// Where it is.
    pub directory: PathBuf,
    /// What it holds; the caller vouches that nobody changed it since.
    pub snapshot: Snapshot,
}

/// What a directory holds before a checkout.
#[derive(Clone, Debug)]
pub enum Present {
    /// It may hold anything: look, and change only what differs.
    Unknown,
    /// This snapshot, as recorded when it was checked out. Only paths that
    /// differ between the two snapshots are looked at.
    Recorded(Snapshot),
    /// The same, but look at everything first and refuse if something changed.
    Checked(Snapshot),
}

/// What a checkout did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckoutReport {
    /// Files, directories and links written.
    pub written: u64,
    /// Files, directories and links removed.
    pub removed: u64,
    /// Bytes of file content written.
    pub bytes: u64,
    /// Files whose content was shared with the seed.
    pub cloned: u64,
}

/// Makes `directory` hold `snapshot`.
pub fn checkout(
    _repository: &Repository,
    _snapshot: &Snapshot,
    _directory: &Path,
    _present: &Present,
    _options: &CheckoutOptions,
    _progress: &Progress,
) -> Result<CheckoutReport> {
    Ok(CheckoutReport::default())
}
