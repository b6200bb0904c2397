//! `elevo-bench merge`: the merge alone compared with git, and projects of a real server:
//! workspaces merged over HTTP, a hundred at once, and under a thousand readers. Has the
//! requirements of [`crate::server`]; mounts are in a private mount namespace.

mod agents;
pub(crate) mod http;
pub(crate) mod projects;
mod pure;
mod readers;

use std::path::Path;
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::data::{Dataset, Layout, noise};
use crate::engine::fixture::Bench as Trees;
use crate::engine::{FULL, QUICK};
use crate::peers::Peer;
use crate::report::Report;
use crate::suite::{self, Measure, Settings};
use crate::workspace::{FEW, leave_mounts_behind};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Run only these measures
    #[arg(long, value_name = "NAME", num_args = 1..,
          value_parser = PossibleValuesParser::new(MEASURES.map(|measure| measure.name)))]
    only: Vec<String>,
}

/// In the order in which they run.
const MEASURES: [Measure<Bench>; 4] = [
    Measure {
        name: "pure",
        peers: &[Peer::Git],
        run: pure::run,
    },
    Measure {
        name: "http",
        peers: &[Peer::Git],
        run: http::run,
    },
    Measure {
        name: "agents",
        peers: &[],
        run: agents::run,
    },
    Measure {
        name: "readers",
        peers: &[],
        run: readers::run,
    },
];

/// Files that one merge changes.
pub(crate) const CHANGED: usize = 10;

/// The context of all measures.
pub(crate) struct Bench {
    trees: Trees,
    runtime: tokio::runtime::Runtime,
    quick: bool,
}

impl Bench {
    pub(crate) fn new(scratch: &Path, quick: bool, threads: usize) -> Result<Self> {
        let sizes = if quick { QUICK } else { FULL };
        let runtime = tokio::runtime::Builder::new_multi_thread();
        Ok(Self {
            trees: Trees::new(scratch, sizes, threads),
            runtime: { runtime }.enable_all().build()?,
            quick,
        })
    }

    /// Returns the number of files of the tree of medium size.
    pub(crate) const fn medium(&self) -> usize {
        self.trees.sizes.small
    }

    /// Runs a request of a client.
    pub(crate) fn block_on<T>(&self, request: impl Future<Output = T>) -> T {
        self.runtime.block_on(request)
    }

    /// Returns the numbers of files of the three trees, in ascending order.
    fn sizes(&self) -> [usize; 3] {
        [FEW, self.trees.sizes.small, self.trees.sizes.large]
    }

    /// Returns `full`, or a tenth of it in quick mode.
    fn count(&self, full: usize) -> usize {
        if self.quick { full / 10 } else { full }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Report> {
    enter_mounts()?;
    let quick = arguments.settings.quick;
    let threads = thread::available_parallelism()?.get();
    let bench = |scratch: &Path| Bench::new(scratch, quick, threads);
    suite::run(&MEASURES, &arguments.only, &arguments.settings, bench)
}

/// Enters a mount namespace for the overlays of workspaces. This process must have one thread.
pub(crate) fn enter_mounts() -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root can mount overlays; run the benchmark as root"
    );
    leave_mounts_behind().context("cannot enter a separate mount namespace")
}

/// The files of one change, with their new content. Changes have no file in common as long as there
/// are fewer changes than a tenth of the number of files.
fn edits(layout: &Layout, number: usize) -> impl Iterator<Item = (String, Vec<u8>)> {
    // A prime, so that for any number of files, all of them come before one is repeated.
    const STRIDE: usize = 7919;
    let layout = *layout;
    (number * CHANGED..(number + 1) * CHANGED).map(move |edit| {
        let index = edit * STRIDE % layout.files();
        (layout.path(index), noise(4096, "merge", edit as u64))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::data::FileSizes;

    #[test]
    fn changes_have_no_file_in_common() {
        let layout = Layout::new(FEW, FileSizes::Ordinary);
        let paths = (0..FEW / CHANGED).flat_map(|number| edits(&layout, number));
        let paths: HashSet<_> = paths.map(|(path, _)| path).collect();
        assert_eq!(paths.len(), FEW);
    }
}
