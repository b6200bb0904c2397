//! A plain model of a tree of files, for comparison with the engine.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part of it"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_engine::{CommitInfo, EntryKind, MemoryStore, Repository, StateTree};
use elevo_objects::Mode;
use futures::executor::block_on;

pub const TENANT: TenantId = TenantId::new([7; 16]);

pub fn repository() -> (Arc<MemoryStore>, Repository) {
    let store = Arc::new(MemoryStore::new());
    let repository = Repository::new(store.clone(), TENANT, 1 << 20);
    (store, repository)
}

pub fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

pub fn info(message: &str) -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: "tester".into(),
        message: message.into(),
        created: Timestamp::new(1_700_000_000, 5).unwrap(),
        labels: BTreeMap::new(),
        reference: None,
    }
}

/// Returns bytes derived from `seed`, the same on every run.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    File(Mode, Vec<u8>),
    Directory(Mode),
    Link(Vec<u8>),
}

/// Every path of a tree with its entry.
pub type Model = BTreeMap<TreePath, Thing>;

/// Reads a whole tree through its public interface, listing a few entries at a
/// time.
pub fn read_all(tree: &StateTree) -> Model {
    let mut model = Model::new();
    let mut open = vec![TreePath::root()];
    while let Some(at) = open.pop() {
        let mut after = None;
        loop {
            let page = block_on(tree.list(&at, after.as_ref(), 3)).unwrap();
            for (name, stat) in &page {
                let path = at.join(name).unwrap();
                let thing = match stat.kind {
                    EntryKind::File => {
                        let data = block_on(tree.read(&path)).unwrap();
                        assert_eq!(data.len() as u64, stat.size);
                        Thing::File(stat.mode, data.to_vec())
                    }
                    EntryKind::Link => {
                        Thing::Link(block_on(tree.read_link(&path)).unwrap().to_vec())
                    }
                    EntryKind::Directory => {
                        open.push(path.clone());
                        Thing::Directory(stat.mode)
                    }
                };
                assert!(model.insert(path, thing).is_none(), "listed twice");
            }
            match page.last() {
                Some((name, _)) => after = Some(name.clone()),
                None => break,
            }
        }
    }
    model
}

/// Writes a model into an empty tree, in one go.
pub fn write_all(repository: &Repository, model: &Model) -> StateTree {
    let tree = StateTree::empty(repository);
    for (path, thing) in model {
        block_on(async {
            match thing {
                Thing::File(mode, data) => {
                    let attributes = elevo_engine::Attributes {
                        mode: Some(*mode),
                        modified: None,
                    };
                    tree.write(path, Bytes::from(data.clone()), attributes)
                        .await
                        .unwrap();
                }
                Thing::Directory(mode) => {
                    tree.make_directory(path, *mode).await.unwrap();
                    tree.set_mode(path, *mode).await.unwrap();
                }
                Thing::Link(target) => {
                    tree.symlink(path, Bytes::from(target.clone()))
                        .await
                        .unwrap();
                }
            }
        });
    }
    tree
}
