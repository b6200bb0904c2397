//! The commands of `elevo project`.

mod apply;
mod blame;
mod cat;
mod create;
mod diff;
mod export;
mod files;
mod import;
mod log;
mod ls;
mod merge;
mod policy;
mod rename;
mod restore;
mod retention;
mod revert;
mod rm;
mod show;
mod status;
mod tag;

use clap::{Args, Subcommand};

use crate::client::{self, Reach};
use crate::errors::Exit;

/// Manage projects: shared file trees that many agents work on.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A project is a file tree with a history. Every agent works in its own workspace
and merges it into the project; conflicts are held for review. `elevo up` starts
the server that these commands need.

REV names a state of the project: `head`, a tag, the number of a step, the id
of a snapshot or its first digits (at least 6), as `log` prints them, or `@`,
the state that the workspace of the current directory has. REV~N is N steps
before REV.

Examples:
  elevo project create site --from .
  cd \"$(elevo ws create --project site)\"     create a workspace and enter it
  elevo ws merge -m \"a better page\"          merge it into the project
  elevo review ls                            list the open reviews
  elevo project log site --stat              list the steps
  elevo project diff site -p 3..head         the changes since step 3, as a patch"
)]
pub(crate) struct Project {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: ProjectCommand,
}

/// The commands of `elevo project`, each defined in its own module.
#[derive(Debug, Subcommand)]
enum ProjectCommand {
    Create(create::Create),
    #[command(alias = "list")]
    Ls(ls::Ls),
    Show(show::Show),
    Status(status::Status),
    Rename(rename::Rename),
    #[command(alias = "delete")]
    Rm(rm::Rm),
    Policy(policy::Policy),
    Retention(retention::Retention),
    Tag(tag::Tag),
    Log(log::Log),
    Blame(blame::Blame),
    Cat(cat::Cat),
    Files(files::Files),
    Diff(diff::Diff),
    Merge(merge::Merge),
    Apply(apply::Apply),
    Revert(revert::Revert),
    Restore(restore::Restore),
    Import(import::Import),
    Export(export::Export),
}

pub(crate) fn run(project: Project) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    client::run_on_server(&project.reach, |call| match project.command {
        ProjectCommand::Create(args) => create::run(call, args).map(done),
        ProjectCommand::Ls(_) => ls::run(call).map(done),
        ProjectCommand::Show(args) => show::run(call, &args).map(done),
        ProjectCommand::Rename(args) => rename::run(call, args).map(done),
        ProjectCommand::Rm(args) => rm::run(call, &args),
        ProjectCommand::Status(args) => status::run(call, &args).map(done),
        ProjectCommand::Policy(args) => policy::run(call, &args),
        ProjectCommand::Retention(args) => retention::run(call, &args).map(done),
        ProjectCommand::Tag(args) => tag::run(call, args).map(done),
        ProjectCommand::Log(args) => log::run(call, &args).map(done),
        ProjectCommand::Blame(args) => blame::run(call, &args).map(done),
        ProjectCommand::Cat(args) => cat::run(call, &args).map(done),
        ProjectCommand::Files(args) => files::run(call, &args).map(done),
        ProjectCommand::Diff(args) => diff::run(call, &args),
        ProjectCommand::Merge(args) => merge::run(call, args),
        ProjectCommand::Apply(args) => apply::run(call, args),
        ProjectCommand::Revert(args) => revert::run(call, args),
        ProjectCommand::Restore(args) => restore::run(call, args),
        ProjectCommand::Import(args) => import::run(call, args),
        ProjectCommand::Export(args) => export::run(call, &args).map(done),
    })
}
