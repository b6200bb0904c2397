//! The steps between which a process may die. Tests kill one at each of them; see
//! `killed.rs`.

/// A step that a process has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A commit is ready: everything large is published.
    Prepared,
    /// It is stored, and its caller does not know.
    Committed,
    /// Files have rows, and are not uploaded.
    Staged,
    /// A file is uploaded, and not published.
    Uploaded,
    Published,
    /// The same for a file with the packs of small commits.
    BundleStaged,
    BundleUploaded,
    Bundled,
    /// A collection has begun.
    Begun,
    /// Snapshots are condemned, and the nodes are not called yet.
    Condemned,
    /// The nodes are called to veto.
    Called,
    /// Vetoed snapshots are not condemned any more.
    Pardoned,
    /// The sweep has begun.
    Sweeping,
    SnapshotsDeleted,
    /// The first objects are deleted.
    ObjectsDeleted,
    /// The file with the marks has a row.
    MarksStaged,
    MarksUploaded,
    Finished,
    /// Unused files are doomed.
    Doomed,
    /// They are deleted from S3, and still have rows.
    Deleted,
    Forgotten,
}

/// Does nothing outside of tests.
#[cfg(not(test))]
pub(crate) const fn reached(_step: Step) {}

#[cfg(test)]
pub(crate) use crate::killed::reached;
