use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::project_path;
use crate::errors::{Exit, Protected};
use crate::input::confirm;
use crate::output::format::{count, first_line};

/// Delete projects with their workspaces, history and reviews.
#[derive(Debug, Args)]
#[command(after_help = "\
A deletion cannot be undone and has to be confirmed: by an answer on a terminal,
otherwise by --yes. If a project cannot be deleted, the command reports it and
deletes the others.

Examples:
  elevo project rm site                  asks first
  elevo project export site -o site.tar && elevo project rm --yes site")]
pub(super) struct Rm {
    /// The projects, by name or id
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub(super) fn run(call: &mut Call, args: &Rm) -> anyhow::Result<Exit> {
    call.each(&args.names, |call, name| {
        let name = &find(call, Noun::Project, name)?;
        if !args.yes {
            confirm(call, name)?;
        }
        call.delete("projects", name, "Removed")
    })
}

/// Asks the user to confirm the deletion of a project.
fn confirm(call: &Call, name: &str) -> anyhow::Result<()> {
    let found: api::Project = call.wait(call.client.get(&project_path(name, &[])))?;
    let question = format!(
        "Delete the project `{}` with its workspaces, reviews and all {} of its history?",
        first_line(&found.name),
        count(found.step, "step", "steps"),
    );
    let answer = match call.output.is_json() {
        true => None,
        false => confirm::ask(&question)?,
    };
    match answer {
        Some(true) => Ok(()),
        answer => Err(Protected::NotConfirmed {
            project: name.to_owned(),
            asked: answer.is_some(),
        }
        .into()),
    }
}
