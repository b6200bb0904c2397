//! Objects that a verification has examined, within a limit of memory.

use std::collections::{HashMap, HashSet};

use elevo_objects::{Hash, ObjectKey};

use super::pages::number;

/// Maximum bytes of an entry, including spare capacity.
const ENTRY: usize = 48;

/// Objects that need not be examined again, up to a limit of memory. Forgetting
/// one only costs time.
#[derive(Debug)]
pub(super) struct Seen {
    halves: HashSet<u128>,
    most: usize,
}

impl Seen {
    pub(super) fn within(bytes: usize) -> Self {
        Self {
            halves: HashSet::new(),
            most: bytes / ENTRY,
        }
    }

    pub(super) fn add(&mut self, key: ObjectKey) {
        if self.halves.len() < self.most {
            self.halves.insert(number(key.hash));
        }
    }

    pub(super) fn has(&self, key: ObjectKey) -> bool {
        self.halves.contains(&number(key.hash))
    }
}

/// Number of damaged paths below each node, for as many nodes as memory allows.
#[derive(Debug)]
pub(super) struct DamageCounts {
    counts: HashMap<Hash, u64>,
    most: usize,
}

impl DamageCounts {
    pub(super) fn within(bytes: usize) -> Self {
        Self {
            counts: HashMap::new(),
            most: bytes / ENTRY / 2,
        }
    }

    pub(super) fn add(&mut self, key: ObjectKey, count: u64) {
        if self.counts.len() < self.most {
            self.counts.insert(key.hash, count);
        }
    }

    pub(super) fn count(&self, key: ObjectKey) -> Option<u64> {
        self.counts.get(&key.hash).copied()
    }

    pub(super) fn clear(&mut self) {
        self.counts.clear();
    }
}
