//! The commands of `elevo review`, which list and decide held changes.

mod accept;
mod ls;
mod reject;
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
The project's side is the version in the project, the workspace's side the
version in the workspace, and the base their common ancestor. A decision is
merged into the current project; if it conflicts again, the review stays open
with the new conflict.

Examples:
  elevo review ls --project site
  elevo review show rev-…
  elevo review accept rev-… --take suggested
  elevo review accept rev-… --edit           in $EDITOR, between markers
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
    #[command(visible_alias = "approve")]
    Accept(accept::Accept),
    Reject(reject::Reject),
}

pub(crate) fn run(review: Review) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    client::run_on_server(&review.reach, |call| match review.command {
        ReviewCommand::Ls(args) => ls::run(call, args).map(done),
        ReviewCommand::Show(args) => show::run(call, &args).map(done),
        ReviewCommand::Accept(args) => accept::run(call, args),
        ReviewCommand::Reject(args) => reject::run(call, args),
    })
}
