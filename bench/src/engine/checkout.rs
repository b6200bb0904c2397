//! Checks a snapshot out into a new directory.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use elevo_engine::{CheckoutOptions, CheckoutReport, ExistingContent, Progress, checkout};
use elevo_objects::Snapshot;

use super::fixture::{Bench, Tree};
use super::short;
use crate::data::Dataset;
use crate::measure::{Contender, interleave, timed};
use crate::peers::time_to_copy;
use crate::report::{Bar, Figure, Row, Unit};
use crate::suite::say;

const ROUNDS: usize = 5;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let files = bench.sizes.small;
    let tree = bench.tree(files)?;
    let git = tree.git()?;
    let snapshot = tree.snapshot(tree.snapshot)?;
    let contenders: [Contender<'_>; 3] = [
        Box::new(|| {
            say("checkout");
            let output = bench.fresh("checkout");
            fs::create_dir(&output)?;
            let (seconds, report) = time_to_check_out(
                &tree,
                &snapshot,
                &output,
                &ExistingContent::Unknown,
                bench.threads,
            )?;
            ensure!(
                report.written >= tree.layout.files() as u64,
                "wrote only {report:?}"
            );
            Ok(seconds)
        }),
        Box::new(|| {
            say("git checkout");
            git.time_to_check_out(&bench.fresh("git-checkout"))
        }),
        Box::new(|| {
            say("cp -a");
            time_to_copy(&tree.files(), &bench.fresh("copy"))
        }),
    ];
    let [ours, git, copy] = interleave(ROUNDS, contenders)?.map(|samples| samples.figure());
    let row = |peer: &'static str, figure: Figure, limit| Row {
        name: format!("checkout of {} files vs {peer}", short(files)),
        unit: Unit::Seconds,
        ours,
        peer: Some((peer, figure)),
        bar: Some(Bar::AtMostTimes(limit)),
    };
    Ok(vec![row("git checkout", git, 1.0), row("cp -a", copy, 1.2)])
}

/// Times a checkout with an empty cache.
pub(super) fn time_to_check_out(
    tree: &Tree,
    snapshot: &Snapshot,
    directory: &Path,
    present: &ExistingContent,
    threads: usize,
) -> Result<(f64, CheckoutReport)> {
    let options = CheckoutOptions {
        threads,
        leave_out: Vec::new(),
        ignoring: None,
        force: false,
        clone_source: None,
        owner: None,
    };
    let repository = tree.repository();
    timed(|| {
        let progress = Progress::new();
        Ok(checkout(
            &repository,
            snapshot,
            directory,
            present,
            &options,
            &progress,
        )?)
    })
}
