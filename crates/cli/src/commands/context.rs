//! The commands of `elevo context`.

mod ls;
mod show;
mod r#use;

use clap::{Args, Subcommand};

use crate::errors::Exit;

/// List and choose the servers of `elevo login`.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A context is a server with a key, which `elevo login` stores. Commands use the
server of, in this order: the options --server, --context and --data; the
variables ELEVO_SERVER, ELEVO_CONTEXT and ELEVO_DATA; the current context; the
server on this machine. The context `local` is the server on this machine.

Examples:
  elevo context ls
  elevo context use prod
  elevo context use local
  elevo context show"
)]
pub(crate) struct Context {
    #[command(subcommand)]
    command: ContextCommand,

    /// Print JSON, errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Show no notes
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum ContextCommand {
    #[command(alias = "list")]
    Ls(ls::Ls),
    Use(r#use::Use),
    Show(show::Show),
}

pub(crate) fn run(args: &Context) -> anyhow::Result<Exit> {
    match &args.command {
        ContextCommand::Ls(_) => ls::run(args.json),
        ContextCommand::Use(wish) => r#use::run(wish, args.json, args.quiet),
        ContextCommand::Show(wish) => show::run(wish, args.json),
    }
}
