//! Creates, lists, describes, renames and deletes projects.

use std::path::PathBuf;

use clap::Args;
use elevo_api as api;
use reqwest::Method;

use super::{policy, project_path, retention};
use crate::confirm;
use crate::errors::{Exit, Protected};
use crate::format::{self, count, first_line};
use crate::service::{Call, Table, field, pages, relative};

const PROJECTS: [&str; 3] = ["api", "v1", "projects"];

/// Create a project and print its id.
#[derive(Debug, Args)]
#[command(after_help = "\
The project is empty unless it starts with a snapshot; `import` adds files.
Without a policy, every agent may read and change all files.

Examples:
  elevo project create site
  elevo project create site --description \"The handbook\" --policy policy.json
  elevo project create site --from-snapshot \"$(elevo sandbox snapshot \"$id\")\"")]
pub(super) struct Create {
    /// Unique name of the project
    name: String,

    /// Description of the project
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Snapshot that the project starts with
    #[arg(long, value_name = "ID")]
    from_snapshot: Option<String>,

    /// File with the policy: JSON, or TOML if its name ends with .toml
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    /// Which versions keep their content: all, last:N, daily:N or named
    #[arg(long, value_name = "RULE", value_parser = retention::parse)]
    retention: Option<api::Retention>,
}

pub(super) fn create(call: &mut Call, args: Create) -> anyhow::Result<()> {
    let policy = args.policy.as_deref().map(policy::read).transpose()?;
    let wish = api::CreateProject {
        name: args.name,
        description: args.description,
        snapshot: args.from_snapshot,
        policy,
        retention: args.retention,
    };
    let asking = call.client.create(&PROJECTS, &wish);
    let made: api::Project = call.watch("creating the project", asking)?;
    match call.output.is_json() {
        true => call.output.value(&made)?,
        false => call.output.line(&made.id)?,
    }
    Ok(())
}

/// List projects, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo project ls
  elevo project ls --json | jq -r .name")]
pub(super) struct Ls {}

pub(super) fn ls(call: &mut Call) -> anyhow::Result<()> {
    let mut table = Table::new(&["NAME", "STEPS", "ENTRIES", "SIZE", "CHANGED", "DESCRIPTION"]);
    let found = pages(call, &PROJECTS, &[], |call, page: api::ProjectPage| {
        for project in &page.items {
            match call.output.is_json() {
                true => call.output.value(project)?,
                false => table.row([
                    project.name.clone(),
                    project.sequence.to_string(),
                    project
                        .entries
                        .map(|count| count.to_string())
                        .unwrap_or_default(),
                    project.bytes.map(format::bytes).unwrap_or_default(),
                    relative(&project.updated_at),
                    project.description.clone().unwrap_or_default(),
                ]),
            }
        }
        Ok((page.items.len(), page.next))
    })?;
    match (call.output.is_json(), found) {
        (true, _) => Ok(()),
        (false, 0) => {
            call.note("there are no projects; `elevo project create NAME` creates one");
            Ok(())
        }
        (false, _) => table.print(&mut call.output),
    }
}

/// Describe a project.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo project show site
  elevo project show site --json | jq -r .head")]
pub(super) struct Show {
    /// The project, by name or id
    name: String,
}

pub(super) fn show(call: &mut Call, args: &Show) -> anyhow::Result<()> {
    let found: api::Project = call.wait(call.client.get(&project_path(&args.name, &[])))?;
    print(call, &found)
}

fn print(call: &mut Call, project: &api::Project) -> anyhow::Result<()> {
    if call.output.is_json() {
        call.output.value(project)?;
        return Ok(());
    }
    let time = |time: &str| format!("{time} ({})", relative(time));
    let holds = project.entries.zip(project.bytes);
    let holds = holds.map(|(entries, bytes)| format::totals(entries, bytes));
    let lines = [
        ("name", project.name.clone()),
        ("id", project.id.clone()),
        ("for", project.description.clone().unwrap_or_default()),
        ("head", project.head.clone()),
        ("steps", project.sequence.to_string()),
        ("holds", holds.unwrap_or_default()),
        ("policy", format!("version {}", project.policy_version)),
        ("keeps", retention::words(project.retention)),
        ("created", time(&project.created_at)),
        ("changed", time(&project.updated_at)),
    ];
    for (name, value) in lines {
        if !value.is_empty() {
            field(call, name, &value)?;
        }
    }
    Ok(())
}

/// Give a project another name or description.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo project rename site handbook
  elevo project rename site --description \"Words for people\"")]
pub(super) struct Rename {
    /// The project, by name or id
    name: String,

    /// New name of the project
    #[arg(required_unless_present = "description")]
    new: Option<String>,

    /// New description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

pub(super) fn rename(call: &mut Call, args: Rename) -> anyhow::Result<()> {
    let wish = api::ChangeProject {
        name: args.new,
        description: args.description,
        retention: None,
    };
    let path = project_path(&args.name, &[]);
    let request = call.client.request(Method::PATCH, &path).json(&wish);
    let changed: api::Project = call.wait(call.client.json(request))?;
    print(call, &changed)
}

/// Delete projects with their workspaces, history and reviews.
#[derive(Debug, Args)]
#[command(after_help = "\
A deletion cannot be undone and has to be confirmed: by an answer on a terminal,
otherwise by --yes. If a project cannot be deleted, the command reports it and
deletes the others.

Examples:
  elevo project rm site                  asks first
  elevo project export site > site.tar && elevo project rm --yes site")]
pub(super) struct Rm {
    /// The projects, by name or id
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub(super) fn rm(call: &mut Call, args: &Rm) -> anyhow::Result<Exit> {
    call.each(&args.names, |call, name| {
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
        count(found.sequence, "step", "steps"),
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
