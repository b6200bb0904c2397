//! A simple model of trees for tests, and merges of such trees.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_engine::{
    Attributes, CommitInfo, DEFAULT_CACHE_BYTES, EntryKind, MemoryStore, Repository, StateTree,
    Store,
};
use elevo_merge::{Drivers, LaterFirst, Limits, Rules, Sides, TreeMerge, merge_trees};
use elevo_objects::{Mode, Snapshot};
use elevo_policy::Policy;

/// The entry at a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Directory(u32),
    File(u32, Vec<u8>),
    Link(Vec<u8>),
}

/// A tree as a map of all its paths.
pub(crate) type Model = BTreeMap<String, Node>;

/// Polls a future until it is ready. The stores of these tests are in memory,
/// so this takes little time.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return done;
        }
    }
}

pub(crate) fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("a path")
}

/// A repository in memory.
pub(crate) struct World {
    pub(crate) repository: Repository,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::over(Arc::new(MemoryStore::default()))
    }

    pub(crate) fn over(store: Arc<dyn Store>) -> Self {
        let tenant = TenantId::LOCAL;
        Self {
            repository: Repository::new(store, tenant, DEFAULT_CACHE_BYTES),
        }
    }

    /// A tree that is not stored.
    pub(crate) fn unsaved(&self, model: &Model) -> StateTree {
        let tree = StateTree::empty(&self.repository);
        put_all(&tree, model);
        tree
    }

    pub(crate) fn snapshot(&self, model: &Model) -> Snapshot {
        self.save(&self.unsaved(model))
    }

    pub(crate) fn save(&self, tree: &StateTree) -> Snapshot {
        let id = now(tree.commit(info())).expect("a commit");
        now(self.repository.snapshot(id)).expect("a snapshot")
    }
}

fn put_all(tree: &StateTree, model: &Model) {
    for (at, node) in model {
        let at = path(at);
        match node {
            Node::Directory(mode) => now(tree.make_directory(&at, Mode::from_bits(*mode))),
            Node::File(mode, bytes) => {
                let attributes = Attributes {
                    mode: Some(Mode::from_bits(*mode)),
                    modified: None,
                };
                now(tree.write(&at, bytes.clone().into(), attributes))
            }
            Node::Link(target) => now(tree.symlink(&at, target.clone().into())),
        }
        .expect("a model is a tree");
    }
}

fn info() -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: "test".into(),
        message: String::new(),
        created: Timestamp::new(0, 0).expect("a time"),
        labels: BTreeMap::new(),
        reference: None,
    }
}

/// The content of a tree.
pub(crate) fn model_of(tree: &StateTree) -> Model {
    let mut model = Model::new();
    let mut open = vec![String::new()];
    while let Some(directory) = open.pop() {
        let listed = now(tree.list(&path(&directory), None, usize::MAX)).expect("a directory");
        for (name, stat) in listed {
            let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
            let at = match directory.as_str() {
                "" => name,
                above => format!("{above}/{name}"),
            };
            let node = match stat.kind {
                EntryKind::Directory => {
                    open.push(at.clone());
                    Node::Directory(stat.mode.bits())
                }
                EntryKind::File => {
                    let bytes = now(tree.read(&path(&at))).expect("content is there");
                    Node::File(stat.mode.bits(), bytes.to_vec())
                }
                EntryKind::Link => {
                    Node::Link(now(tree.read_link(&path(&at))).expect("a link").to_vec())
                }
            };
            model.insert(at, node);
        }
    }
    model
}

/// The settings of a merge.
#[derive(Clone, Debug)]
pub(crate) struct How {
    pub(crate) policy: Policy,
    pub(crate) agent: Option<&'static str>,
    pub(crate) careful: bool,
    pub(crate) limits: Limits,
    pub(crate) unsettled: BTreeSet<TreePath>,
}

impl Default for How {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            agent: Some("agent"),
            careful: true,
            limits: Limits::default(),
            unsettled: BTreeSet::new(),
        }
    }
}

impl How {
    pub(crate) fn merge(&self, base: &Snapshot, ours: &StateTree, theirs: &Snapshot) -> TreeMerge {
        self.try_merge(base, ours, theirs).expect("a merge")
    }

    pub(crate) fn try_merge(
        &self,
        base: &Snapshot,
        ours: &StateTree,
        theirs: &Snapshot,
    ) -> elevo_merge::Result<TreeMerge> {
        let policy = self.policy.compile().expect("a policy");
        let rules = Rules {
            view: &policy.for_agent(self.agent),
            policy: &policy,
            decided: false,
            careful: self.careful,
            instead: None,
            precedence: &LaterFirst,
            unsettled: &self.unsettled,
        };
        let sides = Sides { base, ours, theirs };
        now(merge_trees(
            &sides,
            &rules,
            &Drivers::standard(),
            &self.limits,
        ))
    }
}

/// The paths of conflicts.
pub(crate) fn held(merge: &TreeMerge) -> BTreeSet<String> {
    let conflicts = merge.conflicts.iter();
    conflicts
        .map(|conflict| conflict.path.to_string())
        .collect()
}

/// The paths of landed changes.
pub(crate) fn landed(merge: &TreeMerge) -> Vec<String> {
    let landed = merge.landed.iter();
    landed.map(|landed| landed.path.to_string()).collect()
}

pub(crate) fn is_at_or_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
