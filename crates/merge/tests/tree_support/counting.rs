//! A store that counts the objects that are read, and large trees.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{Attributes, MemoryStore, StateTree, Store, StoreLayer, StoreResult};
use elevo_objects::{Content, Entry, Mode, ObjectKey, Snapshot};

use crate::tree_support::{How, World, now, path};

/// Counts the objects that are read.
#[derive(Default)]
pub(crate) struct Counting {
    below: MemoryStore,
    read: AtomicU64,
}

#[async_trait]
impl StoreLayer for Counting {
    fn below(&self) -> &dyn Store {
        &self.below
    }

    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        self.read.fetch_add(keys.len() as u64, Ordering::Relaxed);
        self.below.get(tenant, keys).await
    }
}

/// A file without content, for tests where only names matter.
pub(crate) const EMPTY_FILE: Entry = Entry::File {
    mode: Mode::FILE,
    content: Content::Empty,
};

/// The number of objects that a merge reads in a tree of `side`³ files, in
/// which theirs changed ten files, ours ten others, and both one.
pub(crate) fn objects_read(side: usize) -> u64 {
    let store = Arc::new(Counting::default());
    let world = World::over(store.clone());
    let base = StateTree::empty(&world.repository);
    for outer in 0..side {
        for inner in 0..side {
            for file in 0..side {
                let at = place(outer, inner, file);
                now(base.put(&path(&at), EMPTY_FILE)).expect("a file");
            }
        }
    }
    write(&base, &place(1, 1, 1), "1\n2\n3\n4\n5\n");
    let start = world.save(&base);
    let (ours, theirs) = (base.clone(), base);
    for i in 0..10 {
        write(&theirs, &place(i % side, 2, 2), "theirs");
        write(&ours, &place(i % side, 3, 3), "ours");
    }
    write(&theirs, &place(1, 1, 1), "one\n2\n3\n4\n5\n");
    write(&ours, &place(1, 1, 1), "1\n2\n3\n4\nfive\n");
    let (head, theirs) = (world.save(&ours), world.save(&theirs));
    // A repository with an empty cache.
    let cold = World::over(store.clone());
    store.read.store(0, Ordering::Relaxed);
    let head = StateTree::at(&cold.repository, &head);
    let merge = How::default().merge(&start, &head, &theirs);
    assert_eq!((merge.landed.len(), merge.conflicts.len()), (11, 0));
    store.read.load(Ordering::Relaxed)
}

/// Returns the path of a file. No two directories have equal entries, because
/// equal directories would be read only once.
fn place(outer: usize, inner: usize, file: usize) -> String {
    format!("d{outer:03}/e{inner:03}/f{outer:03}{inner:03}{file:03}")
}

fn write(tree: &StateTree, at: &str, text: &str) {
    let data = Bytes::copy_from_slice(text.as_bytes());
    now(tree.write(&path(at), data, Attributes::default())).expect("a file");
}

/// One directory with this number of files.
pub(crate) fn flat(world: &World, files: usize) -> Snapshot {
    let tree = StateTree::empty(&world.repository);
    for file in 0..files {
        now(tree.put(&path(&format!("big/f{file:07}")), EMPTY_FILE)).expect("a file");
    }
    world.save(&tree)
}
