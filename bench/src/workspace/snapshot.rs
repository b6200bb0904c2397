//! Takes durable snapshots of changed workspaces.

use std::fs;

use anyhow::{Result, ensure};
use elevo_engine::Progress;
use elevo_workspace::{NeverFreeze, WorkspaceId, Workspaces};

use super::{CHANGED, change, id, now, open, sizes};
use crate::data::{Dataset, noise};
use crate::engine::fixture::{Bench, commit_info};
use crate::engine::short;
use crate::measure::{Contender, Samples, interleave, timed};
use crate::peers::walk;
use crate::report::{Bar, Row, Unit};

const ROUNDS: usize = 30;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut first: Option<Samples> = None;
    for files in sizes(&bench.sizes) {
        let tree = bench.tree(files)?;
        let workspaces = open(bench, &tree, None)?;
        let mut samples = Samples::new();
        for round in 0..ROUNDS {
            let id = id(round)?;
            let path = workspaces.create(&id, tree.snapshot, now(), None, &Progress::new())?;
            change(&tree, &path, round)?;
            samples.push(snapshot(&workspaces, &id)?.0);
        }
        let name = short(files);
        rows.push(Row {
            name: format!("snapshot of 10 changes in {name} files"),
            unit: Unit::Milliseconds,
            ours: samples.figure(),
            peer: None,
            bar: Some(Bar::AtMost(10.0)),
        });
        if let Some(first) = first.as_ref().filter(|_| files == bench.sizes.large) {
            rows.push(Row {
                name: format!("snapshot growth from 1k to {name} files"),
                unit: Unit::Milliseconds,
                ours: samples.figure(),
                peer: Some(("1k files", first.figure())),
                bar: Some(Bar::AtMostTimes(1.5)),
            });
        }
        first.get_or_insert(samples);
    }
    rows.push(large_upper(bench)?);
    Ok(rows)
}

/// Takes a snapshot. Returns the time, and the number of bytes read.
fn snapshot(workspaces: &Workspaces, id: &WorkspaceId) -> Result<(f64, u64)> {
    let progress = Progress::new();
    let (seconds, _) = timed(|| {
        let info = commit_info(None);
        Ok(workspaces.snapshot(id, info, &NeverFreeze, &progress)?)
    })?;
    Ok((seconds, progress.bytes()))
}

/// Times ten changes in an upper with very many changed files.
fn large_upper(bench: &mut Bench) -> Result<Row> {
    let tree = bench.tree(super::FEW)?;
    let files = bench.sizes.small;
    let workspaces = open(bench, &tree, None)?;
    let path = workspaces.create(&id(0)?, tree.snapshot, now(), None, &Progress::new())?;
    let many = crate::data::Layout::new(files, crate::data::FileSizes::Short);
    crate::data::write_to_disk(&many, &path.join("many"))?;
    // The next snapshot reads files again that were written in the last tick of the clock before a
    // snapshot. The first two snapshots are therefore not measured.
    for _ in 0..2 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        fs::write(path.join("settled"), "")?;
        snapshot(&workspaces, &id(0)?)?;
    }
    let upper = path.with_file_name("upper");
    let mut round = 0;
    let contenders: [Contender<'_>; 2] = [
        Box::new(|| {
            round += 1;
            for at in 0..CHANGED {
                let data = noise(4096, "upper", (round * CHANGED + at) as u64);
                fs::write(path.join("many").join(many.path(at * 97)), data)?;
            }
            let (seconds, bytes) = snapshot(&workspaces, &id(0)?)?;
            ensure!(
                bytes <= 2 * 4096 * CHANGED as u64,
                "{bytes} bytes were read for ten changes"
            );
            Ok(seconds)
        }),
        Box::new(|| Ok(timed(|| Ok(walk(&upper)?))?.0)),
    ];
    let [ours, floor] = interleave(15, contenders)?;
    Ok(Row {
        name: format!(
            "snapshot of 10 changes among {} in the upper vs lstat",
            short(files)
        ),
        unit: Unit::Milliseconds,
        ours: ours.figure(),
        peer: Some(("lstat walk", floor.figure())),
        bar: Some(Bar::AtMostTimes(1.5)),
    })
}
