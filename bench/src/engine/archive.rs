//! Exports a snapshot to a tar and imports it into an empty store. The peer packs a directory into
//! a tar and unpacks it.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Result, ensure};
use elevo_archive::{Export, ExportContent, ImportOptions, Limits};
use elevo_core::TreePath;
use elevo_engine::Progress;
use elevo_objects::Snapshot;
use futures::executor::block_on;

use super::fixture::{Bench, Tree, commit_info, create_store, repository};
use super::short;
use crate::data::Dataset;
use crate::measure::{Contender, interleave, timed};
use crate::peers::{clean_command, time_to_run};
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const ROUNDS: usize = 5;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let files = bench.sizes.small;
    let tree = bench.tree(files)?;
    let snapshot = tree.snapshot(tree.snapshot)?;
    let contenders: [Contender<'_>; 2] = [
        Box::new(|| {
            let archive = bench.fresh("export.tar");
            let out = time_to_export(&tree, &snapshot, &archive, bench.threads)?;
            let store = bench.fresh("import-tar");
            let back = time_to_import(&archive, &store, &snapshot, bench.threads)?;
            say(&format!("export {out:.2} s, import {back:.2} s"));
            Ok(out + back)
        }),
        Box::new(|| {
            let archive = bench.fresh("tar.tar");
            let mut pack = clean_command("tar");
            pack.arg("-cf")
                .arg(&archive)
                .arg("-C")
                .arg(tree.files())
                .arg(".");
            let out = time_to_run(&mut pack)?;
            let directory = bench.fresh("tar-x");
            fs::create_dir(&directory)?;
            let mut unpack = clean_command("tar");
            unpack.arg("-xf").arg(&archive).arg("-C").arg(&directory);
            let back = time_to_run(&mut unpack)?;
            say(&format!("tar -c {out:.2} s, tar -x {back:.2} s"));
            Ok(out + back)
        }),
    ];
    let [ours, tar] = interleave(ROUNDS, contenders)?.map(|samples| samples.figure());
    Ok(vec![Row {
        name: format!("export + import by tar, {} files", short(files)),
        unit: Unit::Seconds,
        ours,
        peer: Some(("tar -c, tar -x", tar)),
        bar: Some(Bar::AtMostTimes(1.0)),
    }])
}

/// Times an export with an empty cache.
fn time_to_export(tree: &Tree, snapshot: &Snapshot, to: &Path, threads: usize) -> Result<f64> {
    let repository = tree.repository();
    let (seconds, done) = timed(|| {
        let export = Export {
            repository: &repository,
            snapshot,
            path: &TreePath::root(),
            form: &ExportContent::Plain,
            threads,
        };
        Ok(export.write(|_, _| true, File::create(to)?, &Progress::new())?)
    })?;
    ensure!(
        done.entries >= tree.layout.files() as u64,
        "wrote only {done:?}"
    );
    Ok(seconds)
}

fn time_to_import(from: &Path, store: &Path, snapshot: &Snapshot, threads: usize) -> Result<f64> {
    let repository = repository(&create_store(store)?);
    let options = ImportOptions {
        limits: Limits::LARGEST,
        base: None,
        threads,
    };
    let (seconds, received) = timed(|| {
        let from = File::open(from)?;
        let received = elevo_archive::import(&repository, from, &options, &Progress::new())?;
        block_on(received.state.commit(commit_info(None)))?;
        Ok(received)
    })?;
    ensure!(received.tree == snapshot.tree, "another tree came back");
    ensure!(received.times == snapshot.times, "other times came back");
    Ok(seconds)
}
