//! The difference of two snapshots as a layer of overlayfs: mounted over a
//! directory that holds the first, it shows the second.

use std::path::Path;

use elevo_core::{Name, TreePath};
use elevo_objects::{DirItem, Entry, Hash, Snapshot, TimeEntry, TimeItem, Tree};

use super::{Checkout, CheckoutOptions, CheckoutReport, Job, WINDOW, Writer};
use crate::blocking::Workers;
use crate::diff::Pairs;
use crate::disk::RootDirectory;
use crate::error::{Result, at_root};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::tree;

/// Writes the differences from `before` to `after`, including modification
/// times, into the empty `directory`. Deletions are recorded as whiteouts (0/0
/// character devices), which need no privilege since Linux 5.8. Blocks.
pub fn write_layer(
    repository: &Repository,
    before: &Snapshot,
    after: &Snapshot,
    directory: &Path,
    options: &CheckoutOptions,
    progress: &Progress,
) -> Result<CheckoutReport> {
    let root = RootDirectory::open(directory).map_err(at_root("open"))?;
    let workers = Workers::start(options.threads).map_err(at_root("start threads for"))?;
    let checkout = Checkout {
        repository,
        workers: &workers,
        root: &root,
        options,
        progress,
    };
    let writer = Writer::new(&checkout, None);
    let mut delta = Delta::new(repository, State::of(before), State::of(after));
    workers.run(|| {
        writer.set_root_owner()?;
        let mut report = CheckoutReport::default();
        let mut open = Vec::new();
        loop {
            let jobs = workers.wait(delta.window())?;
            if jobs.is_empty() {
                open.reverse();
                writer.close(open)?;
                return Ok(report);
            }
            report = report.plus(writer.write(jobs, &mut open)?);
        }
    })
}

/// A directory and its time tree.
#[derive(Clone, Copy, PartialEq)]
struct State {
    tree: Tree,
    times: Option<Hash>,
}

impl State {
    const EMPTY: Self = Self {
        tree: Tree::EMPTY,
        times: None,
    };

    fn of(snapshot: &Snapshot) -> Self {
        Self {
            tree: snapshot.tree,
            times: snapshot.times,
        }
    }
}

/// The differences between two states, each directory before its content.
struct Delta<'a> {
    repository: &'a Repository,
    stack: Vec<Level>,
}

struct Level {
    path: TreePath,
    before: State,
    after: State,
    entries: Pairs<DirItem>,
    times: Pairs<TimeItem>,
    /// The next differing names of `entries` and of `times`, if they have been
    /// read.
    next_entry: Option<Name>,
    next_time: Option<Name>,
    started: bool,
}

impl<'a> Delta<'a> {
    fn new(repository: &'a Repository, before: State, after: State) -> Self {
        let root = Level::new(TreePath::root(), before, after);
        Self {
            repository,
            stack: vec![root],
        }
    }

    async fn window(&mut self) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        while jobs.len() < WINDOW
            && let Some(job) = self.next().await?
        {
            jobs.push(job);
        }
        Ok(jobs)
    }

    async fn next(&mut self) -> Result<Option<Job>> {
        while let Some(level) = self.stack.last_mut() {
            let Some(name) = level.next(self.repository).await? else {
                self.stack.pop();
                continue;
            };
            let path = level.path.join(&name)?;
            let (before, _, before_below) = look(self.repository, level.before, &name).await?;
            let (after, time, after_below) = look(self.repository, level.after, &name).await?;
            if before.is_none() && after.is_none() {
                continue;
            }
            if matches!(after, Some(Entry::Directory { .. })) && before_below != after_below {
                let below = Level::new(path.clone(), before_below, after_below);
                self.stack.push(below);
            }
            return Ok(Some(Job {
                path,
                entry: after,
                modified: time.and_then(|time| time.modified),
                before: None,
            }));
        }
        Ok(None)
    }
}

/// Returns an entry, its time, and its content if it is a directory.
async fn look(
    repository: &Repository,
    state: State,
    name: &Name,
) -> Result<(Option<Entry>, Option<TimeEntry>, State)> {
    let item = tree::find::<DirItem>(repository, state.tree.root, name).await?;
    let time = tree::find::<TimeItem>(repository, state.times, name).await?;
    let (entry, time) = (item.map(|item| item.entry), time.map(|item| item.entry));
    let below = match &entry {
        Some(Entry::Directory { tree, .. }) => State {
            tree: *tree,
            times: time.and_then(|time| time.children),
        },
        _ => State::EMPTY,
    };
    Ok((entry, time, below))
}

impl Level {
    fn new(path: TreePath, before: State, after: State) -> Self {
        Self {
            path,
            before,
            after,
            entries: Pairs::new(before.tree.root, after.tree.root),
            times: Pairs::new(before.times, after.times),
            next_entry: None,
            next_time: None,
            started: false,
        }
    }

    /// Returns the next name at which entries or times differ.
    async fn next(&mut self, repository: &Repository) -> Result<Option<Name>> {
        if !self.started {
            self.started = true;
            self.next_entry = next_name(&mut self.entries, repository).await?;
            self.next_time = next_name(&mut self.times, repository).await?;
        }
        let name = match (&self.next_entry, &self.next_time) {
            (Some(entry), Some(time)) => entry.min(time).clone(),
            (Some(name), None) | (None, Some(name)) => name.clone(),
            (None, None) => return Ok(None),
        };
        if self.next_entry.as_ref() == Some(&name) {
            self.next_entry = next_name(&mut self.entries, repository).await?;
        }
        if self.next_time.as_ref() == Some(&name) {
            self.next_time = next_name(&mut self.times, repository).await?;
        }
        Ok(Some(name))
    }
}

async fn next_name<I: tree::NamedItem>(
    pairs: &mut Pairs<I>,
    repository: &Repository,
) -> Result<Option<Name>> {
    let pair = pairs.next(repository).await?;
    Ok(pair.and_then(|(before, after)| Some(before.or(after)?.key().clone())))
}
