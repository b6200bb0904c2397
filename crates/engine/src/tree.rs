//! Reads and edits one search tree by its keys: a directory or a time tree.
//! The cost depends on the nodes touched, not on the size of the tree.

use std::collections::VecDeque;
use std::sync::Arc;

use elevo_core::Name;
use elevo_objects::{Child, Hash, Item, Node, Root, TreeBuilder};
use futures::future::BoxFuture;

use crate::error::Result;
use crate::repository::{Repository, TreeItem};
use crate::store::Object;

/// An item of a tree that is sorted by names.
pub(crate) trait NamedItem: TreeItem + Item<Key = Name> {}

impl<I: TreeItem + Item<Key = Name>> NamedItem for I {}

/// Maximum number of nodes read ahead.
pub(crate) const READ_AHEAD: usize = 64;

/// Returns the item called `name`.
pub(crate) async fn find<I: NamedItem>(
    repository: &Repository,
    root: Option<Hash>,
    name: &[u8],
) -> Result<Option<I>> {
    let Some(root) = root else { return Ok(None) };
    let mut node = repository.node::<I>(root).await?;
    loop {
        node = match &*node {
            Node::Leaf(items) => {
                let found = items.binary_search_by(|item| item.key().as_bytes().cmp(name));
                return Ok(found.ok().map(|at| items[at].clone()));
            }
            Node::Index { children, height } => {
                let at = children.partition_point(|child| child.last.as_bytes() < name);
                match children.get(at) {
                    Some(child) => repository.child(child, *height).await?,
                    None => return Ok(None),
                }
            }
        };
    }
}

/// Walks a tree's items in order, a leaf at a time.
pub(crate) struct Cursor<I: TreeItem> {
    repository: Repository,
    /// For each level down to the current position, a node and the next index
    /// in it.
    stack: Vec<(Arc<Node<I>>, usize)>,
    after: Option<Name>,
}

impl<I: NamedItem> Cursor<I> {
    /// Opens a cursor before the first item whose name is greater than `after`.
    pub(crate) async fn open(
        repository: &Repository,
        root: Option<Hash>,
        after: Option<&Name>,
    ) -> Result<Self> {
        let mut cursor = Self {
            repository: repository.clone(),
            stack: Vec::new(),
            after: after.cloned(),
        };
        if let Some(hash) = root {
            let node = repository.node::<I>(hash).await?;
            cursor.enter(node);
        }
        Ok(cursor)
    }

    /// Returns the remaining items of the next leaf; empty at the end.
    pub(crate) async fn next_leaf(&mut self) -> Result<Vec<I>> {
        while let Some((node, at)) = self.stack.pop() {
            match &*node {
                Node::Leaf(items) if at < items.len() => return Ok(items[at..].to_vec()),
                Node::Leaf(_) => {}
                Node::Index { children, height } => {
                    let Some(child) = children.get(at) else {
                        continue;
                    };
                    if *height == 1 && !self.repository.is_cached::<I>(child.hash) {
                        prefetch::<I>(&self.repository, &children[at..]).await?;
                    }
                    let below = self.repository.child(child, *height).await?;
                    self.stack.push((node.clone(), at + 1));
                    self.enter(below);
                }
            }
        }
        Ok(Vec::new())
    }

    fn enter(&mut self, node: Arc<Node<I>>) {
        let after = self.after.as_ref();
        let past = |name: &Name| after.is_some_and(|after| name <= after);
        let at = match &*node {
            Node::Leaf(items) => items.partition_point(|item| past(item.key())),
            Node::Index { children, .. } => children.partition_point(|child| past(&child.last)),
        };
        self.stack.push((node, at));
    }
}

/// The items of a tree, looked up by name in ascending order, once each.
pub(crate) struct AscendingLookup<I: NamedItem> {
    cursor: Cursor<I>,
    ready: VecDeque<I>,
}

impl<I: NamedItem> AscendingLookup<I> {
    /// Opens the items whose names are greater than `after`.
    pub(crate) async fn open(
        repository: &Repository,
        root: Option<Hash>,
        after: Option<&Name>,
    ) -> Result<Self> {
        let cursor = Cursor::open(repository, root, after).await?;
        Ok(Self {
            cursor,
            ready: VecDeque::new(),
        })
    }

    pub(crate) async fn find(&mut self, name: &Name) -> Result<Option<I>> {
        loop {
            if self.ready.is_empty() {
                self.ready = self.cursor.next_leaf().await?.into();
            }
            match self.ready.front() {
                None => return Ok(None),
                Some(item) if item.key() < name => drop(self.ready.pop_front()),
                Some(item) if item.key() == name => return Ok(self.ready.pop_front()),
                Some(_) => return Ok(None),
            }
        }
    }
}

async fn prefetch<I: TreeItem>(repository: &Repository, children: &[Child<I>]) -> Result<()> {
    let hashes: Vec<_> = children
        .iter()
        .take(READ_AHEAD)
        .map(|child| child.hash)
        .collect();
    repository.nodes::<I>(&hashes).await?;
    Ok(())
}

/// Inserts or replaces items (`Some`) and removes items (`None`) by name, in
/// ascending order. Appends new nodes to `objects`. Loads only the nodes that
/// change, and those that join them because a boundary disappeared.
pub(crate) async fn edit<I: NamedItem>(
    repository: &Repository,
    root: Option<Hash>,
    edits: Vec<(Name, Option<I>)>,
    objects: &mut Vec<Object>,
) -> Result<Option<Root>> {
    let mut editor = Editor {
        repository,
        builder: TreeBuilder::new(),
        edits,
        next_edit: 0,
        objects,
        last_made: None,
    };
    if let Some(hash) = root {
        let node = repository.node::<I>(hash).await?;
        editor.merge(node, None).await?;
    }
    editor.push_edits_up_to(None);
    let root = editor.builder.finish();
    editor.collect();
    let last_made = editor.last_made;
    match root {
        Some(root) if Some(root.hash) != last_made => {
            step_down::<I>(repository, root).await.map(Some)
        }
        other => Ok(other),
    }
}

