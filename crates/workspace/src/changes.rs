use elevo_engine::{Diff, Repository};
use elevo_objects::{SnapshotId, Tree};

/// What a workspace is now, beside its base.
#[derive(Debug)]
pub struct Changes {
    /// The snapshot that it is compared with.
    pub base: SnapshotId,
    /// Its files now.
    pub tree: Tree,
    pub(crate) before: Tree,
    pub(crate) repository: Repository,
}

impl Changes {
    /// Whether it is as its base.
    pub fn is_empty(&self) -> bool {
        self.tree == self.before
    }

    /// What was added, removed and changed.
    pub fn diff(&self) -> Diff {
        Diff::new(&self.repository, self.before, self.tree)
    }

    /// The files of the base.
    pub fn before(&self) -> Tree {
        self.before
    }

    /// Where both trees can be read.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }
}
