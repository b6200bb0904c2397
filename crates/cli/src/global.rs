//! Options that several commands share.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

/// Options of every command on a store and its workspaces.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Global {
    /// Path of the store; by default found from the current directory upwards
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "ELEVO_STORE",
        hide_env_values = true
    )]
    pub(crate) store: Option<PathBuf>,

    /// Print JSON, errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Show no progress, no notes and no confirmation
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,

    /// Threads that read and write files; all processors by default
    #[arg(long, global = true, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,

    /// How long to wait for another process that is writing to the store
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 5)]
    pub(crate) wait: u64,
}
