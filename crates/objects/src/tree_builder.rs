//! Builds trees of nodes.

use std::sync::Arc;

use bytes::Bytes;

use crate::hash::Hash;
use crate::node::{Child, Item, MAX_ITEMS, MIN_ITEMS, Node, Totals, is_boundary};

/// Builds a tree from its leaf items in order, or from leaf items and whole
/// subtrees of an older tree, with one open node per level in memory.
///
/// The result depends only on the sequence of leaf items, not on how they were
/// added: this makes an edited tree equal to one built from scratch.
#[derive(Debug)]
pub struct TreeBuilder<I: Item> {
    leaves: Vec<I>,
    /// Children of the open index nodes; `indexes[h - 1]` is at height `h`. The
    /// highest is never empty: closing a node opens the one above it.
    indexes: Vec<Vec<Child<I>>>,
    finished: Vec<NewNode<I>>,
}

/// A node that the builder created.
#[derive(Clone, Debug)]
pub struct NewNode<I: Item> {
    /// Hash of the node, of kind `I::KIND`.
    pub hash: Hash,
    /// Encoding of the node.
    pub data: Bytes,
    /// The decoded node.
    pub node: Arc<Node<I>>,
}

/// The root of a finished tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Hash of the root node.
    pub hash: Hash,
    /// Height of the root node.
    pub height: u8,
    /// Sums over all leaf items.
    pub totals: Totals,
}

impl<I: Item> Default for TreeBuilder<I> {
    fn default() -> Self {
        Self {
            leaves: Vec::new(),
            indexes: Vec::new(),
            finished: Vec::new(),
        }
    }
}

impl<I: Item> TreeBuilder<I> {
    /// Creates an empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reserves memory for this many leaf items.
    pub fn reserve(&mut self, items: usize) {
        self.leaves.reserve(items.min(MAX_ITEMS));
    }

    /// Appends the next leaf item. Items come in the order of their keys.
    pub fn push(&mut self, item: I) {
        let boundary = is_boundary(item.spread(), 0);
        self.leaves.push(item);
        if ends_node(self.leaves.len(), boundary) {
            self.close_leaf();
        }
    }

    /// Whether a subtree of `height` may come next by reference: no node may be
    /// open at its level or below.
    pub fn is_aligned(&self, height: u8) -> bool {
        self.leaves.is_empty() && self.indexes.iter().take(height.into()).all(Vec::is_empty)
    }

    /// Appends all leaf items of a node of an older tree, by reference.
    ///
    /// Legal only where [`Self::is_aligned`], and for a node that was not the
    /// last of its level, or after which no item follows. The last node of a
    /// level, and the last nodes below it, ended because there were no more
    /// items: a further item would belong to these nodes.
    pub fn push_subtree(&mut self, child: Child<I>, height: u8) {
        debug_assert!(self.is_aligned(height));
        self.push_child(child, height + 1);
    }

    /// Appends the item of a run `count` times, at the cost of a few nodes. The
    /// result is that of [`Self::push`].
    pub fn push_run(&mut self, run: &Run<I>, mut count: u64) {
        let mut made = 0;
        while count > 0 {
            let fits = run.nodes.iter().enumerate().rev().find(|(height, node)| {
                node.child.totals.items <= count && self.is_aligned(*height as u8)
            });
            let Some((height, node)) = fits else {
                self.push(run.item.clone());
                count -= 1;
                continue;
            };
            while made <= height {
                self.finished.push(run.nodes[made].new.clone());
                made += 1;
            }
            count -= node.child.totals.items;
            self.push_subtree(node.child.clone(), height as u8);
        }
    }

    /// Appends the items of a leaf of an older tree in which some items were
    /// replaced by others with the same keys, so that it ends at the same key.
    ///
    /// Only for trees sorted by keys, and legal where [`Self::push_subtree`]
    /// is.
    pub fn push_leaf(&mut self, items: Vec<I>) {
        debug_assert!(self.is_aligned(0));
        self.leaves = items;
        self.close_leaf();
    }

    /// Takes the nodes created since the last call, each after those it refers
    /// to. Call this regularly, or the builder holds the whole tree.
    pub fn take_finished(&mut self) -> Vec<NewNode<I>> {
        std::mem::take(&mut self.finished)
    }

