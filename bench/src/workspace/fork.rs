//! Forks of a workspace with changes.

use std::path::Path;

use anyhow::Result;
use elevo_engine::Progress;
use elevo_workspace::{NeverFreeze, Workspaces};

use super::{LIMIT, POOL, change, id, now, open, sizes};
use crate::engine::fixture::{Bench, Tree, commit_info};
use crate::engine::short;
use crate::measure::{Contender, Samples, interleave, timed};
use crate::peers::{clean_command, time_to_run};
use crate::report::{Bar, Row, Unit};

const ROUNDS: usize = 20;
/// The peers take seconds, so they run in fewer rounds.
const PEER_ROUNDS: usize = 3;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for files in sizes(&bench.sizes) {
        let tree = bench.tree(files)?;
        let plain = open(bench, &tree, None)?;
        let pooled = open(bench, &tree, Some(POOL))?;
        let [mut one, mut other] = [0; 2];
        let contenders: [Contender<'_>; 2] = [
            Box::new(|| fork(&plain, &tree, &mut one, None)),
            Box::new(|| fork(&pooled, &tree, &mut other, Some(LIMIT))),
        ];
        let [plain_times, pooled_times] = interleave(ROUNDS, contenders)?;
        let name = short(files);
        let row = |what: &str, samples: &Samples| Row {
            name: format!("fork of a workspace of {name} files {what}"),
            unit: Unit::Milliseconds,
            ours: samples.figure(),
            peer: None,
            bar: Some(Bar::AtMost(10.0)),
        };
        rows.push(row("in a pool", &pooled_times));
        rows.push(row("without a pool", &plain_times));
        if files == bench.sizes.small {
            rows.extend(peers(bench, &tree, &pooled_times)?);
        }
    }
    Ok(rows)
}

/// Creates a workspace, changes ten files in it, and times its fork.
fn fork(
    workspaces: &Workspaces,
    tree: &Tree,
    round: &mut usize,
    limit: Option<u64>,
) -> Result<f64> {
    *round += 1;
    let (from, into) = (id(2 * *round)?, [id(2 * *round + 1)?]);
    let path = workspaces.create(&from, tree.snapshot, now(), limit, &Progress::new())?;
    change(tree, &path, *round)?;
    let (seconds, _) = timed(|| {
        let info = commit_info(None);
        workspaces.fork(&from, &into, info, &NeverFreeze, &Progress::new())?;
        Ok(workspaces.path(&into[0])?)
    })?;
    Ok(seconds)
}

fn peers(bench: &Bench, tree: &Tree, ours: &Samples) -> Result<Vec<Row>> {
    let git = tree.git()?;
    let contenders: [Contender<'_>; 2] = [
        Box::new(|| git.time_to_add_worktree(&bench.fresh("worktree"))),
        Box::new(|| copy(&tree.files(), &bench.fresh("copy"))),
    ];
    let [worktree, copy] = interleave(PEER_ROUNDS, contenders)?;
    let row = |peer: &'static str, samples: &Samples| Row {
        name: format!("fork of {} files vs {peer}", short(bench.sizes.small)),
        unit: Unit::Milliseconds,
        ours: ours.figure(),
        peer: Some((peer, samples.figure())),
        bar: Some(Bar::TimesFaster(200.0)),
    };
    Ok(vec![
        row("git worktree add", &worktree),
        row("cp --reflink", &copy),
    ])
}

fn copy(from: &Path, to: &Path) -> Result<f64> {
    let mut command = clean_command("cp");
    time_to_run(command.args(["-a", "--reflink=auto"]).arg(from).arg(to))
}
