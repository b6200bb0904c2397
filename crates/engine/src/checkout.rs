//! Checks out a snapshot into a directory: all of it, or the differences.
//!
//! Every path is opened relative to the directory, which is held open, and
//! never through a symbolic link. A checkout changes nothing before it has
//! examined every path it will touch: a path that differs from the previous
//! snapshot is in the way, and stays unless the caller forces it. Nothing is
//! synced: a checkout can be repeated.

mod attributes;
mod content;
mod layer;
mod remove;
mod verify;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use elevo_core::{Name, Timestamp, TreePath};
use elevo_objects::{Entry, Snapshot, Tree};
use rayon::prelude::*;

use crate::blocking::Workers;
use crate::diff::{Change, ChangeKind, Diff};
use crate::disk::{Parents, RootDirectory};
use crate::error::{Error, Result, at_root};
use crate::import::{Ignore, Ignoring, ImportOptions, scan};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::walk::Walk;
use remove::Remover;
use write::Writer;

pub use layer::write_layer;

/// Options of a checkout.
#[derive(Clone, Debug)]
pub struct CheckoutOptions {
    /// Number of threads that write; at least 1.
    pub threads: usize,
    /// Names that are never touched, at any depth.
    pub leave_out: Vec<Name>,
    /// Decides which files a scan of the whole directory skips: they are
    /// neither in the way nor removed, unless one of the snapshots has them.
    pub ignoring: Option<Arc<dyn Ignore>>,
    /// Whether to overwrite and remove paths that differ from the previous
    /// snapshot.
    pub force: bool,
    /// A directory to share file content with, if the file system supports it.
    pub clone_source: Option<CloneSource>,
    /// Owner of everything that is written; the caller by default. Another
    /// owner needs root.
    pub owner: Option<Owner>,
}

/// A user and a group, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The user; not the largest number, which the system reserves.
    pub uid: u32,
    /// The group; not the largest number.
    pub gid: u32,
}

/// A directory known to hold a snapshot. Equal files can be cloned (reflink)
/// from it instead of written.
#[derive(Clone, Debug)]
pub struct CloneSource {
    /// Path of the directory.
    pub directory: PathBuf,
    /// Content of the directory; the caller guarantees that it is unchanged.
    pub snapshot: Snapshot,
}

/// Content of a directory before a checkout.
#[derive(Clone, Debug)]
pub enum ExistingContent {
    /// The content is unknown, and the directory may not exist. The checkout
    /// scans it, and changes only what differs.
    Unknown,
    /// This snapshot, as recorded when it was checked out. Only paths that
    /// differ between the two snapshots are examined.
    Recorded(Snapshot),
    /// This snapshot, but the whole directory is scanned first. A file with the
    /// size and modification time of the snapshot is taken as unchanged.
    Checked(Snapshot),
    /// This tree, which the caller has just found by a scan.
    Found {
        /// Content of the directory.
        tree: Tree,
        /// Repository in which the tree's directories can be read.
        view: Repository,
    },
}

/// Result of a checkout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckoutReport {
    /// Files, directories and links written, or changed in mode.
    pub written: u64,
    /// Files, directories and links removed.
    pub removed: u64,
    /// Bytes of file content written.
    pub bytes: u64,
    /// Files whose content was shared with the clone source.
    pub cloned: u64,
    /// Directories to be removed that stayed because they have entries that are
    /// in neither snapshot.
    pub kept: u64,
}

impl CheckoutReport {
    fn plus(self, other: Self) -> Self {
        Self {
            written: self.written + other.written,
            removed: self.removed + other.removed,
            bytes: self.bytes + other.bytes,
            cloned: self.cloned + other.cloned,
            kept: self.kept + other.kept,
        }
    }
}

