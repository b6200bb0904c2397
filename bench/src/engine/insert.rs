//! Inserts a few bytes into the middle of a large file.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Result, ensure};
use bytes::Bytes;
use elevo_core::TreePath;
use elevo_engine::{StateTree, Store};
use elevo_objects::{ObjectKey, SnapshotId};
use futures::executor::block_on;
use rand::RngExt;

use super::fixture::{Bench, commit_info, create_store, dice, edited, repository, tree_path};
use super::recorder::Recorder;
use crate::data::noise;
use crate::measure::{Samples, timed};
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const PLACES: usize = 20;
const INSERTED: &[u8; 10] = b"ten bytes!";

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let size = bench.sizes.edited_file;
    let recorder = Recorder::new(create_store(&bench.fresh("insert-store"))?);
    let path = tree_path("data/large.bin")?;
    say(&format!("storing a file of {size} bytes"));
    let base = store_file(&recorder, &path, size)?;
    let mut known = HashSet::new();
    recorder.take().new_bytes(&mut known);
    let mut dice = dice("insert");
    let [mut new, mut read, mut time] = [const { Samples::new() }; 3];
    for _ in 0..PLACES {
        let edit = insert(
            &recorder,
            base,
            &path,
            dice.random_range(0..size as u64),
            &known,
        )?;
        new.push(edit.new_bytes as f64);
        read.push(edit.read_bytes as f64);
        time.push(edit.seconds);
    }
    let row = |what: &str, unit, samples: &Samples, bar| Row {
        name: format!("insert of 10 bytes into {} MB: {what}", size / 1_000_000),
        unit,
        ours: samples.figure(),
        peer: None,
        bar,
    };
    Ok(vec![
        row(
            "new objects",
            Unit::Kibibytes,
            &new,
            Some(Bar::AtMost(256.0)),
        ),
        row(
            "bytes read",
            Unit::Kibibytes,
            &read,
            Some(Bar::AtMost(2048.0)),
        ),
        row("time", Unit::Milliseconds, &time, None),
    ])
}

fn store_file(recorder: &Arc<Recorder>, path: &TreePath, size: usize) -> Result<SnapshotId> {
    let store: Arc<dyn Store> = recorder.clone();
    let tree = StateTree::empty(&repository(&store));
    let data = Bytes::from(noise(size, "insert", 0));
    block_on(tree.write(path, data, edited()))?;
    Ok(block_on(tree.commit(commit_info(None)))?)
}

struct Edit {
    new_bytes: u64,
    read_bytes: u64,
    seconds: f64,
}

/// Inserts into the original file, with an empty cache.
fn insert(
    recorder: &Arc<Recorder>,
    base: SnapshotId,
    path: &TreePath,
    offset: u64,
    known: &HashSet<ObjectKey>,
) -> Result<Edit> {
    let store: Arc<dyn Store> = recorder.clone();
    let tree = block_on(StateTree::open(&repository(&store), base))?;
    let inserted = Bytes::from_static(INSERTED);
    recorder.take();
    let (seconds, _) = timed(|| {
        block_on(async {
            tree.splice(path, offset, 0, inserted.clone()).await?;
            Ok(tree.commit(commit_info(Some(base))).await?)
        })
    })?;
    let log = recorder.take();
    let found = block_on(tree.read_at(path, offset, INSERTED.len()))?;
    ensure!(found == inserted, "{found:?} is not what was inserted");
    Ok(Edit {
        new_bytes: log.new_bytes(&mut known.clone()),
        read_bytes: log.read_bytes,
        seconds,
    })
}
