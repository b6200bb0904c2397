use std::sync::Arc;

use bytes::Bytes;

use crate::hash::Hash;
use crate::node::{Child, Item, MAX_ITEMS, MIN_ITEMS, Node, Totals, is_boundary};

/// Builds a tree from its leaf items in order, or from leaf items and whole
/// subtrees of an older tree, holding one open node per level.
///
/// The result depends on the sequence of leaf items alone, not on how they
/// were fed: that is what makes an edited tree equal to one built anew.
#[derive(Debug)]
pub struct TreeBuilder<I: Item> {
    leaves: Vec<I>,
    /// Children of the open index nodes; `indexes[h - 1]` is at height `h`. The
    /// highest is never empty: closing a node opens the one above it.
    indexes: Vec<Vec<Child<I>>>,
    finished: Vec<NewNode<I>>,
}

/// A node the builder made.
#[derive(Clone, Debug)]
pub struct NewNode<I: Item> {
    /// Its hash, of kind `I::KIND`.
    pub hash: Hash,
    /// Its encoding.
    pub data: Bytes,
    /// The same, taken apart.
    pub node: Arc<Node<I>>,
}

/// The root of a finished tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The root node.
    pub hash: Hash,
    /// Its height.
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
    /// A builder that has been fed nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for leaf items that are about to come.
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

    /// Whether a subtree of `height` may come next by reference: nothing may
    /// be open at its own level or below.
    pub fn is_aligned(&self, height: u8) -> bool {
        self.leaves.is_empty() && self.indexes.iter().take(height.into()).all(Vec::is_empty)
    }

    /// Appends all leaf items of a node of an older tree, by reference.
    ///
    /// Legal only where [`Self::is_aligned`], and for a node that was not the
    /// last of its level, or that no further item will follow. The last node
    /// of a level, and those below along its end, stopped for want of items:
    /// were something to follow, they would have to take it in.
    pub fn push_subtree(&mut self, child: Child<I>, height: u8) {
        debug_assert!(self.is_aligned(height));
        self.push_child(child, height + 1);
    }

    /// Appends the item of a run `count` times, at the cost of a few nodes: as
    /// [`Self::push`] would, only sooner.
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

    /// Appends the items of a leaf of an older tree, of which some were
    /// replaced by others of the same keys: it ends where it ended.
    ///
    /// For trees sorted by keys, and legal where [`Self::push_subtree`] is.
    pub fn push_leaf(&mut self, items: Vec<I>) {
        debug_assert!(self.is_aligned(0));
        self.leaves = items;
        self.close_leaf();
    }

    /// Nodes made since the last call, each after those it refers to. Take
    /// them now and then, or the builder holds the whole tree.
    pub fn take_finished(&mut self) -> Vec<NewNode<I>> {
        std::mem::take(&mut self.finished)
    }

    /// How many nodes wait to be taken.
    pub fn finished_len(&self) -> usize {
        self.finished.len()
    }

    /// Closes what is open and returns the root, `None` for an empty tree.
    ///
    /// The root may be a node that came in whole by [`Self::push_subtree`] and
    /// has a single child; whoever did that must step down to that child.
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

/// One item over and over, in a tree whose items have no keys: for each height
/// the node that holds nothing else.
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
    /// Runs of this item, with nodes for up to `most` of it.
    pub fn new(item: I, most: u64) -> Self {
        let mut run = Self {
            item,
            nodes: Vec::new(),
        };
        // The next height may hold as many again as a node can.
        while let Some(node) = run.next_node()
            && node.child.totals.items <= most
        {
            run.nodes.push(node);
        }
        run
    }

    /// The first node of the next height that closes.
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

    /// The item.
    pub const fn item(&self) -> &I {
        &self.item
    }

    /// Whether a node of some height holds nothing else.
    pub fn is_node(&self, height: u8, hash: &Hash) -> bool {
        let node = self.nodes.get(usize::from(height));
        node.is_some_and(|node| node.child.hash == *hash)
    }
}

const fn ends_node(length: usize, boundary: bool) -> bool {
    length >= MAX_ITEMS || (boundary && length >= MIN_ITEMS)
}
