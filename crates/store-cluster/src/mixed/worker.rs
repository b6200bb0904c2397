//! A worker at one of the stores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use elevo_core::{Timestamp, TreePath};
use elevo_engine::{
    Attributes, Commit, CommitInfo, Error, Expected, GcOptions, GcProgress, GcRun, GcScope,
    Repository, StateTree, Store, StoreError, Writer,
};
use elevo_objects::SnapshotId;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use super::{Board, Habits, RECENT, STORES, TENANT, is_cut};
use crate::ClusterStore;

/// The number of the content of each file.
type Files = BTreeMap<String, u64>;

/// A snapshot and its expected files.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    id: SnapshotId,
    files: Files,
}

pub(super) struct Worker {
    number: usize,
    stores: Vec<Arc<ClusterStore>>,
    board: Arc<Board>,
    random: SmallRng,
    /// The snapshot of the ref that only this worker moves.
    head: Option<Snapshot>,
    /// Snapshots that the ref may have instead: their commits had no answer.
    perhaps: Vec<Snapshot>,
    commits: u64,
    habits: Habits,
}

/// Whether a step must go on.
type Step = Result<(), Error>;

fn content(which: u64) -> Bytes {
    Bytes::from(format!("content {which} ").repeat(8))
}

fn path(name: &str) -> TreePath {
    TreePath::new(name).unwrap()
}

impl Worker {
    pub(super) fn new(
        number: usize,
        stores: &[Arc<ClusterStore>],
        board: &Arc<Board>,
        habits: Habits,
    ) -> Self {
        Self {
            number,
            stores: stores.to_vec(),
            board: board.clone(),
            random: SmallRng::seed_from_u64(number as u64),
            head: None,
            perhaps: Vec::new(),
            commits: 0,
            habits,
        }
    }

    fn chance(&mut self, part: f64) -> bool {
        self.random.random_bool(part)
    }

    /// The ref of this worker.
    fn name(&self) -> String {
        format!("own{}", self.number)
    }

    fn repository(&self, store: usize, cache: u64) -> Repository {
        let store: Arc<dyn Store> = self.stores[store % STORES].clone();
        Repository::new(store, TENANT, cache)
    }

    async fn pause(&mut self) {
        let millis = match self.random.random_range(0..10) {
            0..5 => 0,
            5..9 => self.random.random_range(0..40),
            _ => self.random.random_range(0..400),
        };
        sleep(Duration::from_millis(millis)).await;
    }

    /// Commits and reads until all end.
    pub(super) async fn work(mut self) {
        while !self.board.is_over() {
            let mut done = self.commit_some().await;
            if done.is_ok() && self.chance(0.4) {
                done = self.read_head().await;
            }
            match done {
                Err(error) if !is_cut(&error) => {
                    self.board
                        .found(format!("worker {}: {error:?}", self.number));
                }
                _ => {}
            }
        }
    }

    /// Opens a snapshot that may be garbage, edits it, and commits.
    async fn commit_some(&mut self) -> Step {
        let cache = if self.chance(0.5) { 1 } else { 1 << 20 };
        let repository = self.repository(self.number, cache);
        let recent = self.board.recent.lock().clone();
        let base = match self.chance(0.5) || recent.is_empty() {
            true => self.head.clone(),
            false => Some(recent[self.random.random_range(0..recent.len())].clone()),
        };
        let (tree, mut files) = match &base {
            None => (StateTree::empty(&repository), Files::new()),
            Some(base) => match StateTree::open(&repository, base.id).await {
                // A ref that another commit has moved may point elsewhere.
                Err(Error::NoSuchSnapshot(_)) => return self.look_at_head(base.id).await,
                tree => (tree?, base.files.clone()),
            },
        };
        self.pause().await;
        for _ in 0..self.random.random_range(1..4) {
            let (d, f) = (
                self.random.random_range(0..3),
                self.random.random_range(0..3),
            );
            let (name, which) = (
                format!("d{d}/f{f}"),
                self.random.random_range(0..self.habits.contents),
            );
            let path = path(&name);
            let write = tree.write(&path, content(which), Attributes::default());
            write.await?;
            files.insert(name, which);
        }
        self.pause().await;
        self.check(&tree, &files, 1).await?;
        let is_named = self.chance(0.5);
        let parent = base
            .map(|base| base.id)
            .filter(|_| self.random.random_bool(0.3));
        self.commit(tree, files, parent, is_named).await
    }

