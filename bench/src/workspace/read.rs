//! Reading through a deep stack of layers.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use elevo_engine::{Progress, StateTree};
use elevo_objects::SnapshotId;
use futures::executor::block_on;
use rayon::prelude::*;

use super::create::lower;
use super::{CHANGED, id, now, open};
use crate::data::Dataset;
use crate::engine::fixture::{Bench, Tree, commit_info, write_noise};
use crate::engine::short;
use crate::measure::{Contender, interleave, timed};
use crate::report::{Bar, Row, Unit};

const DEPTH: usize = 16;
const ROUNDS: usize = 7;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let files = bench.sizes.small;
    let tree = bench.tree(files)?;
    let workspaces = open(bench, &tree, None)?;
    let mut head = tree.snapshot;
    let mut path = workspaces.create(&id(0)?, head, now(), None, &Progress::new())?;
    for layer in 1..DEPTH {
        head = next(&tree, head, layer)?;
        path = workspaces.create(&id(layer)?, head, now(), None, &Progress::new())?;
    }
    let deep = lower(&path)?.split(':').count();
    anyhow::ensure!(deep == DEPTH, "the stack has {deep} layers");
    let names: Vec<String> = (0..files).map(|index| tree.layout.path(index)).collect();
    let native = first_layer(&path)?;
    let contenders: [Contender<'_>; 2] = [
        Box::new(|| Ok(timed(|| read_all(&path, &names))?.0)),
        Box::new(|| Ok(timed(|| read_all(&native, &names))?.0)),
    ];
    let [ours, floor] = interleave(ROUNDS, contenders)?;
    Ok(vec![Row {
        name: format!("read of {} files through 16 layers vs native", short(files)),
        unit: Unit::Milliseconds,
        ours: ours.figure(),
        peer: Some(("native", floor.figure())),
        bar: Some(Bar::AtMostTimes(1.2)),
    }])
}

/// A snapshot with ten more changes.
fn next(tree: &Tree, before: SnapshotId, layer: usize) -> Result<SnapshotId> {
    let state = block_on(StateTree::open(&tree.repository(), before))?;
    for at in 0..CHANGED {
        let index = (layer * 7919 + at * 104_729) % tree.layout.files();
        write_noise(&state, &tree.layout.path(index), (layer * 100 + at) as u64)?;
    }
    Ok(block_on(state.commit(commit_info(Some(before))))?)
}

/// Returns the lowest layer. It is on the same disk and has the same files, except for the changes
/// in the layers above it.
fn first_layer(files: &Path) -> Result<PathBuf> {
    let lowers = lower(files)?;
    let lowest = lowers.split(':').next_back().context("no layers")?;
    Ok(lowest.into())
}

fn read_all(directory: &Path, names: &[String]) -> Result<u64> {
    let read = names.par_chunks(256).map(|names| {
        let mut bytes = 0;
        let mut buffer = Vec::new();
        for name in names {
            buffer.clear();
            File::open(directory.join(name))?.read_to_end(&mut buffer)?;
            bytes += buffer.len() as u64;
        }
        Ok::<_, std::io::Error>(bytes)
    });
    Ok(read.try_reduce(|| 0, |one, other| Ok(one + other))?)
}
