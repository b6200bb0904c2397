//! The expected content of the store in plain maps, derived from the results
//! that clients got.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use elevo_core::Timestamp;
use elevo_objects::SnapshotId;

/// Content of a tree.
#[derive(Clone, Debug, Default)]
pub struct Files {
    pub files: BTreeMap<String, File>,
    pub directories: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub bytes: Bytes,
    pub modified: Option<Timestamp>,
}

impl Files {
    pub fn write(&mut self, path: &str, file: File) {
        for (at, _) in path.match_indices('/') {
            self.directories.insert(path[..at].into());
        }
        self.files.insert(path.into(), file);
    }

    /// Removes a directory with its content.
    pub fn remove_directory(&mut self, path: &str) {
        let below = format!("{path}/");
        self.files.retain(|name, _| !name.starts_with(&below));
        let is_gone = |name: &String| name == path || name.starts_with(&below);
        self.directories.retain(|name| !is_gone(name));
    }
}

/// An attempted commit. Its number is its message.
#[derive(Debug)]
pub struct Attempt {
    pub files: Files,
    /// The commit itself and the ancestors that a ref to it keeps.
    pub history: Vec<usize>,
    pub created: u64,
    /// Known once it was acknowledged or found.
    pub id: Option<SnapshotId>,
    /// Whether every byte of it was compared.
    pub is_checked: bool,
}

/// A move of a ref.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub from: Option<usize>,
    pub to: Option<usize>,
    /// Whether the move drops the earlier history.
    pub drops: bool,
    is_acknowledged: bool,
}

impl Move {
    pub fn new(from: Option<usize>, to: Option<usize>, drops: bool) -> Self {
        Self {
            from,
            to,
            drops,
            is_acknowledged: false,
        }
    }
}

/// Last known value of a ref, and the moves attempted since.
#[derive(Debug, Default)]
pub struct Reference {
    base: Option<usize>,
    moves: Vec<Move>,
    drops: u64,
}

impl Reference {
    /// Value of the ref, if no move is in progress.
    pub fn settled(&self) -> Option<Option<usize>> {
        self.moves.is_empty().then_some(self.base)
    }

    /// Returns how often the ref has dropped its history; `None` while a move
    /// that drops it is in progress.
    fn era(&self) -> Option<u64> {
        let is_dropping = self.moves.iter().any(|step| step.drops);
        (!is_dropping).then_some(self.drops)
    }

    /// Applies the acknowledged moves.
    fn advance(&mut self) {
        let next = |step: &Move, base| step.is_acknowledged && step.from == base;
        while let Some(at) = self.moves.iter().position(|step| next(step, self.base)) {
            self.base = self.moves.remove(at).to;
        }
    }

    /// Sets the ref to the value that was found. Panics unless the acknowledged
    /// moves lead to this value.
    fn settle(&mut self, name: &str, now: Option<usize>) {
        let mut left = std::mem::take(&mut self.moves);
        let mut at = now;
        while at != self.base || left.iter().any(|step| step.is_acknowledged) {
            let Some(place) = left.iter().position(|step| step.to == at) else {
                panic!(
                    "{name} is at {now:?}, was at {:?} before {left:?}",
                    self.base
                );
            };
            at = left.remove(place).from;
        }
        self.base = now;
    }
}

#[derive(Debug, Default)]
pub struct Model {
    pub attempts: Vec<Attempt>,
    pub references: BTreeMap<String, Reference>,
    /// Commits that are roots because a catalog refers to them, not a ref.
    pub roots: BTreeSet<usize>,
    /// Acknowledged commits that nothing refers to.
    pub unnamed: Vec<usize>,
}

/// A commit that must exist until the ref `name` drops its history.
#[derive(Clone, Debug)]
pub struct Needed {
    pub attempt: usize,
    pub name: String,
    era: Option<u64>,
}

impl Model {
    pub fn attempt(&mut self, files: Files, before: &[usize], created: u64) -> usize {
        let number = self.attempts.len();
        let history = [&[number], before].concat();
        self.attempts.push(Attempt {
            files,
            history,
            created,
            id: None,
            is_checked: false,
        });
        number
    }

    pub fn begin(&mut self, name: &str, step: Move) {
        let reference = self.references.entry(name.into()).or_default();
        reference.drops += u64::from(step.drops);
        reference.moves.push(step);
    }

    pub fn end(&mut self, name: &str, to: Option<usize>, has_happened: bool) {
        let reference = self.references.entry(name.into()).or_default();
        let place = reference.moves.iter().position(|step| step.to == to);
        let place = place.expect("it has begun");
        if has_happened {
            reference.moves[place].is_acknowledged = true;
        } else {
            reference.moves.remove(place);
        }
        reference.advance();
    }

    /// Records the value of a ref after a crash or at the end.
    pub fn settle(&mut self, name: &str, now: Option<usize>) {
        let reference = self.references.entry(name.into()).or_default();
        reference.settle(name, now);
    }

    /// Returns the commit `attempt` as one that the ref `name` keeps from now
    /// on.
    pub fn watch(&self, name: &str, attempt: usize) -> Needed {
        Needed {
            attempt,
            name: name.into(),
            era: self.references.get(name).and_then(Reference::era),
        }
    }

    /// Whether a commit must still exist.
    pub fn is_needed(&self, needed: &Needed) -> bool {
        let reference = self.references.get(&needed.name);
        let era = reference.and_then(Reference::era);
        era.is_some() && era == needed.era
    }

    /// Returns all commits that refs keep.
    pub fn needed(&self) -> Vec<Needed> {
        let mut all = Vec::new();
        for (name, reference) in &self.references {
            if reference.era().is_none() {
                continue;
            }
            let done = reference.moves.iter().filter(|step| step.is_acknowledged);
            for head in done.map(|step| step.to).chain([reference.base]).flatten() {
                let history = self.attempts[head].history.iter();
                all.extend(history.map(|at| self.watch(name, *at)));
            }
        }
        all
    }
}