    async fn commit(
        &mut self,
        tree: StateTree,
        files: Files,
        parent: Option<SnapshotId>,
        is_named: bool,
    ) -> Step {
        self.commits += 1;
        let head = self.head.as_ref().map(|head| head.id);
        let expected = head.map_or(Expected::Absent, Expected::At);
        let info = CommitInfo {
            parents: parent.into_iter().collect(),
            author: "worker".into(),
            message: format!("{} of {}", self.commits, self.number),
            created: Timestamp::new(0, 0).unwrap(),
            labels: BTreeMap::default(),
            reference: is_named.then(|| (self.name(), expected)),
        };
        let (id, mut commit) = tree.staged(info).await?;
        let snapshot = Snapshot { id, files };
        let store = tree.repository().store().clone();
        // Those of the first store have no sessions, for which collections wait.
        let _writer = match !self.number.is_multiple_of(STORES) && self.chance(self.habits.ahead) {
            true => Some(self.put_ahead(&*store, &mut commit).await?),
            false => None,
        };
        let committed = match store.commit(TENANT, commit).await {
            Ok(committed) => committed,
            Err(StoreError::Unknown(cause)) => {
                if is_named {
                    self.perhaps.push(snapshot);
                }
                return Err(StoreError::Unknown(cause).into());
            }
            Err(StoreError::ReferenceMoved { .. }) => {
                return self.settle().await;
            }
            Err(error) => return Err(error.into()),
        };
        self.board.commits.fetch_add(1, Ordering::Relaxed);
        if is_named {
            self.head = Some(snapshot.clone());
            self.perhaps.clear();
        }
        {
            let mut recent = self.board.recent.lock();
            if recent.len() >= RECENT {
                recent.remove(0);
            }
            recent.push(snapshot.clone());
        }
        // From here on, only the guard of the commit holds the snapshot.
        drop(tree);
        self.pause().await;
        if self.chance(0.5) {
            let repository = self.repository(self.number, 1);
            let found = match StateTree::open(&repository, id).await {
                Err(Error::NoSuchSnapshot(_)) => Err(Error::NoSuchSnapshot(id)),
                tree => self.check(&tree?, &snapshot.files, 3).await,
            };
            found?;
        }
        drop(committed);
        Ok(())
    }

    /// Puts the objects of a commit that are not stored, and commits the others
    /// without a word about them.
    async fn put_ahead(&mut self, store: &dyn Store, commit: &mut Commit) -> Result<Writer, Error> {
        let writer = store.writing(TENANT).await?;
        let keys: Vec<_> = commit.objects.iter().map(|object| object.key).collect();
        let found = store.contains(TENANT, &keys).await?;
        let objects = std::mem::take(&mut commit.objects).into_iter().zip(found);
        let missing = objects
            .filter(|(_, found)| !found)
            .map(|(object, _)| object);
        let millis = self.random.random_range(0..1000);
        if self.chance(0.5) {
            sleep(Duration::from_millis(millis)).await;
        }
        store.put(TENANT, &writer, missing.collect()).await?;
        commit.after.push(writer.id());
        Ok(writer)
    }

    /// A snapshot is gone. It must not be that of the ref.
    async fn look_at_head(&mut self, gone: SnapshotId) -> Step {
        self.settle().await?;
        match self.head.as_ref().is_some_and(|head| head.id == gone) {
            true => Err(Error::NoSuchSnapshot(gone)),
            false => Ok(()),
        }
    }

    /// Finds out which snapshot the ref has.
    async fn settle(&mut self) -> Step {
        let found = self.stores[0].reference(TENANT, &self.name()).await?;
        if found == self.head.as_ref().map(|head| head.id) {
            return Ok(());
        }
        let place = self.perhaps.iter().position(|one| Some(one.id) == found);
        let place = place.expect("a value that this worker has committed");
        self.head = Some(self.perhaps.swap_remove(place));
        self.perhaps.clear();
        Ok(())
    }

    /// Reads everything that the ref has, through another store.
    async fn read_head(&mut self) -> Step {
        self.settle().await?;
        let Some(head) = self.head.clone() else {
            return Ok(());
        };
        let store = self.random.random_range(0..STORES);
        let repository = self.repository(store, 1);
        let tree = match StateTree::open(&repository, head.id).await {
            Err(Error::NoSuchSnapshot(_)) => return self.look_at_head(head.id).await,
            tree => tree?,
        };
        self.check(&tree, &head.files, head.files.len()).await
    }

    async fn check(&mut self, tree: &StateTree, files: &Files, count: usize) -> Step {
        let skipped = files.len().saturating_sub(count);
        for (name, which) in files.iter().skip(skipped) {
            let read = tree.read(&path(name)).await?;
            assert_eq!(read, content(*which), "{name}");
        }
        Ok(())
    }

    /// Collects until all end.
    pub(super) async fn collect(mut self) {
        while !self.board.is_over() {
            let scope = match self.chance(0.5) {
                true => GcScope::Young,
                false => GcScope::Full,
            };
            match self.collect_once(scope).await {
                Err(Error::Store(StoreError::Refused(_))) | Ok(()) => {}
                Err(error) if is_cut(&error) => {}
                Err(error) => self.board.found(format!("collection: {error:?}")),
            }
            self.pause().await;
        }
    }

    async fn collect_once(&mut self, scope: GcScope) -> Step {
        let options = GcOptions {
            scope,
            dry_run: false,
            keep_recent: None,
        };
        let progress = GcProgress::default();
        // Not the first one, which may not hear of the opening soon.
        let store = 1;
        let repository = self.repository(store, 1 << 20);
        let mut run = GcRun::begin(&repository, &options, &progress).await?;
        while run.older_writers().await? > 0 {
            if self.board.is_over() {
                return Ok(());
            }
            sleep(Duration::from_millis(10)).await;
        }
        run.references().await?;
        let report = run.finish().await?;
        self.board.collections.fetch_add(1, Ordering::Relaxed);
        let removed = report.objects_removed + report.snapshots_removed;
        self.board.removed.fetch_add(removed, Ordering::Relaxed);
        Ok(())
    }
}
