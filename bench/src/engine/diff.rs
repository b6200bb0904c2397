//! The diff of two snapshots that hardly differ.

use std::rc::Rc;

use anyhow::{Result, ensure};
use elevo_engine::{Diff, Repository};
use elevo_objects::SnapshotId;
use futures::executor::block_on;

use super::fixture::{Bench, Tree, dice};
use super::short;
use crate::measure::{Contender, interleave, timed};
use crate::report::{Bar, Row, Unit};

const CHANGED: usize = 10;
const PAIRS: usize = 10;
const ROUNDS: usize = 300;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let sizes = [
        bench.sizes.growth_from,
        bench.sizes.small,
        bench.sizes.large,
    ];
    let trees = [
        bench.tree(sizes[0])?,
        bench.tree(sizes[1])?,
        bench.tree(sizes[2])?,
    ];
    let [mut a, mut b, mut c] = [
        Pairs::of(&trees[0])?,
        Pairs::of(&trees[1])?,
        Pairs::of(&trees[2])?,
    ];
    let contenders: [Contender<'_>; 3] = [
        Box::new(|| a.diff_next()),
        Box::new(|| b.diff_next()),
        Box::new(|| c.diff_next()),
    ];
    let [first, small, large] = interleave(ROUNDS, contenders)?.map(|samples| samples.figure());
    let row = |files, ours| Row {
        name: format!("diff of {CHANGED} changes in {} files", short(files)),
        unit: Unit::Milliseconds,
        ours,
        peer: None,
        bar: Some(Bar::AtMost(1.0)),
    };
    let growth = Row {
        name: format!(
            "diff growth from {} to {} files",
            short(sizes[0]),
            short(sizes[2])
        ),
        peer: Some(("the fewer files", first)),
        bar: Some(Bar::AtMostTimes(2.0)),
        ..row(sizes[2], large)
    };
    Ok(vec![row(sizes[1], small), row(sizes[2], large), growth])
}

/// Snapshots that differ from a tree, and a repository whose cache has read all of them.
struct Pairs {
    repository: Repository,
    before: SnapshotId,
    after: Vec<SnapshotId>,
    turn: usize,
}

impl Pairs {
    fn of(tree: &Rc<Tree>) -> Result<Self> {
        let mut dice = dice("diff");
        let variants = (0..PAIRS).map(|_| tree.variant(&mut dice, CHANGED));
        let mut pairs = Self {
            repository: tree.repository(),
            before: tree.snapshot,
            after: variants.collect::<Result<_>>()?,
            turn: 0,
        };
        for _ in 0..PAIRS {
            pairs.diff_next()?;
        }
        Ok(pairs)
    }

    /// Times a diff, from two ids to the list of changes.
    fn diff_next(&mut self) -> Result<f64> {
        let id = self.after[self.turn % PAIRS];
        self.turn += 1;
        let (seconds, changes) = timed(|| {
            block_on(async {
                let before = self.repository.snapshot(self.before).await?;
                let after = self.repository.snapshot(id).await?;
                Ok(Diff::new(&self.repository, before.tree, after.tree)
                    .collect()
                    .await?)
            })
        })?;
        ensure!(changes.len() == CHANGED, "found {} changes", changes.len());
        Ok(seconds)
    }
}
