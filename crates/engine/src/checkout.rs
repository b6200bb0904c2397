//! A snapshot into a directory: all of it, or what differs from what is there.
//!
//! Paths are reached from the directory held open, never through a symbolic
//! link. A checkout changes nothing before it has looked at every path it will
//! touch: what is not as the previous snapshot has it is in the way, and stays
//! unless the caller forces it. Nothing is synced: what a checkout wrote can
//! be written again.

mod attributes;
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
use crate::disk::{Parents, Root};
use crate::error::{Error, Result, at_root};
use crate::import::{Ignore, Ignoring, ImportOptions, scan};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::walk::Walk;
use remove::Remover;
use write::Writer;

pub use layer::write_layer;

/// How a snapshot is checked out.
#[derive(Clone, Debug)]
pub struct CheckoutOptions {
    /// Threads that write; at least 1.
    pub threads: usize,
    /// Names that are never touched, at any depth.
    pub leave_out: Vec<Name>,
    /// Decides which files a look at the whole directory passes over: they are
    /// neither in the way nor removed, unless one of the snapshots has them.
    pub ignoring: Option<Arc<dyn Ignore>>,
    /// Overwrite and remove what is not as the previous snapshot has it.
    pub force: bool,
    /// A directory to share file content with where the file system can.
    pub seed: Option<Seed>,
    /// Whose everything is that is written; otherwise the caller's. Giving
    /// files away needs root.
    pub owner: Option<Owner>,
}

/// A user and a group, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The user; not the largest number, which the system takes for nobody.
    pub uid: u32,
    /// The group; the same holds.
    pub gid: u32,
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
    /// It may hold anything, or not be there: look, and change only what
    /// differs.
    Unknown,
    /// This snapshot, as recorded when it was checked out. Only paths that
    /// differ between the two snapshots are looked at.
    Recorded(Snapshot),
    /// The same, but look at everything first. A file whose size and
    /// modification time are those of the snapshot is taken to be unchanged.
    Checked(Snapshot),
    /// This tree, as the caller has just found by looking.
    Found {
        /// What is there.
        tree: Tree,
        /// Where its directories can be read.
        view: Repository,
    },
}

/// What a checkout did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckoutReport {
    /// Files, directories and links written, or given another mode.
    pub written: u64,
    /// Files, directories and links removed.
    pub removed: u64,
    /// Bytes of file content written.
    pub bytes: u64,
    /// Files whose content was shared with the seed.
    pub cloned: u64,
    /// Directories that were to be removed and stayed, because something that
    /// is in neither snapshot is in them.
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

/// Makes `directory` hold `snapshot`. Blocks.
///
/// A full checkout restores modification times; what a partial one writes gets
/// the present time, so that it is rebuilt by whatever looks at times.
pub fn checkout(
    repository: &Repository,
    snapshot: &Snapshot,
    directory: &Path,
    present: &Present,
    options: &CheckoutOptions,
    progress: &Progress,
) -> Result<CheckoutReport> {
    std::fs::create_dir_all(directory).map_err(at_root("create"))?;
    let root = Root::open(directory).map_err(at_root("open"))?;
    let workers = Workers::start(options.threads).map_err(at_root("start threads for"))?;
    let seed = match &options.seed {
        Some(seed) => Some((
            Root::open(&seed.directory).map_err(at_root("open"))?,
            seed.snapshot.tree,
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
    let writer = Writer::new(&checkout, seed);
    workers.run(|| {
        let is_new = verify::is_empty(&root, &options.leave_out).map_err(at_root("list"))?;
        match present {
            _ if is_new => checkout.fill(snapshot, &writer),
            Present::Recorded(before) => {
                checkout.refuse_changed(before.tree, snapshot.tree)?;
                checkout.apply(repository, before.tree, snapshot.tree, &writer)
            }
            Present::Checked(before) => {
                let known = Some((before.tree, before.times));
                let tracked = vec![before.tree, snapshot.tree];
                let (found, overlay) = checkout.scan(directory, known, tracked)?;
                if !options.force {
                    checkout.refuse_any(&overlay, before.tree, found)?;
                }
                checkout.apply(&overlay, found, snapshot.tree, &writer)
            }
            Present::Unknown => {
                let tracked = vec![snapshot.tree];
                let (found, overlay) = checkout.scan(directory, None, tracked)?;
                if !options.force {
                    checkout.refuse_losses(&overlay, found, snapshot.tree)?;
                }
                checkout.apply(&overlay, found, snapshot.tree, &writer)
            }
            Present::Found { tree, view } => {
                if !options.force {
                    checkout.refuse_losses(view, *tree, snapshot.tree)?;
                }
                checkout.apply(view, *tree, snapshot.tree, &writer)
            }
        }
    })
}

struct Checkout<'a> {
    repository: &'a Repository,
    workers: &'a Workers,
    root: &'a Root,
    options: &'a CheckoutOptions,
    progress: &'a Progress,
}

/// Entries that are worked on together.
const WINDOW: usize = 2048;
/// Files that one thread writes in a row, with their chunks from one call.
const SLICE: usize = 32;

/// Something to be written.
struct Job {
    path: TreePath,
    /// `None`, in a layer: that there is nothing, whatever lies below.
    entry: Option<Entry>,
    modified: Option<Timestamp>,
    /// What is there now.
    before: Option<Entry>,
}

impl Checkout<'_> {
    /// Hashes what is in the directory; the repository returned knows it.
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

    /// Refuses to go on if a path that differs between the snapshots is not as
    /// `before` has it.
    fn refuse_changed(&self, before: Tree, after: Tree) -> Result<()> {
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

    /// Refuses to go on if the directory is not as it should be.
    fn refuse_any(&self, repository: &Repository, expected: Tree, found: Tree) -> Result<()> {
        let mut in_the_way = InTheWay::default();
        self.windows(repository, expected, found, |changes| {
            changes
                .iter()
                .for_each(|change| in_the_way.add(&change.path));
            Ok(())
        })?;
        in_the_way.into_result()
    }

    /// Refuses to go on if something would be overwritten or removed.
    fn refuse_losses(&self, repository: &Repository, found: Tree, after: Tree) -> Result<()> {
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

    /// Whether a path is not left out. A snapshot can hold names that are:
    /// what stored it may have known nothing of them.
    fn may_touch(&self, path: &TreePath) -> bool {
        let left_out = &self.options.leave_out;
        left_out.is_empty() || !path.names().any(|name| left_out.contains(&name))
    }

    /// Goes through the differences of two trees some at a time.
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

    /// Brings the directory from one tree to another: first all that goes,
    /// then all that comes, so that a file can take a directory's place.
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
        writer.own_root()?;
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
