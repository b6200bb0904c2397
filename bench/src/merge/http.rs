//! Merges the changes of a workspace into its project's head through the real server: the snapshot,
//! the merge and the landing. The peer is `git merge` in a work tree of the same files.

use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;

use super::projects::{Served, Workspace};
use super::{Bench, CHANGED, edits};
use crate::engine::short;
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const ROUNDS: usize = 40;
/// The peer takes half a second, so it runs less often.
const PEER_EVERY: usize = 4;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let sizes = bench.sizes();
    let served = Served::start(bench, &sizes)?;
    let mut waiting = Vec::new();
    for files in sizes {
        waiting.push(changed_workspaces(bench, &served, files)?);
    }
    let small = bench.trees.tree(sizes[1])?;
    let git = small.git()?;
    // The first merge is a fast-forward and is not measured. In all later merges, both sides have
    // changes.
    for topic in 0..=ROUNDS / PEER_EVERY {
        git.branch(&format!("topic-{topic}"), edits(&small.layout, topic))?;
    }
    git.time_to_merge("topic-0")?;
    rustix::fs::sync();
    say("merging");
    let mut ours = [Samples::new(), Samples::new(), Samples::new()];
    let mut peer = Samples::new();
    for round in 0..ROUNDS {
        for turn in 0..sizes.len() {
            let which = (round + turn) % sizes.len();
            let next: Workspace = waiting[which].pop().context("one for each round")?;
            let began = Instant::now();
            let merged = next.merge_whole(&served.server, CHANGED);
            bench.runtime.block_on(merged)?;
            // The first merge fills the caches that the others use.
            if round > 0 {
                ours[which].push(began.elapsed().as_secs_f64());
            }
        }
        if round % PEER_EVERY == 0 {
            let topic = 1 + round / PEER_EVERY;
            peer.push(git.time_to_merge(&format!("topic-{topic}"))?);
            // The pending writes of git must not slow down our next merge.
            rustix::fs::sync();
        }
    }
    let [first, small, large] = ours.map(|samples| samples.figure());
    let row = |name: String, ours, peer, bar| Row {
        name,
        unit: Unit::Milliseconds,
        ours,
        peer,
        bar: Some(bar),
    };
    let name = |files| {
        format!(
            "merge of {CHANGED} changes in {} files over HTTP",
            short(files)
        )
    };
    Ok(vec![
        row(name(sizes[0]), first, None, Bar::AtMost(15.0)),
        row(name(sizes[1]), small, None, Bar::AtMost(15.0)),
        row(
            format!("{} vs git merge", name(sizes[1])),
            small,
            Some(("git merge", peer.figure())),
            Bar::TimesFaster(20.0),
        ),
        row(name(sizes[2]), large, None, Bar::AtMost(15.0)),
        row(
            format!(
                "growth of the merge over HTTP from {} to {} files",
                short(sizes[0]),
                short(sizes[2])
            ),
            large,
            Some(("the fewer files", first)),
            Bar::AtMostTimes(2.0),
        ),
    ])
}

/// Workspaces that all start from the same head, each with separate changes. All but the first are
/// merged into a head that has moved.
pub(crate) fn changed_workspaces(
    bench: &mut Bench,
    served: &Served,
    files: usize,
) -> Result<Vec<Workspace>> {
    let layout = bench.trees.tree(files)?.layout;
    let made = bench.runtime.block_on(async {
        let name = format!("files-{files}");
        let project = served.project(&name, files, json!({})).await?;
        served
            .workspaces(ROUNDS, &json!({"project": project}))
            .await
    })?;
    for (number, workspace) in made.iter().enumerate() {
        for (path, content) in edits(&layout, number) {
            workspace.write(&path, content)?;
        }
    }
    Ok(made)
}
