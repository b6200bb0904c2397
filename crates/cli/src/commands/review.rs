//! The commands of `elevo review`, which list and decide held changes.

mod ls;
mod reject;
mod resolve;
mod show;

use clap::{Args, Subcommand};

use crate::client::{self, Reach};
use crate::errors::Exit;

/// Manage reviews: held changes that wait for a decision.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A merge holds the conflicts that it cannot resolve and lands everything else.
OURS is the project's version, THEIRS the workspace's version, BASE their common
ancestor. A decision is merged into the current project; if it conflicts again,
the review stays open with the new conflict.

Examples:
  elevo review ls --project site
  elevo review show rev-…
  elevo review resolve rev-… --suggested
  elevo review resolve rev-… --edit          in $EDITOR, between markers
  elevo review reject rev-…"
)]
pub(crate) struct Review {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: ReviewCommand,
}

#[derive(Debug, Subcommand)]
enum ReviewCommand {
    #[command(alias = "list")]
    Ls(ls::Ls),
    Show(show::Show),
    Resolve(resolve::Resolve),
    Reject(reject::Reject),
}

pub(crate) fn run(review: Review) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    client::run_on_server(&review.reach, |call| match review.command {
        ReviewCommand::Ls(args) => ls::run(call, args).map(done),
        ReviewCommand::Show(args) => show::run(call, &args).map(done),
        ReviewCommand::Resolve(args) => resolve::run(call, args),
        ReviewCommand::Reject(args) => reject::run(call, args),
    })
}
