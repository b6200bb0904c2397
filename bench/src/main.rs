//! Measures Elevo and its peers in one run, against bars: `elevo-bench engine --quick`.
//!
//! Each subcommand creates its data in a temporary directory, runs the contenders in turns on the
//! same machine in the same minutes, prints a table, and ends with the line `N of M bars held`. It
//! exits with 0 if all bars were held, 1 if not, and 2 if it could not measure: a peer that is not
//! installed is an error, never a missing row.
//!
//! May depend on every crate; no crate depends on it.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock, the environment and the disk"
)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its results"
)]

mod cluster;
mod data;
mod engine;
mod measure;
mod merge;
mod peers;
mod report;
mod sandbox;
mod server;
mod suite;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The allocator of `elevo`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(version, about = "Measures Elevo and its peers in one run")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The state engine: commit, diff, clone, import, checkout, and edits of large files
    Engine(engine::Arguments),
    /// Workspaces: create, fork, snapshot, a thousand of them, reading through layers
    Workspace(workspace::Arguments),
    /// Sandboxes: create, fork, commands, streams, a hundred at a time
    Sandbox(sandbox::Arguments),
    /// Merging: over HTTP, without a server, by a hundred agents at once, with a thousand readers
    Merge(merge::Arguments),
    /// Several processes on one catalog in PostgreSQL: landings, events, failovers
    Cluster(cluster::Arguments),
    /// One of the processes of `cluster`
    #[command(hide = true)]
    ClusterWorker,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Engine(arguments) => engine::run(&arguments),
        Command::Workspace(arguments) => workspace::run(&arguments),
        Command::Sandbox(arguments) => sandbox::run(&arguments),
        Command::Merge(arguments) => merge::run(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::ClusterWorker => return report_failure(cluster::work()),
    };
    match outcome {
        Ok(report) if report.all_held() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => report_failure(Err(error)),
    }
}

fn report_failure(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    eprintln!("elevo-bench: {error:#}");
    ExitCode::from(2)
}
