//! The home of an agent: a directory beside the files of its workspace, for
//! what its tools keep there. It lives as long as the workspace, and is in none
//! of its snapshots.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::{Path, PathBuf};

use elevo_engine::{
    CheckoutOptions, ImportOptions, Imported, Owner, Present, Progress, Repository, Seed, checkout,
    import,
};
use elevo_objects::{Snapshot, Tree};

use crate::error::{Error, Result};

/// Gives a directory to its owner, if it is to have another.
pub(crate) fn give(path: &Path, owner: Option<Owner>) -> Result<()> {
    let Some(Owner { uid, gid }) = owner else {
        return Ok(());
    };
    lchown(path, Some(uid), Some(gid)).map_err(Error::io("give away", path))
}

/// Makes an empty home that nobody else can look into.
pub(crate) fn make(home: &Path, owner: Option<Owner>) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(home) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::io("make", home)(error)),
        Ok(()) => give(home, owner),
    }
}

/// Reads a home into the store; `None` if there is nothing in it.
pub(crate) fn read(
    repository: &Repository,
    home: &Path,
    threads: usize,
    progress: &Progress,
) -> Result<Option<Imported>> {
    // One that was made before there were homes has none.
    if !home.try_exists().map_err(Error::io("look at", home))? {
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

/// What another home held.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) snapshot: Snapshot,
    /// Where that can be read.
    pub(crate) view: Repository,
    /// That home, if files can be cloned from there.
    pub(crate) seed: Option<PathBuf>,
}

impl Contents {
    /// Fills a home that is empty, modification times included.
    pub(crate) fn fill(
        &self,
        home: &Path,
        owner: Option<Owner>,
        threads: usize,
        progress: &Progress,
    ) -> Result<()> {
        let seed = self.seed.as_ref().map(|directory| Seed {
            directory: directory.clone(),
            snapshot: self.snapshot.clone(),
        });
        let options = CheckoutOptions {
            threads,
            leave_out: Vec::new(),
            ignoring: None,
            force: false,
            seed,
            owner,
        };
        let present = Present::Unknown;
        let (view, snapshot) = (&self.view, &self.snapshot);
        checkout(view, snapshot, home, &present, &options, progress)?;
        Ok(())
    }
}