/// Checks out `snapshot` into `directory`. Blocks.
///
/// A full checkout restores modification times; files written by a partial one
/// get the present time, so that build tools see them as changed.
pub fn checkout(
    repository: &Repository,
    snapshot: &Snapshot,
    directory: &Path,
    present: &ExistingContent,
    options: &CheckoutOptions,
    progress: &Progress,
) -> Result<CheckoutReport> {
    std::fs::create_dir_all(directory).map_err(at_root("create"))?;
    let root = RootDirectory::open(directory).map_err(at_root("open"))?;
    let workers = Workers::start(options.threads).map_err(at_root("start threads for"))?;
    let clone_source = match &options.clone_source {
        Some(clone_source) => Some((
            RootDirectory::open(&clone_source.directory).map_err(at_root("open"))?,
            clone_source.snapshot.tree,
        )),
        None => None,
    };
    let checkout = Checkout {
        repository,
        workers: &workers,
        root: &root,
        options,
        progress,
    };
    let writer = Writer::new(&checkout, clone_source);
    workers.run(|| {
        let is_new = verify::is_empty(&root, &options.leave_out).map_err(at_root("list"))?;
        match present {
            _ if is_new => checkout.fill(snapshot, &writer),
            ExistingContent::Recorded(before) => {
                checkout.reject_changed(before.tree, snapshot.tree)?;
                checkout.apply(repository, before.tree, snapshot.tree, &writer)
            }
            ExistingContent::Checked(before) => {
                let known = Some((before.tree, before.times));
                let tracked = vec![before.tree, snapshot.tree];
                let (found, overlay) = checkout.scan(directory, known, tracked)?;
                if !options.force {
                    checkout.reject_any(&overlay, before.tree, found)?;
                }
                checkout.apply(&overlay, found, snapshot.tree, &writer)
            }
            ExistingContent::Unknown => {
                let tracked = vec![snapshot.tree];
                let (found, overlay) = checkout.scan(directory, None, tracked)?;
                if !options.force {
                    checkout.reject_losses(&overlay, found, snapshot.tree)?;
                }
                checkout.apply(&overlay, found, snapshot.tree, &writer)
            }
            ExistingContent::Found { tree, view } => {
                if !options.force {
                    checkout.reject_losses(view, *tree, snapshot.tree)?;
                }
                checkout.apply(view, *tree, snapshot.tree, &writer)
            }
        }
    })
}

struct Checkout<'a> {
    repository: &'a Repository,
    workers: &'a Workers,
    root: &'a RootDirectory,
    options: &'a CheckoutOptions,
    progress: &'a Progress,
}

/// Number of entries that are processed together.
const WINDOW: usize = 2048;
/// Number of files that one thread writes in a row, with their chunks from one
/// call.
const SLICE: usize = 32;

/// An entry to be written.
struct Job {
    path: TreePath,
    /// `None`, in a layer, for a whiteout.
    entry: Option<Entry>,
    modified: Option<Timestamp>,
    /// The entry that is there now.
    before: Option<Entry>,
}

