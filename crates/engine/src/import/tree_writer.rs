//! Builds the tree of a directory from its entries.

use elevo_core::{Name, TreePath};
use elevo_objects::{DirItem, Hash, TimeItem, Tree, TreeBuilder};

use super::directory::failed;
use super::sink::Sink;
use super::{ReadEntry, TreeWithTimes};
use crate::error::Result;
use crate::stat_cache::{DirectoryWriter, RecordRef};

/// The action that an error names if the stat cache cannot be written.
const RECORD: &str = "record the files of";

/// The trees and the record of a directory, while its entries are read.
pub(super) struct TreeWriter<'a> {
    path: &'a TreePath,
    entries: TreeBuilder<DirItem>,
    times: TreeBuilder<TimeItem>,
    /// Where the metadata of the entries is recorded, if there is a new stat
    /// cache.
    stats: Option<DirectoryWriter<'a>>,
    /// Number of entries so far.
    count: usize,
}

/// A finished directory.
pub(super) struct WrittenTree {
    pub(super) tree: Tree,
    pub(super) times: Option<Hash>,
    pub(super) record: Option<RecordRef>,
}

impl<'a> TreeWriter<'a> {
    pub(super) fn new(path: &'a TreePath, stats: Option<DirectoryWriter<'a>>) -> Self {
        Self {
            path,
            entries: TreeBuilder::new(),
            times: TreeBuilder::new(),
            stats,
            count: 0,
        }
    }

    /// Number of entries so far.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Adds the next entry, in ascending order of names.
    pub(super) fn push(&mut self, name: Name, read: ReadEntry) -> Result<()> {
        let ReadEntry { entry, time, seen } = read;
        if let (Some(stats), Some(seen)) = (&mut self.stats, seen) {
            let recorded = stats.push(&name, seen);
            recorded.map_err(failed(RECORD, self.path))?;
        }
        if time.modified.is_some() || time.children.is_some() {
            self.times.push(TimeItem {
                name: name.clone(),
                entry: time,
            });
        }
        self.entries.push(DirItem { name, entry });
        self.count += 1;
        Ok(())
    }

    /// Passes the nodes that are complete to `sink`, so that a large directory
    /// does not keep them in memory.
    pub(super) fn flush(&mut self, sink: &Sink<'_>) -> Result<()> {
        sink.add_nodes(self.entries.take_finished())?;
        sink.add_nodes(self.times.take_finished())
    }

    /// Completes the trees, and passes their nodes to `sink` unless they are
    /// equal to `stored`, which the store has. Then records the directory.
    pub(super) fn finish(
        mut self,
        sink: &Sink<'_>,
        stored: Option<TreeWithTimes>,
    ) -> Result<WrittenTree> {
        let tree = self.entries.finish().map_or(Tree::EMPTY, |root| Tree {
            root: Some(root.hash),
            count: root.totals.count,
            bytes: root.totals.bytes,
        });
        let times = self.times.finish().map(|root| root.hash);
        let (stored_root, stored_times) =
            stored.map_or((None, None), |(tree, times)| (tree.root, times));
        // Nodes of an unchanged tree are skipped: the store would have to look
        // up each of them.
        if stored_root.is_none() || tree.root != stored_root {
            sink.add_nodes(self.entries.take_finished())?;
        }
        if stored_times.is_none() || times != stored_times {
            sink.add_nodes(self.times.take_finished())?;
        }
        let recorded = self.stats.map(|stats| stats.finish((tree, times)));
        let record = recorded.transpose().map_err(failed(RECORD, self.path))?;
        Ok(WrittenTree {
            tree,
            times,
            record,
        })
    }
}
