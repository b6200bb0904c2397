//! Workspaces that hold every file themselves: written from the store (copy),
//! or cloned from a directory that holds the snapshot (reflink), which takes no
//! room until a file is written to. Needs no privilege.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use elevo_engine::{
    CheckoutOptions, ImportOptions, NewStatCache, Present, Progress, Repository, Seed, StatCache,
    checkout, import_again, look_again, note_checkout,
};
use elevo_objects::{Hash, Snapshot, Tree};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};

use super::{Origin, ProviderKind, Reading, WorkspaceProvider};
use crate::error::{Error, Result};
use crate::trash;

/// Copies, or clones where the file system can.
#[derive(Debug)]
pub struct FullProvider {
    repository: Repository,
    threads: usize,
    /// For clones: where the directories are that they are made from.
    bases: Option<Bases>,
}

/// Directories that hold a snapshot each and are never changed. The file
/// `lock` in theirs is held by whoever makes, removes or clones from one.
#[derive(Debug)]
struct Bases {
    directory: PathBuf,
    trash: PathBuf,
}

const NOW: Timestamps = Timestamps {
    last_access: Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    },
    last_modification: Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    },
};

/// How many directories to clone from are kept.
const KEPT_BASES: usize = 4;

impl FullProvider {
    /// Workspaces with files of their own.
    pub fn copy(repository: Repository, threads: usize) -> Self {
        Self {
            repository,
            threads,
            bases: None,
        }
    }

    /// Workspaces whose files are clones of those in a directory in `root`,
    /// where the workspaces are too; its file system must be able to clone.
    pub fn reflink(repository: Repository, threads: usize, root: &Path) -> Self {
        let bases = Bases {
            directory: root.join("bases"),
            trash: root.join("trash"),
        };
        Self {
            repository,
            threads,
            bases: Some(bases),
        }
    }

    fn fill(
        &self,
        directory: &Path,
        snapshot: &Snapshot,
        seed: Option<Seed>,
        progress: &Progress,
    ) -> Result<()> {
        let options = CheckoutOptions {
            threads: self.threads,
            leave_out: Vec::new(),
            force: false,
            seed,
        };
        let present = Present::Unknown;
        let repository = &self.repository;
        checkout(
            repository, snapshot, directory, &present, &options, progress,
        )?;
        Ok(())
    }

    fn fill_place(
        &self,
        place: &Path,
        snapshot: &Snapshot,
        seed: Option<Seed>,
        progress: &Progress,
    ) -> Result<()> {
        let files = self.files(place);
        self.fill(&files, snapshot, seed, progress)?;
        let cache = self.begin_cache(place)?;
        let options = self.options();
        if note_checkout(
            &self.repository,
            &files,
            &options,
            progress,
            snapshot,
            &cache,
        )? {
            let finished = cache.finish(snapshot.tree, snapshot.times);
            finished.map_err(Error::io("write to", place))?;
        }
        Ok(())
    }

    fn begin_cache(&self, place: &Path) -> Result<NewStatCache> {
        NewStatCache::begin(&cache(place)).map_err(Error::io("write to", place))
    }

    fn options(&self) -> ImportOptions {
        ImportOptions {
            threads: self.threads,
            leave_out: Vec::new(),
        }
    }
}

