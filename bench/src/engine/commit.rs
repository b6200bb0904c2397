//! Commits one changed file of a large tree as a durable snapshot.

use std::fs;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{CommitInfo, Expected, StateTree, Store};
use elevo_objects::SnapshotId;
use futures::executor::block_on;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::fixture::{Bench, Edit, Tree, commit_info, dice, edited, repository, tree_path};
use super::recorder::Recorder;
use super::short;
use crate::data::{Dataset, Layout, noise};
use crate::measure::{Samples, timed};
use crate::peers::{BareRocksDb, Puts, puts};
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const ROUNDS: usize = 5;
/// Number of our commits for each commit of git, which takes much longer.
const COMMITS_PER_ROUND: usize = 40;
const WARM_UP: usize = 50;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut rows = measure(bench, bench.sizes.small)?;
    rows.extend(measure(bench, bench.sizes.large)?);
    Ok(rows)
}

fn measure(bench: &mut Bench, files: usize) -> Result<Vec<Row>> {
    let tree = bench.tree(files)?;
    let git = tree.git()?;
    let bare = BareRocksDb::like_that_of(&tree.store_path(), &bench.fresh("bare-rocksdb"))?;
    let mut edits = Edits::of(&tree)?;
    for _ in 0..WARM_UP {
        edits.commit_next(Edit::ReadBefore)?;
        bare.write(&edits.last_puts()?)?;
    }
    rustix::fs::sync();
    let [mut read, mut unread, mut floor, mut theirs] = [const { Samples::new() }; 4];
    for _ in 0..ROUNDS {
        say("git add and git commit");
        let path = edits.pick();
        fs::write(
            tree.files().join(&path),
            noise(4096, "git", edits.dice.random()),
        )?;
        theirs.push(git.time_to_commit(&path)?);
        rustix::fs::sync();
        for _ in 0..COMMITS_PER_ROUND {
            read.push(edits.commit_next(Edit::ReadBefore)?);
            let puts = edits.last_puts()?;
            floor.push(timed(|| bare.write(&puts))?.0);
            unread.push(edits.commit_next(Edit::NeverRead)?);
        }
    }
    let row = |edit, ours: &Samples, peer: &'static str, samples: &Samples, bar| Row {
        name: format!("commit in {} files ({edit}) vs {peer}", short(files)),
        unit: Unit::Milliseconds,
        ours: ours.figure(),
        peer: Some((peer, samples.figure())),
        bar: Some(bar),
    };
    let (at_most, faster) = (Bar::AtMostTimes(1.5), Bar::TimesFaster(50.0));
    Ok(vec![
        row("read before", &read, "RocksDB", &floor, at_most),
        row("never read", &unread, "RocksDB", &floor, at_most),
        row("never read", &unread, "git", &theirs, faster),
    ])
}

/// A tree that stays open, and is changed and committed repeatedly.
struct Edits {
    tree: StateTree,
    layout: Layout,
    recorder: Arc<Recorder>,
    last: SnapshotId,
    dice: Xoshiro256PlusPlus,
}

impl Edits {
    fn of(tree: &Tree) -> Result<Self> {
        let recorder = Recorder::new(tree.store.clone());
        let store: Arc<dyn Store> = recorder.clone();
        let mut edits = Self {
            tree: block_on(StateTree::open(&repository(&store), tree.snapshot))?,
            layout: tree.layout,
            recorder,
            last: tree.snapshot,
            dice: dice("commit"),
        };
        // Creates a branch that the commits move, as in git.
        let mut first = edits.info();
        first.reference = Some((BRANCH.into(), Expected::Any));
        edits.last = block_on(edits.tree.commit(first))?;
        Ok(edits)
    }

    fn pick(&mut self) -> String {
        self.layout
            .path(self.dice.random_range(0..self.layout.files()))
    }

    fn info(&self) -> CommitInfo {
        CommitInfo {
            reference: Some((BRANCH.into(), Expected::At(self.last))),
            ..commit_info(Some(self.last))
        }
    }

    /// Writes a file and commits. Returns the seconds that both took together.
    fn commit_next(&mut self, edit: Edit) -> Result<f64> {
        let path = tree_path(&self.pick())?;
        edit.prepare(&self.tree, &path)?;
        let data = Bytes::from(noise(4096, "commit", self.dice.random()));
        let info = self.info();
        self.recorder.take();
        let (seconds, id) = timed(|| {
            block_on(async {
                self.tree.write(&path, data, edited()).await?;
                Ok(self.tree.commit(info).await?)
            })
        })?;
        self.last = id;
        Ok(seconds)
    }

    /// The data that the last commit wrote.
    fn last_puts(&self) -> Result<Puts> {
        let log = self.recorder.take();
        let commit = log.commits.last().context("no commit reached the store")?;
        puts(TenantId::LOCAL, commit)
    }
}

const BRANCH: &str = "main";
