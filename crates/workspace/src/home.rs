//! The home of an agent: a directory next to the files of its workspace, for
//! the data of its tools. It lives as long as the workspace and is in none of
//! its snapshots.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use elevo_engine::{
    CheckoutOptions, CloneSource, ExistingContent, ImportOptions, Imported, Owner, Progress,
    Repository, checkout, import,
};
use elevo_objects::{Snapshot, Tree};

use crate::error::{Error, Result};
use crate::owner::set_owner;

/// Creates an empty home that only its owner can read.
pub(crate) fn create(home: &Path, owner: Option<Owner>) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(home) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::io("create", home)(error)),
        Ok(()) => set_owner(home, owner),
    }
}

/// Reads a home into the store; `None` if it is empty.
pub(crate) fn read(
    repository: &Repository,
    home: &Path,
    threads: usize,
    progress: &Progress,
) -> Result<Option<Imported>> {
    // Workspaces of older versions have no home.
    if !home.try_exists().map_err(Error::io("inspect", home))? {
        return Ok(None);
    }
    let options = ImportOptions {
        threads,
        leave_out: Vec::new(),
        ignoring: None,
    };
    let imported = import(repository, home, &options, progress)?;
    Ok((imported.tree != Tree::EMPTY).then_some(imported))
}

/// The content of a home: of a workspace that is being forked, or of a parked
/// one.
#[derive(Debug)]
pub(crate) struct HomeContents {
    pub(crate) snapshot: Snapshot,
    /// The repository that has the content.
    pub(crate) view: Repository,
    /// The directory of that home, if files can be cloned from it.
    pub(crate) clone_source: Option<PathBuf>,
}

impl HomeContents {
    /// Fills an empty home, modification times included.
    pub(crate) fn fill(
        &self,
        home: &Path,
        owner: Option<Owner>,
        threads: usize,
        progress: &Progress,
    ) -> Result<()> {
        let clone_source = self.clone_source.as_ref().map(|directory| CloneSource {
            directory: directory.clone(),
            snapshot: self.snapshot.clone(),
        });
        let options = CheckoutOptions {
            threads,
            leave_out: Vec::new(),
            ignoring: None,
            force: false,
            clone_source,
            owner,
        };
        let present = ExistingContent::Unknown;
        let (view, snapshot) = (&self.view, &self.snapshot);
        checkout(view, snapshot, home, &present, &options, progress)?;
        Ok(())
    }
}
