//! A thousand workspaces of one base.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;
use elevo_engine::Progress;

use super::create::{Bare, lower};
use super::{LIMIT, POOL, id, now, open};
use crate::engine::fixture::Bench;
use crate::measure::{Samples, timed};
use crate::report::{Bar, Row, Unit};

const MANY: usize = 1_000;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let tree = bench.tree(bench.sizes.small)?;
    let workspaces = open(bench, &tree, None)?;
    let progress = Progress::new();
    let base = workspaces.create(&id(0)?, tree.snapshot, now(), None, &progress)?;
    let mut bare = Bare::over(&bench.fresh("bare"), &lower(&base)?)?;
    let [mut ours, mut floor, mut room, mut limited] = [const { Samples::new() }; 4];
    let (seconds, ()) = timed(|| {
        for number in 1..=MANY {
            workspaces.create(&id(number)?, tree.snapshot, now(), None, &progress)?;
        }
        Ok(())
    })?;
    ours.push(seconds);
    let (seconds, ()) = timed(|| (0..MANY).try_for_each(|_| bare.mount()))?;
    floor.push(seconds);
    for number in 1..=MANY {
        let place = workspaces.path(&id(number)?)?;
        room.push(used(place.parent().unwrap_or(&place))? as f64);
    }
    let pooled = open(bench, &tree, Some(POOL))?;
    pooled.create(&id(0)?, tree.snapshot, now(), Some(LIMIT), &progress)?;
    let (seconds, ()) = timed(|| {
        for number in 1..=MANY {
            pooled.create(&id(number)?, tree.snapshot, now(), Some(LIMIT), &progress)?;
        }
        Ok(())
    })?;
    limited.push(seconds);
    Ok(vec![
        Row {
            name: "1000 workspaces vs mkdir+mount".into(),
            unit: Unit::Seconds,
            ours: ours.figure(),
            peer: Some(("bare", floor.figure())),
            bar: Some(Bar::AtMostTimes(3.0)),
        },
        Row {
            name: "room of each of 1000 workspaces".into(),
            unit: Unit::Kibibytes,
            ours: room.figure(),
            peer: None,
            bar: Some(Bar::AtMost(24.0)),
        },
        Row {
            name: "1000 workspaces with a limit vs without".into(),
            unit: Unit::Seconds,
            ours: limited.figure(),
            peer: Some(("without", ours.figure())),
            bar: None,
        },
    ])
}

/// Bytes of a directory on its own file system.
fn used(directory: &Path) -> Result<u64> {
    let device = fs::metadata(directory)?.dev();
    let mut bytes = fs::metadata(directory)?.blocks() * 512;
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let stat = fs::symlink_metadata(&path)?;
            if stat.dev() != device {
                // Counts the block of the mount point itself, which the mounted file system hides.
                bytes += 4096;
                continue;
            }
            bytes += stat.blocks() * 512;
            if stat.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(bytes)
}