/// Replaces a root that has a single child by that child, until it has several.
pub(crate) async fn step_down<I: TreeItem>(
    repository: &Repository,
    mut root: Root,
) -> Result<Root> {
    while root.height > 0 {
        let node = repository.node::<I>(root.hash).await?;
        match &*node {
            Node::Index { children, .. } if children.len() == 1 => {
                root = Root {
                    hash: children[0].hash,
                    height: root.height - 1,
                    totals: children[0].totals,
                };
            }
            _ => break,
        }
    }
    Ok(root)
}

struct Editor<'a, I: NamedItem> {
    repository: &'a Repository,
    builder: TreeBuilder<I>,
    edits: Vec<(Name, Option<I>)>,
    next_edit: usize,
    objects: &'a mut Vec<Object>,
    last_made: Option<Hash>,
}

impl<I: NamedItem> Editor<'_, I> {
    fn peek(&self) -> Option<&Name> {
        self.edits.get(self.next_edit).map(|(name, _)| name)
    }

    /// Whether an edit falls on a name up to `bound`. The last node of a level
    /// has no bound (`None`): it takes all edits that follow.
    fn has_edit_up_to(&self, bound: Option<&Name>) -> bool {
        self.peek()
            .is_some_and(|name| bound.is_none_or(|bound| name <= bound))
    }

    fn push_edits_up_to(&mut self, bound: Option<&Name>) {
        while self.has_edit_up_to(bound) {
            self.push_edit();
        }
    }

    fn push_edit(&mut self) {
        if let Some(item) = self.edits[self.next_edit].1.take() {
            self.builder.push(item);
        }
        self.next_edit += 1;
    }

    /// Passes the items of `node`, with edits applied, to the builder.
    fn merge<'b>(
        &'b mut self,
        node: Arc<Node<I>>,
        bound: Option<Name>,
    ) -> BoxFuture<'b, Result<()>> {
        Box::pin(async move {
            match &*node {
                Node::Leaf(items) => self.merge_leaf(items, bound.as_ref()),
                Node::Index { children, height } => {
                    self.load_touched(children, bound.as_ref()).await?;
                    for (at, child) in children.iter().enumerate() {
                        let is_last = at + 1 == children.len();
                        let bound = if is_last {
                            bound.clone()
                        } else {
                            Some(child.last.clone())
                        };
                        let untouched = !self.has_edit_up_to(bound.as_ref());
                        if untouched && self.builder.is_aligned(height - 1) {
                            self.builder.push_subtree(child.clone(), height - 1);
                        } else {
                            let node = self.repository.child(child, *height).await?;
                            self.merge(node, bound).await?;
                        }
                        self.collect();
                    }
                }
            }
            Ok(())
        })
    }

    fn merge_leaf(&mut self, items: &[I], bound: Option<&Name>) {
        if self.builder.is_aligned(0)
            && let Some(replaced) = self.replace(items, bound)
        {
            self.builder.push_leaf(replaced);
            return;
        }
        self.builder.reserve(items.len() + 1);
        for item in items {
            while self.peek().is_some_and(|name| name < item.key()) {
                self.push_edit();
            }
            if self.peek() == Some(item.key()) {
                self.push_edit();
            } else {
                self.builder.push(item.clone());
            }
        }
        self.push_edits_up_to(bound);
    }

    /// Returns the items after all edits up to `bound`, if every edit replaces
    /// an item.
    fn replace(&mut self, items: &[I], bound: Option<&Name>) -> Option<Vec<I>> {
        let edits = &self.edits[self.next_edit..];
        let count = edits.partition_point(|(name, _)| bound.is_none_or(|bound| name <= bound));
        let place = |(name, item): &(Name, Option<I>)| {
            item.as_ref()?;
            items.binary_search_by(|item| item.key().cmp(name)).ok()
        };
        let places: Vec<_> = edits[..count].iter().map(place).collect::<Option<_>>()?;
        let mut replaced = items.to_vec();
        for at in places {
            replaced[at] = self.edits[self.next_edit].1.take()?;
            self.next_edit += 1;
        }
        Some(replaced)
    }

    /// Loads in one call the children that edits fall on.
    async fn load_touched(&self, children: &[Child<I>], bound: Option<&Name>) -> Result<()> {
        let mut hashes = Vec::new();
        let mut edits = &self.edits[self.next_edit..];
        for (at, child) in children.iter().enumerate() {
            let bound = if at + 1 == children.len() {
                bound
            } else {
                Some(&child.last)
            };
            let within = edits.partition_point(|(name, _)| bound.is_none_or(|last| name <= last));
            if within > 0 {
                hashes.push(child.hash);
                edits = &edits[within..];
            }
        }
        if hashes.len() > 1 {
            self.repository.nodes::<I>(&hashes).await?;
        }
        Ok(())
    }

    fn collect(&mut self) {
        if self.builder.finished_len() == 0 {
            return;
        }
        let made = self.builder.take_finished();
        self.last_made = made.last().map(|new| new.hash);
        self.objects.extend(self.repository.objects(made));
    }
}
