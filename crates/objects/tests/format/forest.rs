//! Trees in memory, and the engine's way of editing one: unchanged subtrees go
//! into the new tree by reference, the rest item by item.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use elevo_core::Name;
use elevo_objects::{Child, Hash, Item, Node, Root, TreeBuilder};

/// Every node of every tree that a test has built.
pub(crate) struct Forest<I: Item> {
    nodes: HashMap<Hash, Arc<Node<I>>>,
    /// Encoded sizes of the new nodes since the last call of `take_made`.
    made: Vec<usize>,
}

impl<I: Item> Forest<I> {
    pub(crate) fn new() -> Self {
        Self {
            nodes: HashMap::new(),
            made: Vec::new(),
        }
    }

    pub(crate) fn node(&self, hash: Hash) -> &Arc<Node<I>> {
        &self.nodes[&hash]
    }

    /// Takes the encoded sizes of the nodes that are new since the last call.
    pub(crate) fn take_made(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.made)
    }

    /// Keeps the nodes that `builder` created, after checking them.
    pub(crate) fn keep(&mut self, builder: &mut TreeBuilder<I>) {
        for new in builder.take_finished() {
            assert_eq!(Node::decode(&new.data).as_ref(), Ok(&*new.node));
            assert_eq!(I::KIND.hash(&new.data), new.hash);
            assert_eq!(Node::<I>::key(&new.data).hash, new.hash);
            if self.nodes.insert(new.hash, new.node).is_none() {
                self.made.push(new.data.len());
            }
        }
    }

    pub(crate) fn build(&mut self, items: impl IntoIterator<Item = I>) -> Option<Root> {
        let mut builder = TreeBuilder::new();
        for item in items {
            builder.push(item);
        }
        let root = builder.finish();
        self.keep(&mut builder);
        root
    }

    /// Returns the nodes of each level in order, leaves first. Checks every
    /// reference.
    pub(crate) fn levels(&self, root: &Root) -> Vec<Vec<Arc<Node<I>>>> {
        let top = self.node(root.hash);
        assert!(top.is_root());
        assert_eq!((top.height(), top.totals()), (root.height, root.totals));
        let mut levels = vec![vec![Arc::clone(top)]];
        while let Some(level) = levels.last().filter(|level| level[0].height() > 0) {
            let below = level.iter().flat_map(|node| self.children(node)).collect();
            levels.push(below);
        }
        levels.reverse();
        levels
    }

    fn children(&self, node: &Node<I>) -> Vec<Arc<Node<I>>> {
        let Node::Index { height, children } = node else {
            return Vec::new();
        };
        let follow = |child: &Child<I>| {
            let node = self.node(child.hash);
            assert!(child.describes(node, *height));
            Arc::clone(node)
        };
        children.iter().map(follow).collect()
    }

    pub(crate) fn items(&self, root: &Root) -> Vec<I> {
        let leaf_items = |leaf: &Arc<Node<I>>| match &**leaf {
            Node::Leaf(items) => items.clone(),
            Node::Index { .. } => panic!("an index node among the leaves"),
        };
        self.levels(root)[0].iter().flat_map(leaf_items).collect()
    }

    /// Returns the tree of `old` with `edit` applied.
    pub(crate) fn edit(&mut self, old: &Root, edit: &impl Edit<I>) -> Option<Root> {
        let mut builder = TreeBuilder::new();
        let top = Arc::clone(self.node(old.hash));
        let whole = Child {
            last: top.last_key().expect("no node is empty").clone(),
            hash: old.hash,
            totals: old.totals,
        };
        self.feed(&mut builder, &whole, old.height, &Span::whole(), edit);
        let root = builder.finish();
        self.keep(&mut builder);
        root.map(|root| self.step_down(root))
    }

    fn feed(
        &self,
        builder: &mut TreeBuilder<I>,
        child: &Child<I>,
        height: u8,
        span: &Span<I::Key>,
        edit: &impl Edit<I>,
    ) {
        if builder.is_aligned(height) && !edit.touches(span, child) {
            builder.push_subtree(child.clone(), height);
            return;
        }
        match &**self.node(child.hash) {
            Node::Leaf(items) => edit
                .apply(span, items)
                .into_iter()
                .for_each(|i| builder.push(i)),
            Node::Index { children, .. } => {
                let mut span = span.clone();
                let is_last = span.is_last;
                for (index, child) in children.iter().enumerate() {
                    span.is_last = is_last && index + 1 == children.len();
                    self.feed(builder, child, height - 1, &span, edit);
                    span.position += child.totals.items;
                    span.after = Some(child.last.clone());
                }
            }
        }
    }

    /// Replaces a root with a single child by that child, as often as possible.
    /// Such a root remains if a subtree added by reference was the end of a
    /// higher tree.
    fn step_down(&self, mut root: Root) -> Root {
        while let Node::Index { height, children } = &**self.node(root.hash) {
            let [child] = &children[..] else { break };
            root = Root {
                hash: child.hash,
                height: height - 1,
                totals: child.totals,
            };
        }
        root
    }
}

