//! Data that several measures share: trees on disk, in a store and in git, created on first use.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_engine::{
    Attributes, CommitInfo, DEFAULT_CACHE_BYTES, ImportOptions, Progress, Repository, StateTree,
    Store, import,
};
use elevo_objects::{Snapshot, SnapshotId};
use elevo_store_local::{LocalStore, Options};
use futures::executor::block_on;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::Sizes;
use crate::data::{Dataset, FileSizes, Layout, noise, numbers, write_to_disk};
use crate::measure::timed;
use crate::peers::Git;
use crate::suite::say;

/// The context of all measures of the engine.
pub(crate) struct Bench {
    scratch: PathBuf,
    pub(crate) sizes: Sizes,
    pub(crate) threads: usize,
    trees: HashMap<usize, Rc<Tree>>,
    paths: Cell<usize>,
}

impl Bench {
    pub(crate) fn new(scratch: &Path, sizes: Sizes, threads: usize) -> Self {
        Self {
            scratch: scratch.to_owned(),
            sizes,
            threads,
            trees: HashMap::new(),
            paths: Cell::new(0),
        }
    }

    /// Returns an unused path, after the disk has finished its writes, so that the next step does
    /// not pay for the previous one.
    ///
    /// Nothing is deleted before the end. On ext4 without a journal, creating a file looks at every
    /// inode of its group that was freed in the last minutes, which costs more than the file.
    pub(crate) fn fresh(&self, name: &str) -> PathBuf {
        rustix::fs::sync();
        let number = self.paths.replace(self.paths.get() + 1);
        self.scratch.join(format!("{number:02}-{name}"))
    }

    /// The tree with this number of files.
    pub(crate) fn tree(&mut self, files: usize) -> Result<Rc<Tree>> {
        if let Some(tree) = self.trees.get(&files) {
            return Ok(tree.clone());
        }
        let sizes = if files == self.sizes.large {
            FileSizes::Short
        } else {
            FileSizes::Ordinary
        };
        let directory = self.fresh(&format!("tree-{files}"));
        let tree = Tree::make(Layout::new(files, sizes), &directory, self.threads)?;
        let tree = Rc::new(tree);
        self.trees.insert(files, tree.clone());
        Ok(tree)
    }
}

/// A tree on disk, and the same tree in a store.
pub(crate) struct Tree {
    pub(crate) layout: Layout,
    directory: PathBuf,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) snapshot: SnapshotId,
    git: OnceCell<Git>,
}

impl Tree {
    fn make(layout: Layout, directory: &Path, threads: usize) -> Result<Self> {
        let files = directory.join("files");
        say(&format!("making {} files", layout.files()));
        write_to_disk(&layout, &files)?;
        rustix::fs::sync();
        let store_path = directory.join("store");
        let store = create_store(&store_path)?;
        let (seconds, snapshot) = timed(|| import_all(&repository(&store), &files, threads))?;
        say(&format!("imported in {seconds:.1} s"));
        // Reopens the store, so that the imported data has left the write buffers, as it would in
        // practice.
        drop(store);
        let store = open_store(&store_path)?;
        let tree = Self {
            layout,
            directory: directory.to_owned(),
            store,
            snapshot,
            git: OnceCell::new(),
        };
        let found = tree.snapshot(snapshot)?.tree;
        ensure!(
            found.count >= layout.files() as u64,
            "the import is not whole: {found:?}"
        );
        Ok(tree)
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.directory.join("files")
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.directory.join("store")
    }

    /// A repository with an empty cache.
    pub(crate) fn repository(&self) -> Repository {
        repository(&self.store)
    }

    pub(crate) fn snapshot(&self, id: SnapshotId) -> Result<Snapshot> {
        Ok(block_on(self.repository().snapshot(id))?)
    }

    /// The same files in a git repository, with these files as its work tree.
    pub(crate) fn git(&self) -> Result<&Git> {
        if let Some(git) = self.git.get() {
            return Ok(git);
        }
        say(&format!(
            "making a git repository of {} files",
            self.layout.files()
        ));
        let git = Git::with_commit(&self.directory.join("git"), &self.files(), &self.layout)?;
        Ok(self.git.get_or_init(|| git))
    }

    /// A snapshot in which `count` files, chosen by `rng`, differ from the tree.
    pub(crate) fn variant(&self, rng: &mut Xoshiro256PlusPlus, count: usize) -> Result<SnapshotId> {
        let repository = self.repository();
        let tree = block_on(StateTree::open(&repository, self.snapshot))?;
        let mut chosen = Vec::new();
        while chosen.len() < count {
            let index = rng.random_range(0..self.layout.files());
            if chosen.contains(&index) {
                continue;
            }
            chosen.push(index);
            write_noise(&tree, &self.layout.path(index), rng.random())?;
        }
        Ok(block_on(tree.commit(commit_info(Some(self.snapshot))))?)
    }
}

/// Writes 4 KiB of new data.
pub(crate) fn write_noise(tree: &StateTree, path: &str, number: u64) -> Result<()> {
    let data = Bytes::from(noise(4096, "edit", number));
    Ok(block_on(tree.write(&path.parse()?, data, edited()))?)
}

/// The attributes of a file that was just edited.
pub(crate) fn edited() -> Attributes {
    Attributes {
        modified: Timestamp::new(1_700_000_001, 0),
        ..Attributes::default()
    }
}

pub(crate) fn commit_info(parent: Option<SnapshotId>) -> CommitInfo {
    CommitInfo {
        parents: parent.into_iter().collect(),
        author: "Bench <bench@localhost>".into(),
        message: "edit".into(),
        created: Timestamp::new(1_700_000_000, 0).unwrap_or_else(|| unreachable!("no nanoseconds")),
        labels: BTreeMap::new(),
        reference: None,
    }
}

pub(crate) fn create_store(path: &Path) -> Result<Arc<dyn Store>> {
    let store = LocalStore::create(path, &store_options());
    Ok(Arc::new(store.context("cannot make a store")?))
}

pub(crate) fn open_store(path: &Path) -> Result<Arc<dyn Store>> {
    let store = LocalStore::open(path, &store_options());
    Ok(Arc::new(store.context("cannot open the store")?))
}

fn store_options() -> Options {
    Options {
        holder: "elevo-bench".into(),
        ..Options::default()
    }
}

pub(crate) fn repository(store: &Arc<dyn Store>) -> Repository {
    Repository::new(store.clone(), TenantId::LOCAL, DEFAULT_CACHE_BYTES)
}

/// Imports a directory into a repository as a durable snapshot.
pub(crate) fn import_all(
    repository: &Repository,
    directory: &Path,
    threads: usize,
) -> Result<SnapshotId> {
    let options = ImportOptions {
        threads,
        leave_out: Vec::new(),
        ignoring: None,
    };
    let imported = import(repository, directory, &options, &Progress::new())?;
    Ok(block_on(imported.commit(repository, commit_info(None)))?)
}

pub(crate) fn tree_path(path: &str) -> Result<TreePath> {
    path.parse()
        .with_context(|| format!("{path} is not a path"))
}

/// The random numbers of a measure.
pub(crate) fn dice(measure: &str) -> Xoshiro256PlusPlus {
    numbers(measure, 0)
}

/// Whether the file was read before the edit. If so, its directories are in memory; otherwise they
/// are first read from disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edit {
    ReadBefore,
    NeverRead,
}

impl Edit {
    /// Called before `path` is written, and not timed.
    pub(crate) fn prepare(self, tree: &StateTree, path: &TreePath) -> Result<()> {
        if self == Self::ReadBefore {
            block_on(tree.read(path))?;
        }
        Ok(())
    }
}
