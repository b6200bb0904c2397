//! Turns a tree in memory into the objects that store it.

use std::sync::Arc;

use elevo_core::{Name, Timestamp};
use elevo_objects::{DirItem, Entry, Hash, Mode, TimeEntry, TimeItem, Tree};

use super::directory::{Directory, Slot};
use crate::error::Result;
use crate::repository::Repository;
use crate::store::Object;
use crate::tree;

/// A tree's identity and those of its objects that may not be stored yet, each
/// after the objects it refers to.
pub(super) struct Sealed {
    pub(super) tree: Tree,
    pub(super) times: Option<Hash>,
    pub(super) objects: Vec<Object>,
}

/// Hashes the changes, bottom up. Writes nothing. Uses an explicit stack, since
/// the author of a tree controls its depth.
pub(super) async fn seal(repository: &Repository, root: &Arc<Directory>) -> Result<Sealed> {
    let mut objects = Vec::new();
    let mut stack = vec![Frame::new(root.clone(), None)];
    loop {
        let Some(frame) = stack.last_mut() else {
            unreachable!("the root returns")
        };
        match frame.slots.next() {
            Some((
                name,
                Slot::Directory {
                    mode,
                    modified,
                    directory,
                },
            )) => {
                let place = Above {
                    name,
                    mode,
                    modified,
                };
                if directory.changes.is_empty() {
                    frame.add_directory(place, directory.tree, directory.times);
                } else {
                    stack.push(Frame::new(directory, Some(place)));
                }
            }
            Some((name, Slot::Leaf(leaf))) => {
                objects.extend(leaf.needed()?);
                frame.add(name, Some(leaf.entry), leaf.modified, None);
            }
            Some((name, Slot::Absent)) => frame.add(name, None, None, None),
            None => {
                let Some(done) = stack.pop() else {
                    unreachable!("just looked at")
                };
                let (above, tree, times) = done.finish(repository, &mut objects).await?;
                match (stack.last_mut(), above) {
                    (Some(parent), Some(place)) => parent.add_directory(place, tree, times),
                    _ => {
                        return Ok(Sealed {
                            tree,
                            times,
                            objects,
                        });
                    }
                }
            }
        }
    }
}

/// Position of a directory in its parent.
struct Above {
    name: Name,
    mode: Mode,
    modified: Option<Timestamp>,
}

struct Frame {
    directory: Arc<Directory>,
    above: Option<Above>,
    slots: std::vec::IntoIter<(Name, Slot)>,
    entries: Vec<(Name, Option<DirItem>)>,
    times: Vec<(Name, Option<TimeItem>)>,
}

impl Frame {
    fn new(directory: Arc<Directory>, above: Option<Above>) -> Self {
        let slots: Vec<_> = directory
            .changes
            .iter()
            .map(|(name, slot)| (name.clone(), Slot::clone(slot)))
            .collect();
        Self {
            entries: Vec::with_capacity(slots.len()),
            times: Vec::new(),
            slots: slots.into_iter(),
            directory,
            above,
        }
    }

    fn add_directory(&mut self, place: Above, tree: Tree, times: Option<Hash>) {
        let entry = Entry::Directory {
            mode: place.mode,
            tree,
        };
        self.add(place.name, Some(entry), place.modified, times);
    }

    fn add(
        &mut self,
        name: Name,
        entry: Option<Entry>,
        modified: Option<Timestamp>,
        children: Option<Hash>,
    ) {
        let known = modified.is_some() || children.is_some();
        if known || self.directory.times.is_some() {
            let entry = TimeEntry { modified, children };
            let time = known.then(|| TimeItem {
                name: name.clone(),
                entry,
            });
            self.times.push((name.clone(), time));
        }
        self.entries
            .push((name.clone(), entry.map(|entry| DirItem { name, entry })));
    }

    async fn finish(
        self,
        repository: &Repository,
        objects: &mut Vec<Object>,
    ) -> Result<(Option<Above>, Tree, Option<Hash>)> {
        let Tree { root, .. } = self.directory.tree;
        if self.entries.is_empty() {
            return Ok((self.above, self.directory.tree, self.directory.times));
        }
        let root = tree::edit(repository, root, self.entries, objects).await?;
        let tree = root.map_or(Tree::EMPTY, |root| Tree {
            root: Some(root.hash),
            count: root.totals.count,
            bytes: root.totals.bytes,
        });
        let times = if self.times.is_empty() {
            self.directory.times
        } else {
            tree::edit(repository, self.directory.times, self.times, objects)
                .await?
                .map(|root| root.hash)
        };
        Ok((self.above, tree, times))
    }
}