/// Position of a node in a tree.
#[derive(Clone)]
pub(crate) struct Span<K> {
    /// Number of leaf items before it.
    pub(crate) position: u64,
    /// Key of the last of these.
    pub(crate) after: Option<K>,
    /// Whether it is the last node of its level.
    pub(crate) is_last: bool,
}

impl<K> Span<K> {
    fn whole() -> Self {
        Self {
            position: 0,
            after: None,
            is_last: true,
        }
    }
}

/// A change to a tree's items.
pub(crate) trait Edit<I: Item> {
    /// Whether anything changes below `child`, which lies at `span`.
    fn touches(&self, span: &Span<I::Key>, child: &Child<I>) -> bool;
    /// Returns the leaf `items`, which lie at `span`, after the change.
    fn apply(&self, span: &Span<I::Key>, items: &[I]) -> Vec<I>;
}

/// Sets and removes names.
#[derive(Debug)]
pub(crate) struct Changes<I>(pub(crate) BTreeMap<Name, Option<I>>);

impl<I: Item<Key = Name>> Changes<I> {
    fn within<'a>(
        &'a self,
        span: &Span<Name>,
        last: &'a Name,
    ) -> impl Iterator<Item = (&'a Name, &'a Option<I>)> {
        let Span { after, is_last, .. } = span.clone();
        let first = self
            .0
            .iter()
            .skip_while(move |(name, _)| Some(*name) <= after.as_ref());
        first.take_while(move |(name, _)| is_last || *name <= last)
    }

    pub(crate) fn apply_to(&self, items: &mut BTreeMap<Name, I>) {
        for (name, change) in &self.0 {
            match change {
                Some(item) => items.insert(name.clone(), item.clone()),
                None => items.remove(name),
            };
        }
    }
}

impl<I: Item<Key = Name>> Edit<I> for Changes<I> {
    fn touches(&self, span: &Span<Name>, child: &Child<I>) -> bool {
        self.within(span, &child.last).next().is_some()
    }

    fn apply(&self, span: &Span<Name>, items: &[I]) -> Vec<I> {
        let last = items.last().expect("no leaf is empty").key();
        let changes = self
            .within(span, last)
            .map(|(name, item)| (name.clone(), item.clone()));
        let mut edited = items
            .iter()
            .map(|item| (item.key().clone(), item.clone()))
            .collect();
        Changes(changes.collect()).apply_to(&mut edited);
        edited.into_values().collect()
    }
}

/// Replaces the items from `start` to `end` by others.
pub(crate) struct Splice<I> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) with: Vec<I>,
}

impl<I: Item> Edit<I> for Splice<I> {
    fn touches(&self, span: &Span<I::Key>, child: &Child<I>) -> bool {
        let end = span.position + child.totals.items;
        let removes = self.start < end && span.position < self.end;
        let inserts = span.position <= self.start && (self.start < end || span.is_last);
        removes || inserts
    }

    fn apply(&self, span: &Span<I::Key>, items: &[I]) -> Vec<I> {
        let mut edited = Vec::new();
        for (position, item) in (span.position..).zip(items) {
            if position == self.start {
                edited.extend_from_slice(&self.with);
            }
            if !(self.start..self.end).contains(&position) {
                edited.push(item.clone());
            }
        }
        let end = span.position + items.len() as u64;
        if span.is_last && self.start >= end {
            edited.extend_from_slice(&self.with);
        }
        edited
    }
}
