//! Commits one changed file of a directory with very many entries.

use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use elevo_engine::{StateTree, Store};
use elevo_objects::SnapshotId;
use futures::executor::block_on;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::fixture::{
    Bench, Edit, commit_info, create_store, dice, edited, open_store, repository, tree_path,
};
use super::short;
use crate::data::noise;
use crate::measure::{Contender, Samples, interleave, timed};
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const SMALL: usize = 1_000;
const ROUNDS: usize = 200;
const WARM_UP: usize = 50;
/// Entries that are written between two commits while a directory is created.
const STEP: usize = 50_000;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let entries = bench.sizes.directory;
    let path = bench.fresh("directory-store");
    let store = create_store(&path)?;
    say(&format!("making a directory of {entries} entries"));
    let [large, small] = [make(&store, entries)?, make(&store, SMALL)?];
    drop(store);
    let store = open_store(&path)?;
    let mut unread = Edits::of(&store, large, entries)?;
    let mut large = Edits::of(&store, large, entries)?;
    let mut small = Edits::of(&store, small, SMALL)?;
    rustix::fs::sync();
    let contenders: [Contender<'_>; 3] = [
        Box::new(|| large.commit_next(Edit::ReadBefore)),
        Box::new(|| unread.commit_next(Edit::NeverRead)),
        Box::new(|| small.commit_next(Edit::ReadBefore)),
    ];
    let [read, unread, reference] = interleave(ROUNDS, contenders)?;
    let row = |edit, ours: &Samples| Row {
        name: format!(
            "commit in a directory of {} entries ({edit}) vs {}",
            short(entries),
            short(SMALL)
        ),
        unit: Unit::Milliseconds,
        ours: ours.figure(),
        peer: Some(("1k entries", reference.figure())),
        bar: Some(Bar::AtMostTimes(2.0)),
    };
    Ok(vec![row("read before", &read), row("never read", &unread)])
}

fn entry(index: usize) -> String {
    format!("all/entry-{index:x}")
}

/// Stores a tree with one directory of this number of short files.
fn make(store: &Arc<dyn Store>, entries: usize) -> Result<SnapshotId> {
    let tree = StateTree::empty(&repository(store));
    let mut last = None;
    for start in (0..entries).step_by(STEP) {
        for index in start..entries.min(start + STEP) {
            let data = Bytes::from(format!("entry {index}\n"));
            block_on(tree.write(&tree_path(&entry(index))?, data, edited()))?;
        }
        last = Some(block_on(tree.commit(commit_info(last)))?);
    }
    last.ok_or_else(|| anyhow::anyhow!("a directory without entries"))
}

struct Edits {
    tree: StateTree,
    entries: usize,
    last: SnapshotId,
    dice: Xoshiro256PlusPlus,
}

impl Edits {
    fn of(store: &Arc<dyn Store>, last: SnapshotId, entries: usize) -> Result<Self> {
        let tree = block_on(StateTree::open(&repository(store), last))?;
        let dice = dice("directory");
        let mut edits = Self {
            tree,
            entries,
            last,
            dice,
        };
        for _ in 0..WARM_UP {
            edits.commit_next(Edit::ReadBefore)?;
        }
        Ok(edits)
    }

    /// Writes an entry and commits. Returns the time of both together.
    fn commit_next(&mut self, edit: Edit) -> Result<f64> {
        let path = tree_path(&entry(self.dice.random_range(0..self.entries)))?;
        edit.prepare(&self.tree, &path)?;
        let data = Bytes::from(noise(4096, "directory", self.dice.random()));
        let info = commit_info(Some(self.last));
        let (seconds, id) = timed(|| {
            block_on(async {
                self.tree.write(&path, data, edited()).await?;
                Ok(self.tree.commit(info).await?)
            })
        })?;
        self.last = id;
        Ok(seconds)
    }
}