impl Bases {
    /// Calls `then` with a directory that holds the snapshot and stays there
    /// meanwhile; if there is none, `make` is called first to fill one.
    fn with(
        &self,
        snapshot: &Snapshot,
        make: impl Fn(&Path) -> Result<()>,
        then: impl FnOnce(Seed) -> Result<()>,
    ) -> Result<()> {
        let failed = || Error::io("make", &self.directory);
        fs::create_dir_all(&self.directory).map_err(failed())?;
        let lock = self.directory.join("lock");
        let lock = File::create(lock).map_err(failed())?;
        let directory = self.directory.join(key(snapshot));
        loop {
            lock.lock_shared().map_err(failed())?;
            if directory.exists() {
                // The one that was used last; only eviction looks at it.
                let _ = rustix::fs::utimensat(CWD, &directory, &NOW, AtFlags::empty());
                return then(Seed {
                    directory,
                    snapshot: snapshot.clone(),
                });
            }
            lock.unlock().map_err(failed())?;
            lock.lock().map_err(failed())?;
            if !directory.exists() {
                self.make_room()?;
                let unfinished = self.directory.join("unfinished");
                trash::remove(&unfinished, &self.trash)?;
                make(&unfinished)?;
                fs::rename(&unfinished, &directory).map_err(failed())?;
            }
            lock.unlock().map_err(failed())?;
        }
    }

    /// Removes those that were used longest ago.
    fn make_room(&self) -> Result<()> {
        let list = || -> io::Result<Vec<(SystemTime, PathBuf)>> {
            let mut bases = Vec::new();
            for entry in fs::read_dir(&self.directory)? {
                let entry = entry?;
                let metadata = entry.metadata()?;
                if metadata.is_dir() {
                    bases.push((metadata.modified()?, entry.path()));
                }
            }
            bases.sort();
            Ok(bases)
        };
        let bases = list().map_err(Error::io("list", &self.directory))?;
        let spare = (bases.len() + 1).saturating_sub(KEPT_BASES);
        for (_, base) in bases.iter().take(spare) {
            trash::remove(base, &self.trash)?;
        }
        Ok(())
    }
}

/// Equal for equal files and times.
fn key(snapshot: &Snapshot) -> String {
    let hash = |hash: Option<Hash>| hash.map_or("none".into(), |hash| hash.to_string());
    format!("{}-{}", hash(snapshot.tree.root), hash(snapshot.times))
}

fn refuse_limit(origin: Origin<'_>) -> Result<()> {
    match origin.limit {
        Some(_) => Err(Error::NoLimit),
        None => Ok(()),
    }
}

fn cache(place: &Path) -> PathBuf {
    place.join("stat")
}

impl WorkspaceProvider for FullProvider {
    fn kind(&self) -> ProviderKind {
        match self.bases {
            Some(_) => ProviderKind::Reflink,
            None => ProviderKind::Copy,
        }
    }

    fn files(&self, place: &Path) -> PathBuf {
        place.join("files")
    }

    fn create(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        refuse_limit(origin)?;
        let snapshot = origin.snapshot;
        match &self.bases {
            None => self.fill_place(place, snapshot, None, progress),
            Some(bases) => bases.with(
                snapshot,
                |directory| self.fill(directory, snapshot, None, progress),
                |seed| self.fill_place(place, snapshot, Some(seed), progress),
            ),
        }
    }

    fn fork(
        &self,
        from: &Path,
        place: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<()> {
        refuse_limit(origin)?;
        let seed = self.bases.as_ref().map(|_| Seed {
            directory: self.files(from),
            snapshot: origin.snapshot.clone(),
        });
        self.fill_place(place, origin.snapshot, seed, progress)
    }

    fn read(&self, place: &Path, _: Origin<'_>, progress: &Progress) -> Result<Reading> {
        let old = StatCache::open(&cache(place));
        let new = self.begin_cache(place)?;
        let options = self.options();
        let files = self.files(place);
        let imported = import_again(&self.repository, &files, &options, progress, &old, &new)?;
        Ok(Reading {
            imported,
            cache: new,
        })
    }

    fn look(&self, place: &Path, _: Origin<'_>, progress: &Progress) -> Result<(Tree, Repository)> {
        let old = StatCache::open(&cache(place));
        let options = self.options();
        let files = self.files(place);
        Ok(look_again(
            &self.repository,
            &files,
            &options,
            progress,
            &old,
        )?)
    }

    fn release(&self, _: &Path) -> Result<()> {
        Ok(())
    }
}