    /// Number of nodes that were not taken yet.
    pub fn finished_len(&self) -> usize {
        self.finished.len()
    }

    /// Closes the open nodes and returns the root, `None` for an empty tree.
    ///
    /// The root may be a node with a single child that was added by
    /// [`Self::push_subtree`]; the caller must then replace it by that child.
    pub fn finish(&mut self) -> Option<Root> {
        if !self.leaves.is_empty() {
            self.close_leaf();
        }
        let mut height = 1;
        loop {
            let is_top = self.indexes.len() == usize::from(height);
            let open = self.indexes.get_mut(usize::from(height) - 1)?;
            if is_top && open.len() == 1 {
                let child = open.pop()?;
                self.indexes.clear();
                return Some(Root {
                    hash: child.hash,
                    height: height - 1,
                    totals: child.totals,
                });
            }
            if !open.is_empty() {
                self.close_index(height);
            }
            height += 1;
        }
    }

    fn close_leaf(&mut self) {
        let items = std::mem::take(&mut self.leaves);
        let Some(last) = items.last().map(|item| item.key().clone()) else {
            return;
        };
        self.emit(Node::Leaf(items), last);
    }

    fn close_index(&mut self, height: u8) {
        let children = std::mem::take(&mut self.indexes[usize::from(height) - 1]);
        let Some(last) = children.last().map(|child| child.last.clone()) else {
            return;
        };
        self.emit(Node::Index { height, children }, last);
    }

    fn emit(&mut self, node: Node<I>, last: I::Key) {
        let data = node.encode();
        debug_assert!(
            Node::decode(&data).as_ref() == Ok(&node),
            "fed out of order or with items that cannot be: {node:?}"
        );
        let hash = I::KIND.hash(&data);
        let (height, totals) = (node.height(), node.totals());
        self.finished.push(NewNode {
            hash,
            data,
            node: Arc::new(node),
        });
        self.push_child(Child { last, hash, totals }, height + 1);
    }

    fn push_child(&mut self, child: Child<I>, height: u8) {
        while self.indexes.len() < usize::from(height) {
            self.indexes.push(Vec::new());
        }
        let boundary = is_boundary(I::child_spread(&child.last, &child.hash), height);
        let open = &mut self.indexes[usize::from(height) - 1];
        open.push(child);
        if ends_node(open.len(), boundary) {
            self.close_index(height);
        }
    }
}

/// A repeated item in a tree whose items have no keys: for each height, the
/// node that contains only this item.
#[derive(Clone, Debug)]
pub struct Run<I: Item> {
    item: I,
    nodes: Vec<RunNode<I>>,
}

#[derive(Clone, Debug)]
struct RunNode<I: Item> {
    child: Child<I>,
    new: NewNode<I>,
}

impl<I: Item<Key = ()>> Run<I> {
    /// Creates a run of this item, with nodes for up to `most` repetitions.
    pub fn new(item: I, most: u64) -> Self {
        let mut run = Self {
            item,
            nodes: Vec::new(),
        };
        // A node of the next height may have many times as many items.
        while let Some(node) = run.next_node()
            && node.child.totals.items <= most
        {
            run.nodes.push(node);
        }
        run
    }

    /// Returns the first node of the next height.
    fn next_node(&self) -> Option<RunNode<I>> {
        let mut builder = TreeBuilder::new();
        while builder.finished.is_empty() {
            match self.nodes.last() {
                None => builder.push(self.item.clone()),
                Some(node) => builder.push_subtree(node.child.clone(), self.nodes.len() as u8 - 1),
            }
        }
        let new = builder.finished.pop()?;
        let child = builder.indexes.pop()?.pop()?;
        Some(RunNode { child, new })
    }

    /// The repeated item.
    pub const fn item(&self) -> &I {
        &self.item
    }

    /// Whether `hash` is the node of this height that contains only this item.
    pub fn is_node(&self, height: u8, hash: &Hash) -> bool {
        let node = self.nodes.get(usize::from(height));
        node.is_some_and(|node| node.child.hash == *hash)
    }
}

const fn ends_node(length: usize, boundary: bool) -> bool {
    length >= MAX_ITEMS || (boundary && length >= MIN_ITEMS)
}
