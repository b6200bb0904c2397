use clap::Args;
use elevo_api as api;
use elevo_workspace::State;

use crate::client::names::{AgentNames, Noun, find_some};
use crate::client::paths::WORKSPACES;
use crate::client::workspace::{run_with_global, workspace_shape, workspace_state};
use crate::client::{Call, Where, pages};
use crate::commands::ws::side::Side;
use crate::errors::Exit;
use crate::global::Global;
use crate::local::workspaces::{WorkspaceCall, WorkspaceShape};
use crate::output::format::{self, first_line, short, short_id};
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List workspaces.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo ws ls
  elevo ws ls -l                           with complete ids and directories
  elevo ws ls --json | jq -r 'select(.state == \"live\") | .path'
  elevo ws ls --project site               workspaces of a project
  elevo ws ls --parked                     workspaces kept after the end of their sandbox")]
pub(super) struct Ls {
    /// List the workspaces of a project, from a server
    #[arg(long, value_name = "NAME")]
    project: Option<String>,

    /// List the workspaces that a server keeps after the end of their sandbox
    #[arg(long)]
    parked: bool,

    /// Show complete ids and directories
    #[arg(short, long)]
    long: bool,

    #[command(flatten)]
    at: Where,
}

/// A list of the workspaces of a store.
#[derive(Debug)]
pub(super) struct OfStore {
    long: bool,
}

/// A list of workspaces that a server has.
#[derive(Debug)]
pub(super) struct OfServer {
    at: Where,
    project: Option<String>,
    parked: bool,
    long: bool,
}

impl Ls {
    /// Decides where the workspaces are: on a server if `--project` or
    /// `--parked` is given, otherwise in a store.
    pub(super) fn side(self) -> Side<OfStore, OfServer> {
        match self.project.is_some() || self.parked {
            false => Side::Store(OfStore { long: self.long }),
            true => Side::Server(OfServer {
                at: self.at,
                project: self.project,
                parked: self.parked,
                long: self.long,
            }),
        }
    }
}

pub(super) fn run_on_store(call: &mut WorkspaceCall, args: &OfStore) -> anyhow::Result<()> {
    let workspaces = call.open_to_read()?;
    let records = workspaces.list()?;
    let mut heading = vec!["ID", "STATE", "BASE", "CREATED"];
    heading.extend(args.long.then_some("PATH"));
    let mut table = Table::wide(&heading, args.long);
    for record in &records {
        if call.session.output.is_json() {
            let shape = WorkspaceShape::new(&workspaces, record)?;
            call.session.output.value(&shape)?;
            continue;
        }
        let state = match record.state {
            State::Live => record.provider.name(),
            State::Parked => "parked",
        };
        let mut row = vec![
            record.id.to_string(),
            state.to_owned(),
            short(record.base),
            format::local_brief(record.created),
        ];
        if args.long {
            let shape = WorkspaceShape::new(&workspaces, record)?;
            row.push(shape.path.unwrap_or_else(|| "-".into()));
        }
        table.row(row);
    }
    if call.session.output.is_json() {
        return Ok(());
    }
    if records.is_empty() {
        call.session
            .note("there are no workspaces; `elevo ws create` creates one");
        return Ok(());
    }
    table.print(&mut call.session.output)
}

/// Lists the workspaces of a project, the parked ones, or the parked ones of a
/// project.
pub(super) fn run_on_server(args: &OfServer, global: &Global) -> anyhow::Result<Exit> {
    let parked = args.parked;
    run_with_global(&args.at, global, |call| {
        let project = find_some(call, Noun::Project, args.project.as_ref())?;
        let mut query = Vec::new();
        query.extend(project.clone().map(|project| ("project", project)));
        query.extend(parked.then(|| ("state", "parked".to_owned())));
        let agents = AgentNames::request(call);
        let mut heading = vec!["ID", "NAME", "AGENT", "MERGES", "CREATED", "STATE"];
        heading.extend(args.long.then_some("PATH"));
        let mut table = Table::wide(&heading, args.long);
        let take = |call: &mut Call, items: Vec<api::Workspace>| {
            for workspace in &items {
                match call.output.is_json() {
                    true => call.output.value(&workspace_shape(workspace)?)?,
                    false => table.row(row(workspace, &agents, args.long)),
                }
            }
            Ok(())
        };
        let found = pages(call, &WORKSPACES, &query, take)?;
        match (call.output.is_json(), found) {
            (true, _) => {}
            (false, 0) => call.note(&match project.filter(|_| !parked) {
                Some(project) => {
                    let project = first_line(&project);
                    format!(
                        "there are no workspaces; `elevo ws create --project {project}` creates one"
                    )
                }
                None => "there are no workspaces".to_owned(),
            }),
            (false, _) => table.print(&mut call.output)?,
        }
        Ok(Exit::Done)
    })
}

fn row(workspace: &api::Workspace, agents: &AgentNames, long: bool) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
    let id = match long {
        true => workspace.id.clone(),
        false => short_id(&workspace.id),
    };
    let mut row = vec![
        id,
        text(&workspace.name),
        agents.or_dash(workspace.agent.as_deref()),
        workspace.merges.to_string(),
        relative(&workspace.created_at),
        workspace_state(workspace),
    ];
    row.extend(long.then(|| text(&workspace.path)));
    row
}