impl Checkout<'_> {
    /// Hashes the content of the directory; the returned repository can read
    /// its tree.
    fn scan(
        &self,
        directory: &Path,
        known: Option<(Tree, Option<elevo_objects::Hash>)>,
        tracked: Vec<Tree>,
    ) -> Result<(Tree, Repository)> {
        let rules = self.options.ignoring.clone();
        let options = ImportOptions {
            threads: self.options.threads,
            leave_out: self.options.leave_out.clone(),
            ignoring: rules.map(|rules| Ignoring { rules, tracked }),
        };
        let scanned = scan(self.repository, directory, &options, self.progress, known)?;
        let (tree, nodes) = scanned;
        Ok((tree, self.repository.overlay(Arc::new(nodes))))
    }

    /// Fails if a path that differs between the snapshots differs from `before`
    /// on disk.
    fn reject_changed(&self, before: Tree, after: Tree) -> Result<()> {
        if self.options.force {
            return Ok(());
        }
        let mut found = InTheWay::default();
        self.windows(self.repository, before, after, |changes| {
            let changed = changes
                .par_iter()
                .with_min_len(SLICE)
                .map_init(
                    || Parents::new(self.root),
                    |parents, change| verify::is_changed(self, parents, change),
                )
                .collect::<Result<Vec<bool>>>()?;
            for (change, changed) in changes.iter().zip(changed) {
                if changed {
                    found.add(&change.path);
                }
            }
            Ok(())
        })?;
        found.into_result()
    }

    /// Fails if the directory differs from the expected tree.
    fn reject_any(&self, repository: &Repository, expected: Tree, found: Tree) -> Result<()> {
        let mut in_the_way = InTheWay::default();
        self.windows(repository, expected, found, |changes| {
            changes
                .iter()
                .for_each(|change| in_the_way.add(&change.path));
            Ok(())
        })?;
        in_the_way.into_result()
    }

    /// Fails if the checkout would overwrite or remove an entry of `found`.
    fn reject_losses(&self, repository: &Repository, found: Tree, after: Tree) -> Result<()> {
        let mut in_the_way = InTheWay::default();
        self.windows(repository, found, after, |changes| {
            let losing = changes.iter().filter(|change| {
                !matches!(
                    change.kind,
                    ChangeKind::Added(_) | ChangeKind::ModeChanged { .. }
                )
            });
            losing.for_each(|change| in_the_way.add(&change.path));
            Ok(())
        })?;
        in_the_way.into_result()
    }

    /// Whether a path may be touched. A snapshot can contain names that are
    /// left out here, if they were not left out when it was stored.
    fn may_touch(&self, path: &TreePath) -> bool {
        let left_out = &self.options.leave_out;
        left_out.is_empty() || !path.names().any(|name| left_out.contains(&name))
    }

    /// Passes the differences of two trees to `action`, some at a time.
    fn windows(
        &self,
        repository: &Repository,
        before: Tree,
        after: Tree,
        mut action: impl FnMut(Vec<Change>) -> Result<()>,
    ) -> Result<()> {
        let mut diff = Diff::new(repository, before, after);
        loop {
            let window = self.workers.wait(async {
                let mut window = Vec::new();
                while window.len() < WINDOW
                    && let Some(change) = diff.next().await?
                {
                    if self.may_touch(&change.path) {
                        window.push(change);
                    }
                }
                Ok::<_, Error>(window)
            })?;
            if window.is_empty() {
                return Ok(());
            }
            action(window)?;
        }
    }

    /// Changes the directory from one tree to another: first all removals, then
    /// all writes, so that a file can replace a directory.
    fn apply(
        &self,
        repository: &Repository,
        before: Tree,
        after: Tree,
        writer: &Writer<'_>,
    ) -> Result<CheckoutReport> {
        self.progress.begin_changes();
        let mut remover = Remover::new(self);
        self.windows(repository, before, after, |changes| {
            changes.iter().try_for_each(|change| remover.visit(change))
        })?;
        let mut report = remover.finish()?;
        let mut open = Vec::new();
        self.windows(repository, before, after, |changes| {
            let jobs = changes.into_iter().filter_map(Job::from_change).collect();
            report = report.plus(writer.write(jobs, &mut open)?);
            Ok(())
        })?;
        open.reverse();
        writer.close(open)?;
        Ok(report)
    }

    /// Writes the whole snapshot into an empty directory.
    fn fill(&self, snapshot: &Snapshot, writer: &Writer<'_>) -> Result<CheckoutReport> {
        self.progress.begin_changes();
        writer.set_root_owner()?;
        let mut report = CheckoutReport::default();
        let mut open = Vec::new();
        let walk = Walk::new(self.repository, snapshot.tree, snapshot.times);
        let mut walk = self.workers.wait(walk)?;
        loop {
            let jobs = self.workers.wait(async {
                let mut jobs = Vec::new();
                while jobs.len() < WINDOW
                    && let Some(visit) = walk.next().await?
                {
                    if self.may_touch(&visit.path) {
                        jobs.push(Job {
                            path: visit.path,
                            entry: Some(visit.entry),
                            modified: visit.modified,
                            before: None,
                        });
                    }
                }
                Ok::<_, Error>(jobs)
            })?;
            if jobs.is_empty() {
                open.reverse();
                writer.close(open)?;
                return Ok(report);
            }
            report = report.plus(writer.write(jobs, &mut open)?);
        }
    }
}

impl Job {
    fn from_change(change: Change) -> Option<Self> {
        let entry = change.kind.after()?.clone();
        let before = match change.kind {
            ChangeKind::TypeChanged { .. } => None,
            other => other.before().cloned(),
        };
        Some(Self {
            path: change.path,
            entry: Some(entry),
            modified: None,
            before,
        })
    }
}

#[derive(Default)]
struct InTheWay(Option<(TreePath, u64)>);

impl InTheWay {
    fn add(&mut self, path: &TreePath) {
        self.0.get_or_insert_with(|| (path.clone(), 0)).1 += 1;
    }

    fn into_result(self) -> Result<()> {
        match self.0 {
            None => Ok(()),
            Some((first, count)) => Err(Error::InTheWay { first, count }),
        }
    }
}
