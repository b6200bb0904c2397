//! The commands of `elevo catalog`, which work on the catalog of a stopped server.

mod copy;

use clap::{Args, Subcommand};

use crate::errors::Exit;

/// Copy the catalog of a stopped server to a database or back.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
The catalog has everything that the server records except the content of files:
keys, sandboxes, projects, versions, reviews. By default it is the file
`catalog.db` in the data directory. With CATALOG_URL, it is in a PostgreSQL
database, which can have a standby.

Examples:
  elevo catalog copy /var/lib/elevo/catalog.db postgres://elevo@db1,db2/elevo
  elevo catalog copy postgres://elevo@db1,db2/elevo /var/lib/elevo/catalog.db"
)]
pub(crate) struct Catalog {
    #[command(subcommand)]
    command: CatalogCommand,

    /// Show no progress
    #[arg(long, short, global = true)]
    quiet: bool,

    /// Print JSON, errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum CatalogCommand {
    Copy(copy::Copy),
}

pub(crate) fn run(args: &Catalog) -> anyhow::Result<Exit> {
    match &args.command {
        CatalogCommand::Copy(wish) => copy::run(wish, args.quiet, args.json),
    }
}
