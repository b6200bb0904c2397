//! Clients that commit, fork and read concurrently.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use elevo_core::TreePath;
use elevo_engine::{
    Commit, CommitInfo, Error, Expected, ReferenceUpdate, Repository, Result, StateTree, StoreError,
};
use elevo_objects::SnapshotId;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

use super::executor::{Sim, timestamp};
use super::model::{Files, Model, Move, Needed};
use super::processes::Processes;
use super::{SHARED, Settings, TENANT};

/// Number of refs that only one client uses.
const OWN: usize = 3;

#[derive(Clone)]
pub struct Client {
    pub sim: Sim,
    pub settings: Settings,
    pub model: Rc<RefCell<Model>>,
    pub processes: Processes,
    pub number: usize,
    /// Number of clients that are still working.
    pub working: Rc<Cell<usize>>,
}

/// A tree that a client works on, its expected content, and its last commit.
pub struct Work {
    pub tree: StateTree,
    pub files: Files,
    pub at: Option<(usize, SnapshotId)>,
    /// Whether the tree protects the commit `at` from garbage collection.
    pub holds: bool,
}

/// Target of a commit.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    Unnamed,
    /// A ref that points to the last commit of the work.
    Next(&'a str),
    /// The same, and the new commit has no parent, so that the history is
    /// dropped.
    Alone(&'a str),
    /// A ref that does not exist.
    New(&'a str),
}

/// Whether an error was injected into the storage, or follows from the loss of a
/// process. Any other error is a defect.
pub fn is_injected(error: &Error) -> bool {
    let Error::Store(error) = error else {
        return false;
    };
    matches!(
        error,
        StoreError::Storage(_) | StoreError::Unavailable(_) | StoreError::Lost
    )
}

impl Client {
    /// Runs a number of random actions.
    pub async fn work(self) {
        for _ in 0..self.settings.actions {
            let builds = self.settings.builds > 0.0 && self.sim.chance(self.settings.builds);
            let action = if builds { 100 } else { self.sim.below(100) };
            self.sim.note("action", (self.number, action));
            let done = match action {
                100 => self.build_on_unnamed().await,
                0..25 => self.commit_to_shared().await,
                25..45 => self.commit_to_own().await,
                45..65 => self.fork().await,
                65..80 => self.read().await,
                80..85 => self.read_unnamed().await,
                85..95 => self.remove_own().await,
                _ => self.remove_root().await,
            };
            match done {
                Err(error) if !is_injected(&error) => panic!("action {action}: {error:?}"),
                _ => self.pause().await,
            }
        }
        self.working.set(self.working.get() - 1);
    }

    pub async fn pause(&self) {
        let micros = self.sim.random(|random| match random.random_range(0..10) {
            0..6 => 0,
            6..9 => random.random_range(0..2000),
            _ => random.random_range(0..60_000),
        });
        self.sim.delay(micros).await;
    }

    pub fn repository(&self) -> Repository {
        self.processes.pick(&self.sim).1
    }

    pub fn own(&self) -> String {
        format!("own{}-{}", self.number, self.sim.below(OWN))
    }

    async fn commit_to_shared(&self) -> Result<()> {
        let Some(mut work) = self.open(SHARED).await? else {
            return Ok(());
        };
        for _ in 0..=self.sim.below(2) {
            self.edit(&mut work).await?;
            self.pause().await;
            if !self.commit(&mut work, Target::Next(SHARED)).await? {
                break;
            }
        }
        Ok(())
    }

    async fn commit_to_own(&self) -> Result<()> {
        let name = self.own();
        let Some(mut work) = self.open(&name).await? else {
            return Ok(());
        };
        for _ in 0..=self.sim.below(3) {
            self.edit(&mut work).await?;
            self.pause().await;
            let target = if self.sim.chance(0.3) {
                Target::Alone(&name)
            } else {
                Target::Next(&name)
            };
            assert!(self.commit(&mut work, target).await?, "{name} has moved");
        }
        Ok(())
    }

    /// Forks the tree of another ref, and works without a ref for a while.
    async fn fork(&self) -> Result<()> {
        let names: Vec<_> = self.model.borrow().references.keys().cloned().collect();
        let Some(name) = self.sim.pick(&names) else {
            return Ok(());
        };
        let Some(original) = self.open(&name).await? else {
            return Ok(());
        };
        let mut work = Work {
            tree: original.tree.clone(),
            files: original.files.clone(),
            at: original.at,
            holds: true,
        };
        self.edit(&mut work).await?;
        let mut diff = original.tree.diff(&work.tree).await?;
        drop(original);
        self.pause().await;
        for _ in 0..=self.sim.below(2) {
            self.commit(&mut work, Target::Unnamed).await?;
            self.pause().await;
            self.become_root(&work).await?;
            self.edit(&mut work).await?;
        }
        while diff.next().await?.is_some() {}
        self.assert_holds(&work.tree, &work.files, 3).await?;
        let own = self.own();
        if self.is_absent(&own) {
            let made = self.commit(&mut work, Target::New(&own)).await?;
            assert!(made, "{own} is not there");
        }
        Ok(())
    }

    pub fn is_absent(&self, name: &str) -> bool {
        let model = self.model.borrow();
        let reference = model.references.get(name);
        reference.is_none_or(|reference| reference.settled() == Some(None))
    }

    /// Makes the catalog refer to a snapshot, while it is held.
    async fn become_root(&self, work: &Work) -> Result<()> {
        if self.sim.chance(0.7) {
            return Ok(());
        }
        let Some((attempt, id)) = work.at else {
            return Ok(());
        };
        let (process, repository) = self.processes.pick(&self.sim);
        let held = match repository.hold(id).await {
            Err(Error::NoSuchSnapshot(_)) => return Ok(()),
            held => held?,
        };
        self.pause().await;
        // The catalog refuses the changes of a lost process, too.
        if process.is_lost() {
            return Ok(());
        }
        self.sim.note("root", attempt);
        self.model.borrow_mut().roots.insert(attempt);
        drop(held);
        Ok(())
    }

    async fn remove_root(&self) -> Result<()> {
        let roots: Vec<_> = self.model.borrow().roots.iter().copied().collect();
        if let Some(attempt) = self.sim.pick(&roots) {
            self.model.borrow_mut().roots.remove(&attempt);
        }
        Ok(())
    }

    /// Reads a commit that a ref or the catalog keeps.
    async fn read(&self) -> Result<()> {
        let (needed, roots) = {
            let model = self.model.borrow();
            let roots: Vec<_> = model.roots.iter().copied().collect();
            (model.needed(), roots)
        };
        let needed = self.sim.pick(&needed);
        let root = self.sim.pick(&roots).filter(|_| self.sim.chance(0.3));
        let Some(attempt) = root.or(needed.as_ref().map(|needed| needed.attempt)) else {
            return Ok(());
        };
        let must_be_there = |model: &Model| match (root, &needed) {
            (Some(root), _) => model.roots.contains(&root),
            (None, Some(needed)) => model.is_needed(needed),
            (None, None) => false,
        };
        self.read_attempt(attempt, must_be_there).await
    }

    async fn read_unnamed(&self) -> Result<()> {
        let Some(keep) = self.settings.keep else {
            return Ok(());
        };
        let unnamed = self.model.borrow().unnamed.clone();
        let Some(attempt) = self.sim.pick(&unnamed) else {
            return Ok(());
        };
        let is_young = |model: &Model| model.attempts[attempt].created + keep >= self.sim.now();
        self.read_attempt(attempt, is_young).await
    }

    async fn read_attempt(
        &self,
        attempt: usize,
        must_be_there: impl Fn(&Model) -> bool,
    ) -> Result<()> {
        let (id, files) = {
            let attempt = &self.model.borrow().attempts[attempt];
            (attempt.id, attempt.files.clone())
        };
        let Some(id) = id else { return Ok(()) };
        match StateTree::open(&self.repository(), id).await {
            Err(Error::NoSuchSnapshot(_)) => {
                let model = self.model.borrow();
                assert!(!must_be_there(&model), "commit {attempt} is gone");
                Ok(())
            }
            tree => {
                let tree = tree?;
                self.pause().await;
                self.assert_holds(&tree, &files, 4).await
            }
        }
    }

    async fn remove_own(&self) -> Result<()> {
        let name = self.own();
        let (from, id) = {
            let model = self.model.borrow();
            let reference = model.references.get(&name);
            let Some(from) = reference.and_then(|found| found.settled()).flatten() else {
                return Ok(());
            };
            (from, model.attempts[from].id.expect("it was acknowledged"))
        };
        let step = Move::new(Some(from), None, true);
        self.model.borrow_mut().begin(&name, step);
        let update = ReferenceUpdate {
            name: name.clone(),
            expected: Expected::At(id),
            target: None,
        };
        let commit = Commit {
            references: vec![update],
            ..Commit::default()
        };
        let done = self.repository().store().commit(TENANT, commit).await;
        self.model.borrow_mut().end(&name, None, done.is_ok());
        done?;
        Ok(())
    }

    /// Opens the tree of a ref, or an empty one; `None` if the ref was deleted
    /// between two calls.
    pub async fn open(&self, name: &str) -> Result<Option<Work>> {
        let repository = self.repository();
        let watched = self.model.borrow().watch(name, 0);
        let found = repository.store().reference(TENANT, name).await?;
        let Some(id) = found else {
            return Ok(Some(Work {
                tree: StateTree::empty(&repository),
                files: Files::default(),
                at: None,
                holds: true,
            }));
        };
        let tree = match StateTree::open(&repository, id).await {
            Err(Error::NoSuchSnapshot(_)) => {
                self.assert_was_dropped(&watched);
                return Ok(None);
            }
            tree => tree?,
        };
        let attempt = number_of(&repository.snapshot(id).await?.message);
        let files = self.model.borrow().attempts[attempt].files.clone();
        Ok(Some(Work {
            tree,
            files,
            at: Some((attempt, id)),
            holds: true,
        }))
    }

    fn assert_was_dropped(&self, watched: &Needed) {
        let is_needed = self.model.borrow().is_needed(watched);
        assert!(!is_needed, "what {} points to is gone", watched.name);
    }

    /// Commits; false if the ref has moved.
    pub async fn commit(&self, work: &mut Work, target: Target<'_>) -> Result<bool> {
        let created = self.sim.now();
        let at = work.at.map(|(attempt, _)| attempt);
        let number = {
            let mut model = self.model.borrow_mut();
            let before = match (target, at) {
                (Target::Next(_), Some(at)) => model.attempts[at].history.clone(),
                // Only the commit itself is held: its ancestors may have been
                // collected by now.
                (Target::New(_), Some(at)) if work.holds => vec![at],
                _ => Vec::new(),
            };
            model.attempt(work.files.clone(), &before, created)
        };
        let (name, from, drops) = match target {
            Target::Unnamed => (None, None, false),
            Target::Next(name) => (Some(name), work.at, false),
            Target::Alone(name) => (Some(name), work.at, true),
            Target::New(name) => (Some(name), None, false),
        };
        if let Some(name) = name {
            let step = Move::new(from.map(|(from, _)| from), Some(number), drops);
            self.model.borrow_mut().begin(name, step);
        }
        let expected = from.map_or(Expected::Absent, |(_, id)| Expected::At(id));
        let parent = work.at.map(|(_, id)| id);
        let info = CommitInfo {
            parents: parent.filter(|_| !drops).into_iter().collect(),
            author: "client".into(),
            message: number.to_string(),
            created: timestamp(created),
            labels: BTreeMap::new(),
            reference: name.map(|name| (name.into(), expected)),
        };
        // Some commits are staged, as in a server that stores several snapshots
        // together.
        let is_staged = self.sim.chance(0.3);
        let done = if is_staged {
            self.commit_staged(&work.tree, info).await
        } else {
            work.tree.commit(info).await
        };
        self.note_commit(number, name, &done);
        match done {
            Ok(id) => {
                work.at = Some((number, id));
                work.holds = !is_staged;
                Ok(true)
            }
            Err(Error::Store(StoreError::ReferenceMoved { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn commit_staged(&self, tree: &StateTree, info: CommitInfo) -> Result<SnapshotId> {
        let (id, commit) = tree.staged(info).await?;
        tree.repository().store().commit(TENANT, commit).await?;
        Ok(id)
    }

    /// Records the result of a commit. After an error, nothing of it has
    /// happened.
    fn note_commit(&self, number: usize, name: Option<&str>, done: &Result<SnapshotId>) {
        let mut model = self.model.borrow_mut();
        if let Ok(id) = done {
            model.attempts[number].id = Some(*id);
        }
        match name {
            Some(name) => model.end(name, Some(number), done.is_ok()),
            None if done.is_ok() => model.unnamed.push(number),
            None => {}
        }
        self.sim.note("acknowledged", (number, done.is_ok()));
    }

    /// Checks some files of a tree.
    async fn assert_holds(&self, tree: &StateTree, files: &Files, count: usize) -> Result<()> {
        let names: Vec<_> = files.files.keys().cloned().collect();
        for _ in 0..count {
            let Some(name) = self.sim.pick(&names) else {
                break;
            };
            self.pause().await;
            let read = tree.read(&path(&name)).await?;
            assert!(read == files.files[&name].bytes, "{name} has other bytes");
        }
        Ok(())
    }
}

pub fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("a path")
}

pub fn number_of(message: &str) -> usize {
    message.parse().expect("a commit of the simulation")
}

/// Returns bytes derived from `which`.
pub fn bytes(which: u64, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    SmallRng::seed_from_u64(which).fill_bytes(&mut bytes);
    bytes.into()
}
