//! Changes a directory from one snapshot to another that hardly differs.

use std::fs;

use anyhow::{Result, ensure};
use elevo_engine::ExistingContent;

use super::checkout::time_to_check_out;
use super::fixture::{Bench, dice};
use super::short;
use crate::measure::Samples;
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const CHANGED: usize = 10;
/// Each round checks out a changed snapshot, and then the original one again.
const ROUNDS: usize = 10;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let files = bench.sizes.small;
    let tree = bench.tree(files)?;
    let base = tree.snapshot(tree.snapshot)?;
    let output = bench.fresh("incremental");
    fs::create_dir(&output)?;
    say("checkout");
    time_to_check_out(
        &tree,
        &base,
        &output,
        &ExistingContent::Unknown,
        bench.threads,
    )?;
    rustix::fs::sync();
    let mut dice = dice("incremental");
    let mut samples = Samples::default();
    for _ in 0..ROUNDS {
        let variant = tree.snapshot(tree.variant(&mut dice, CHANGED)?)?;
        for (from, to) in [(&base, &variant), (&variant, &base)] {
            let present = ExistingContent::Recorded(from.clone());
            let (seconds, report) = time_to_check_out(&tree, to, &output, &present, bench.threads)?;
            ensure!(report.written >= CHANGED as u64, "wrote only {report:?}");
            ensure!(
                report.written < files as u64 / 10,
                "wrote too much: {report:?}"
            );
            samples.push(seconds);
        }
    }
    Ok(vec![Row {
        name: format!(
            "incremental checkout of {CHANGED} changes in {} files",
            short(files)
        ),
        unit: Unit::Milliseconds,
        ours: samples.figure(),
        peer: None,
        bar: Some(Bar::AtMost(25.0)),
    }])
}
