//! The commands of `elevo project`.

mod at;
mod change;
mod life;
mod look;
mod past;
mod policy;
mod retention;
mod tag;
mod undo;

use clap::{Args, Subcommand};

use crate::client::Reach;
use crate::errors::Exit;
use crate::service;

/// Manage projects: shared file trees that many agents work on.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A project is a file tree with a history. Every agent works in its own workspace
and merges it into the project; conflicts are held for review. `elevo up` starts
the server that these commands need.

SNAPSHOT names a state of the project: `head`, a tag, the number of a step, or
the id of a snapshot or the first digits of it (at least 6), as `log` prints
them.

Examples:
  elevo project create site && elevo project import site --directory .
  cd \"$(elevo ws create --project site)\"     create a workspace and enter it
  elevo ws merge -m \"a better page\"          merge it into the project
  elevo review ls                            list the open reviews
  elevo project log site --stat              list the steps
  elevo project diff site -p 3 head          the changes since step 3, as a patch"
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
    Create(life::Create),
    Ls(life::Ls),
    Show(life::Show),
    Rename(life::Rename),
    Rm(life::Rm),
    Policy(policy::Policy),
    Retention(retention::Retention),
    Tag(tag::Tag),
    Log(past::Log),
    History(past::History),
    Blame(past::Blame),
    Cat(look::Cat),
    #[command(visible_alias = "ls-files")]
    Tree(look::Tree),
    Diff(look::Diff),
    Apply(change::Apply),
    Revert(undo::Revert),
    Restore(undo::Restore),
    Import(change::Import),
    Export(change::Export),
}

pub(crate) fn run(project: Project) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    service::run(&project.reach, |call| match project.command {
        ProjectCommand::Create(args) => life::create(call, args).map(done),
        ProjectCommand::Ls(_) => life::ls(call).map(done),
        ProjectCommand::Show(args) => life::show(call, &args).map(done),
        ProjectCommand::Rename(args) => life::rename(call, args).map(done),
        ProjectCommand::Rm(args) => life::rm(call, &args),
        ProjectCommand::Policy(args) => policy::run(call, &args).map(done),
        ProjectCommand::Retention(args) => retention::run(call, &args).map(done),
        ProjectCommand::Tag(args) => tag::run(call, args).map(done),
        ProjectCommand::Log(args) => past::log(call, &args).map(done),
        ProjectCommand::History(args) => past::history(call, &args).map(done),
        ProjectCommand::Blame(args) => past::blame(call, &args).map(done),
        ProjectCommand::Cat(args) => look::cat(call, &args).map(done),
        ProjectCommand::Tree(args) => look::tree(call, &args).map(done),
        ProjectCommand::Diff(args) => look::diff(call, &args),
        ProjectCommand::Apply(args) => change::apply(call, args),
        ProjectCommand::Revert(args) => undo::revert(call, args),
        ProjectCommand::Restore(args) => undo::restore(call, args),
        ProjectCommand::Import(args) => change::import(call, args),
        ProjectCommand::Export(args) => change::export(call, &args).map(done),
    })
}

pub(crate) use at::resolve_some;

/// The path of a project, or of a resource below it.
pub(crate) fn project_path<'a>(name: &'a str, below: &[&'a str]) -> Vec<&'a str> {
    [&["api", "v1", "projects", name], below].concat()
}
