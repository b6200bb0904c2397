//! The merge alone, from three snapshots to a tree's hash, compared with `git merge-tree`.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use elevo_engine::{Repository, StateTree};
use elevo_merge::{Drivers, LaterFirst, Limits, Rules, Sides, merge_trees};
use elevo_objects::SnapshotId;
use elevo_policy::{Compiled, Policy, View};
use futures::executor::block_on;

use super::{Bench, CHANGED, edits};
use crate::engine::fixture::{Tree, commit_info, edited};
use crate::engine::short;
use crate::measure::{Contender, interleave, timed};
use crate::report::{Bar, Row, Unit};

const PAIRS: usize = 10;
const ROUNDS: usize = 100;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let sizes = bench.sizes();
    let [few, small, large] = [
        bench.trees.tree(sizes[0])?,
        bench.trees.tree(sizes[1])?,
        bench.trees.tree(sizes[2])?,
    ];
    let git = small.git()?;
    for pair in 0..PAIRS {
        git.branch(&format!("ours-{pair}"), edits(&small.layout, 2 * pair))?;
        git.branch(
            &format!("theirs-{pair}"),
            edits(&small.layout, 2 * pair + 1),
        )?;
    }
    let [mut a, mut b, mut c] = [Pairs::of(&few)?, Pairs::of(&small)?, Pairs::of(&large)?];
    let mut turn = 0;
    let contenders: [Contender<'_>; 4] = [
        Box::new(|| a.merge_next()),
        Box::new(|| b.merge_next()),
        Box::new(|| c.merge_next()),
        Box::new(|| {
            turn += 1;
            let pair = turn % PAIRS;
            git.time_to_merge_trees(&format!("ours-{pair}"), &format!("theirs-{pair}"))
        }),
    ];
    let figures = interleave(ROUNDS, contenders)?.map(|samples| samples.figure());
    let [first, small, large, git] = figures;
    let row = |files, ours, peer, bar| Row {
        name: format!(
            "merge without a server of {CHANGED} changes in {} files",
            short(files)
        ),
        unit: Unit::Milliseconds,
        ours,
        peer,
        bar,
    };
    let growth = Row {
        name: format!(
            "growth of the merge without a server from {} to {} files",
            short(sizes[0]),
            short(sizes[2])
        ),
        ..row(
            sizes[2],
            large,
            Some(("the fewer files", first)),
            Some(Bar::AtMostTimes(2.0)),
        )
    };
    let beside = Some(("git merge-tree", git));
    Ok(vec![
        row(sizes[1], small, beside, Some(Bar::AtMostTimes(1.0))),
        row(sizes[2], large, None, None),
        growth,
    ])
}

/// Pairs of snapshots with changes to different files of one tree, and a repository that already
/// has all of them in its cache, as a running server would.
struct Pairs {
    repository: Repository,
    base: SnapshotId,
    pairs: Vec<[SnapshotId; 2]>,
    policy: Compiled,
    view: View,
    drivers: Drivers,
    turn: usize,
}

impl Pairs {
    fn of(tree: &Tree) -> Result<Self> {
        let policy = Policy::default().compile()?;
        let sides = |pair| anyhow::Ok([changed(tree, 2 * pair)?, changed(tree, 2 * pair + 1)?]);
        let mut pairs = Self {
            repository: tree.repository(),
            base: tree.snapshot,
            pairs: (0..PAIRS).map(sides).collect::<Result<_>>()?,
            view: policy.for_agent(None),
            policy,
            drivers: Drivers::standard(),
            turn: 0,
        };
        for _ in 0..PAIRS {
            pairs.merge_next()?;
        }
        Ok(pairs)
    }

    /// Times a merge, from three ids to the hash of the merged tree.
    fn merge_next(&mut self) -> Result<f64> {
        let pair = self.pairs[self.turn % PAIRS];
        self.turn += 1;
        let (seconds, (landed, held)) = timed(|| block_on(self.merge(pair)))?;
        ensure!(
            (landed, held) == (CHANGED, 0),
            "{landed} landed, {held} were held"
        );
        Ok(seconds)
    }

    async fn merge(&self, [ours, theirs]: [SnapshotId; 2]) -> Result<(usize, usize)> {
        let sides = Sides {
            base: &self.repository.snapshot(self.base).await?,
            ours: &StateTree::open(&self.repository, ours).await?,
            theirs: &self.repository.snapshot(theirs).await?,
        };
        let rules = Rules {
            view: &self.view,
            policy: &self.policy,
            decided: false,
            careful: false,
            instead: None,
            precedence: &LaterFirst,
            unsettled: &BTreeSet::new(),
        };
        let merge = merge_trees(&sides, &rules, &self.drivers, &Limits::default()).await?;
        merge.tree.tree().await?;
        Ok((merge.landed.len(), merge.conflicts.len()))
    }
}

fn changed(tree: &Tree, number: usize) -> Result<SnapshotId> {
    let state = block_on(StateTree::open(&tree.repository(), tree.snapshot))?;
    for (path, data) in edits(&tree.layout, number) {
        block_on(state.write(&path.parse()?, data.into(), edited()))?;
    }
    Ok(block_on(state.commit(commit_info(Some(tree.snapshot))))?)
}
