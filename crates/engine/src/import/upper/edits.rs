//! Applies the changes of an upper directory to the tree below it.

use elevo_core::Name;
use elevo_objects::{DirItem, TimeItem, Tree};

use super::UpperEntry;
use crate::error::Result;
use crate::import::{Importer, ReadEntry, TreeWithTimes};
use crate::tree;

/// The changes of a directory to the one below it, in the order of names.
#[derive(Default)]
struct Edits {
    entries: Vec<(Name, Option<DirItem>)>,
    times: Vec<(Name, Option<TimeItem>)>,
}

impl Edits {
    /// Sets the entry of a name; `None` deletes it.
    fn push(&mut self, name: Name, read: Option<ReadEntry>) {
        let (entry, time) = read.map(|read| (read.entry, read.time)).unzip();
        let time = time.filter(|time| time.modified.is_some() || time.children.is_some());
        let time_item = time.map(|entry| TimeItem {
            name: name.clone(),
            entry,
        });
        let dir_item = entry.map(|entry| DirItem {
            name: name.clone(),
            entry,
        });
        self.times.push((name.clone(), time_item));
        self.entries.push((name, dir_item));
    }
}

impl Importer<'_> {
    /// Returns the tree `below` with the changes of an upper directory applied.
    /// Only nodes on the path to a changed name are read and written.
    pub(super) fn applied(
        &self,
        below: TreeWithTimes,
        entries: Vec<UpperEntry>,
    ) -> Result<TreeWithTimes> {
        if entries.is_empty() {
            return Ok(below);
        }
        let mut edits = Edits::default();
        for entry in entries {
            edits.push(entry.name, entry.read);
        }
        let (tree, times) = below;
        let mut objects = Vec::new();
        let entries = tree::edit(self.repository, tree.root, edits.entries, &mut objects);
        let entries = self.workers.wait(entries)?;
        let times = tree::edit(self.repository, times, edits.times, &mut objects);
        let times = self.workers.wait(times)?;
        self.sink.add(objects)?;
        let tree = entries.map_or(Tree::EMPTY, |root| Tree {
            root: Some(root.hash),
            count: root.totals.count,
            bytes: root.totals.bytes,
        });
        Ok((tree, times.map(|root| root.hash)))
    }
}
