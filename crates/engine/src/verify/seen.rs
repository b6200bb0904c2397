//! Objects that a walk has examined, within a limit of memory.

use std::collections::{HashMap, HashSet};

use elevo_objects::{Hash, ObjectKey};

use super::pages::number;

/// Maximum bytes of an entry, including spare capacity.
const ENTRY: usize = 48;

/// Objects that need not be examined again, up to a limit of memory: those that
/// were added or found lately. Forgetting one only costs time.
#[derive(Debug)]
pub(crate) struct Seen {
    /// When this is full, it takes the place of `older`.
    newer: HashSet<u128>,
    older: HashSet<u128>,
    most: usize,
}

impl Seen {
    pub(crate) fn within(bytes: usize) -> Self {
        Self {
            newer: HashSet::new(),
            older: HashSet::new(),
            most: bytes / ENTRY / 2,
        }
    }

    pub(crate) fn add(&mut self, key: ObjectKey) {
        self.add_half(number(key.hash));
    }

    fn add_half(&mut self, half: u128) {
        if self.most == 0 {
            return;
        }
        if self.newer.len() >= self.most {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(half);
    }

    pub(crate) fn has(&mut self, key: ObjectKey) -> bool {
        let half = number(key.hash);
        if self.newer.contains(&half) {
            return true;
        }
        let is_older = self.older.contains(&half);
        if is_older {
            self.add_half(half);
        }
        is_older
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

#[cfg(test)]
mod tests {
    use elevo_objects::Kind;

    use super::*;

    #[test]
    fn objects_that_are_found_again_are_remembered() {
        let key = |n: u32| Kind::Chunk.key(&n.to_le_bytes());
        let mut seen = Seen::within(20 * ENTRY);
        for n in 0..1000 {
            seen.add(key(n));
            assert!(seen.has(key(n)));
            assert!(seen.has(key(0)), "{n}");
        }
        assert!(!seen.has(key(1)));
        assert!(seen.newer.len() + seen.older.len() <= 20);
    }

    #[test]
    fn without_memory_nothing_is_remembered() {
        let key = Kind::Chunk.key(b"a");
        let mut seen = Seen::within(0);
        seen.add(key);
        assert!(!seen.has(key));
    }
}
