//! `elevo-bench workspace`: workspaces on the local store. Needs root; mounts are in a private
//! mount namespace.

mod create;
mod fork;
mod lazy;
mod many;
mod read;
mod rootless;
mod snapshot;

use std::path::Path;
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use elevo_core::Timestamp;
use elevo_workspace::{Options, ProviderKind, WorkspaceId, Workspaces};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;

use crate::data::{Dataset, noise};
use crate::engine::fixture::{Bench, Tree};
use crate::engine::{FULL, QUICK, Sizes};
use crate::peers::Peer;
use crate::report::Report;
use crate::suite::{self, Measure, Settings};

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
const MEASURES: [Measure<Bench>; 7] = [
    Measure {
        name: "create",
        peers: &[],
        run: create::run,
    },
    Measure {
        name: "fork",
        peers: &[Peer::Git, Peer::Cp],
        run: fork::run,
    },
    Measure {
        name: "snapshot",
        peers: &[],
        run: snapshot::run,
    },
    Measure {
        name: "many",
        peers: &[],
        run: many::run,
    },
    Measure {
        name: "read",
        peers: &[],
        run: read::run,
    },
    Measure {
        name: "lazy",
        peers: &[],
        run: lazy::run,
    },
    Measure {
        name: "rootless",
        peers: &[],
        run: rootless::run,
    },
];

/// Files of the smallest tree.
pub(crate) const FEW: usize = 1_000;
/// Number of files changed between two snapshots or forks.
const CHANGED: usize = 10;
/// The disk limit of workspaces that have one.
const LIMIT: u64 = 1 << 30;

pub(crate) fn run(arguments: &Arguments) -> Result<Report> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root can mount overlays; run the benchmark as root"
    );
    leave_mounts_behind().context("cannot enter a separate mount namespace")?;
    let sizes = if arguments.settings.quick {
        QUICK
    } else {
        FULL
    };
    let threads = thread::available_parallelism()?.get();
    let bench = |scratch: &Path| Ok(Bench::new(scratch, sizes, threads));
    suite::run(&MEASURES, &arguments.only, &arguments.settings, bench)
}

/// Enters a private mount namespace, so that all later mounts end with this process.
pub(crate) fn leave_mounts_behind() -> Result<()> {
    // SAFETY: this process still has one thread, and the mounts and descriptors of other processes
    // do not change.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(mount_change("/", flags)?)
}

fn sizes(sizes: &Sizes) -> [usize; 3] {
    [FEW, sizes.small, sizes.large]
}

/// Opens workspaces on the store of a tree, in a new directory.
fn open(bench: &Bench, tree: &Tree, pool: Option<u64>) -> Result<Workspaces> {
    let options = Options {
        threads: bench.threads,
        provider: Some(ProviderKind::Overlay),
        spare_layers: 1 << 40,
        pool,
        owner: None,
        lazy: None,
        hidden_mounts: false,
        node: None,
    };
    let root = bench.fresh("workspaces");
    Ok(Workspaces::open(&root, tree.repository(), &options)?)
}

/// Size of a pool.
const POOL: u64 = 8 << 30;

fn id(number: usize) -> Result<WorkspaceId> {
    Ok(format!("ws-{number}").parse()?)
}

fn now() -> Timestamp {
    Timestamp::new(1_700_000_000, 0).unwrap_or_else(|| unreachable!("no nanoseconds"))
}

/// Writes new content into some files of a workspace.
fn change(tree: &Tree, files: &Path, round: usize) -> Result<()> {
    for at in 0..CHANGED {
        let index = (round * 7919 + at * 104_729) % tree.layout.files();
        let data = noise(4096, "change", (round * CHANGED + at) as u64);
        std::fs::write(files.join(tree.layout.path(index)), data)?;
    }
    Ok(())
}
