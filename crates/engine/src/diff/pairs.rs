//! Walks two search trees side by side.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use elevo_objects::{Child, Hash, Node};

use crate::error::Result;
use crate::repository::Repository;
use crate::tree::{NamedItem, READ_AHEAD};

/// Walks two search trees side by side and stops where they differ, loading
/// only nodes that the other side does not have.
#[derive(Debug)]
pub(crate) struct Pairs<I: NamedItem> {
    roots: Option<(Option<Hash>, Option<Hash>)>,
    before: Side<I>,
    after: Side<I>,
}

/// One side: for each level down to the current position, a node and the next
/// index in it.
#[derive(Debug)]
struct Side<I: NamedItem>(Vec<(Arc<Node<I>>, usize)>);

enum Head<'a, I: NamedItem> {
    Item(&'a I),
    /// A node of this height that is not loaded.
    Node(&'a Child<I>, u8),
}

/// The sides to descend on.
enum Step {
    Before,
    After,
    Both,
}

impl<I: NamedItem> Pairs<I> {
    pub(crate) fn new(before: Option<Hash>, after: Option<Hash>) -> Self {
        let roots = (before != after).then_some((before, after));
        Self {
            roots,
            before: Side(Vec::new()),
            after: Side(Vec::new()),
        }
    }

    /// Returns the next name at which the trees differ, with the item of each.
    pub(crate) async fn next(
        &mut self,
        repository: &Repository,
    ) -> Result<Option<(Option<I>, Option<I>)>> {
        if let Some((before, after)) = self.roots.take() {
            let hashes: Vec<_> = [before, after].into_iter().flatten().collect();
            let mut nodes = repository.nodes::<I>(&hashes).await?.into_iter();
            self.before
                .0
                .extend(before.and_then(|_| nodes.next()).map(|node| (node, 0)));
            self.after
                .0
                .extend(after.and_then(|_| nodes.next()).map(|node| (node, 0)));
        }
        loop {
            self.before.leave_finished();
            self.after.leave_finished();
            let step = match (self.before.head(), self.after.head()) {
                (None, None) => return Ok(None),
                (Some(Head::Node(a, _)), Some(Head::Node(b, _))) if a.hash == b.hash => {
                    self.before.advance();
                    self.after.advance();
                    continue;
                }
                (Some(Head::Node(a, high)), Some(Head::Node(b, other))) => {
                    match high.cmp(&other).then(b.last.cmp(&a.last)) {
                        Ordering::Greater => Step::Before,
                        Ordering::Less => Step::After,
                        Ordering::Equal => Step::Both,
                    }
                }
                (Some(Head::Node(..)), _) => Step::Before,
                (_, Some(Head::Node(..))) => Step::After,
                (Some(Head::Item(a)), Some(Head::Item(b))) => match a.key().cmp(b.key()) {
                    Ordering::Less => return Ok(Some((self.before.take(), None))),
                    Ordering::Greater => return Ok(Some((None, self.after.take()))),
                    Ordering::Equal if a == b => {
                        self.before.advance();
                        self.after.advance();
                        continue;
                    }
                    Ordering::Equal => {
                        return Ok(Some((self.before.take(), self.after.take())));
                    }
                },
                (Some(Head::Item(_)), None) => return Ok(Some((self.before.take(), None))),
                (None, Some(Head::Item(_))) => return Ok(Some((None, self.after.take()))),
            };
            self.step_down(repository, step).await?;
        }
    }

    /// Loads the nodes at the heads of the given sides in one call, together
    /// with the nodes that are likely to be needed next.
    async fn step_down(&mut self, repository: &Repository, step: Step) -> Result<()> {
        let before = matches!(step, Step::Before | Step::Both);
        let after = matches!(step, Step::After | Step::Both);
        let mut hashes = Vec::new();
        if before && !self.before.is_head_cached(repository) {
            hashes.extend(self.before.ahead(&self.after));
        }
        if after && !self.after.is_head_cached(repository) {
            hashes.extend(self.after.ahead(&self.before));
        }
        if hashes.len() > 1 {
            repository.nodes::<I>(&hashes).await?;
        }
        if before {
            self.before.step_down(repository).await?;
        }
        if after {
            self.after.step_down(repository).await?;
        }
        Ok(())
    }
}

impl<I: NamedItem> Side<I> {
    fn leave_finished(&mut self) {
        while self.0.last().is_some_and(|(node, at)| *at >= node.len()) {
            self.0.pop();
        }
    }

    fn head(&self) -> Option<Head<'_, I>> {
        let (node, at) = self.0.last()?;
        match &**node {
            Node::Leaf(items) => items.get(*at).map(Head::Item),
            Node::Index { height, children } => {
                children.get(*at).map(|child| Head::Node(child, height - 1))
            }
        }
    }

    fn advance(&mut self) {
        if let Some((_, at)) = self.0.last_mut() {
            *at += 1;
        }
    }

    fn take(&mut self) -> Option<I> {
        let item = match self.head() {
            Some(Head::Item(item)) => Some(item.clone()),
            _ => None,
        };
        self.advance();
        item
    }

    fn is_head_cached(&self, repository: &Repository) -> bool {
        self.coming()
            .next()
            .is_none_or(|hash| repository.is_cached::<I>(hash))
    }

    /// Returns the node at the head and the following nodes that `other` does
    /// not have.
    fn ahead(&self, other: &Self) -> Vec<Hash> {
        let shared: HashSet<Hash> = other.coming().collect();
        let mut own = self.coming();
        let head = own.next();
        let rest = own.filter(|hash| !shared.contains(hash)).take(READ_AHEAD);
        head.into_iter().chain(rest).collect()
    }

    /// The remaining nodes at this level.
    fn coming(&self) -> impl Iterator<Item = Hash> + '_ {
        let children = match self.0.last().map(|(node, at)| (&**node, *at)) {
            Some((Node::Index { children, .. }, at)) => &children[at..],
            _ => &[],
        };
        children.iter().map(|child| child.hash)
    }

    async fn step_down(&mut self, repository: &Repository) -> Result<()> {
        let Some(Head::Node(child, height)) = self.head() else {
            return Ok(());
        };
        let node = repository.child(child, height + 1).await?;
        self.advance();
        self.0.push((node, 0));
        Ok(())
    }
}
