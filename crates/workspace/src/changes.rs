use elevo_engine::{Diff, Repository};
use elevo_objects::{SnapshotId, Tree};

/// The changes of a workspace: its current files, and the files of its base.
#[derive(Debug)]
pub struct Changes {
    /// The snapshot that the files are compared with.
    pub base: SnapshotId,
    /// The current files.
    pub tree: Tree,
    pub(crate) before: Tree,
    pub(crate) start: Tree,
    pub(crate) repository: Repository,
}

impl Changes {
    /// Whether the files equal those of the base.
    pub fn is_empty(&self) -> bool {
        self.tree == self.before
    }

    /// Returns the added, deleted and changed paths.
    pub fn diff(&self) -> Diff {
        Diff::new(&self.repository, self.before, self.tree)
    }

    /// The files of the base.
    pub fn before(&self) -> Tree {
        self.before
    }

    /// The files that the work of the workspace started from.
    pub fn start(&self) -> Tree {
        self.start
    }

    /// The repository that has all of these trees.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }
}
