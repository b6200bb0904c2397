//! The commands of `elevo template`.

mod create;
mod load;
mod ls;
mod rm;
mod show;

use clap::{Args, Subcommand};

use crate::client::{self, Reach};
use crate::errors::Exit;

/// Manage templates: images that sandboxes start from.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  elevo template create python:3.11
  elevo template load busybox.tar.zst
  elevo template ls
  elevo sandbox create python:3.11"
)]
pub(crate) struct Template {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: TemplateCommand,
}

#[derive(Debug, Subcommand)]
enum TemplateCommand {
    Create(create::Create),
    Load(load::Load),
    #[command(alias = "list")]
    Ls(ls::Ls),
    Show(show::Show),
    #[command(alias = "delete")]
    Rm(rm::Rm),
}

pub(crate) fn run(template: Template) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    client::run_on_server(&template.reach, |call| match template.command {
        TemplateCommand::Ls(_) => ls::run(call).map(done),
        TemplateCommand::Create(args) => create::run(call, args).map(done),
        TemplateCommand::Load(args) => load::run(call, &args).map(done),
        TemplateCommand::Show(args) => show::run(call, &args).map(done),
        TemplateCommand::Rm(args) => rm::run(call, &args),
    })
}
