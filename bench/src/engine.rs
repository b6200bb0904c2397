//! `elevo-bench engine`: the state engine on the local store.

mod again;
mod archive;
mod checkout;
mod clone;
mod commit;
mod diff;
mod directory;
pub(crate) mod fixture;
mod gc;
mod import;
mod incremental;
mod insert;
mod recorder;

use std::path::Path;
use std::thread;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::peers::Peer;
use crate::report::Report;
use crate::suite::{self, Measure, Settings};
use fixture::Bench;

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
const MEASURES: [Measure<Bench>; 11] = [
    Measure {
        name: "commit",
        peers: &[Peer::Git],
        run: commit::run,
    },
    Measure {
        name: "directory",
        peers: &[],
        run: directory::run,
    },
    Measure {
        name: "diff",
        peers: &[],
        run: diff::run,
    },
    Measure {
        name: "clone",
        peers: &[],
        run: clone::run,
    },
    Measure {
        name: "import",
        peers: &[Peer::Git, Peer::Restic],
        run: import::run,
    },
    Measure {
        name: "again",
        peers: &[Peer::Git],
        run: again::run,
    },
    Measure {
        name: "checkout",
        peers: &[Peer::Git, Peer::Cp],
        run: checkout::run,
    },
    Measure {
        name: "archive",
        peers: &[Peer::Tar],
        run: archive::run,
    },
    Measure {
        name: "incremental",
        peers: &[],
        run: incremental::run,
    },
    Measure {
        name: "insert",
        peers: &[],
        run: insert::run,
    },
    Measure {
        name: "gc",
        peers: &[],
        run: gc::run,
    },
];

/// The sizes of the test data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Number of files in the smaller tree, which most measures use.
    pub(crate) small: usize,
    /// Number of files in the larger tree.
    pub(crate) large: usize,
    /// Number of files in the tree with which the growth of the time of a diff is compared.
    pub(crate) growth_from: usize,
    /// Number of entries in one large directory.
    pub(crate) directory: usize,
    /// Total bytes of the files that are imported.
    pub(crate) mixed: u64,
    /// Bytes of the file that is edited.
    pub(crate) edited_file: usize,
    /// Number of objects in the store whose garbage is collected.
    pub(crate) collected: usize,
}

pub(crate) const FULL: Sizes = Sizes {
    small: 100_000,
    large: 1_000_000,
    growth_from: 10_000,
    directory: 1_000_000,
    mixed: 1 << 30,
    edited_file: 200_000_000,
    collected: 10_000_000,
};

pub(crate) const QUICK: Sizes = Sizes {
    small: 10_000,
    large: 100_000,
    growth_from: 10_000,
    directory: 100_000,
    mixed: 128 << 20,
    edited_file: 50_000_000,
    collected: 1_000_000,
};

pub(crate) fn run(arguments: &Arguments) -> Result<Report> {
    let sizes = if arguments.settings.quick {
        QUICK
    } else {
        FULL
    };
    let threads = thread::available_parallelism()?.get();
    let bench = |scratch: &Path| Ok(Bench::new(scratch, sizes, threads));
    suite::run(&MEASURES, &arguments.only, &arguments.settings, bench)
}

/// `100000` as `100k`, for names of rows.
pub(crate) fn short(count: usize) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", count / 1_000),
        _ => format!("{}M", count / 1_000_000),
    }
}
