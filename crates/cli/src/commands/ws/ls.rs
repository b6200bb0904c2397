use clap::Args;
use elevo_api as api;
use elevo_workspace::State;

use crate::client::paths::WORKSPACES;
use crate::client::workspace::run_with_global;
use crate::client::{Where, pages};
use crate::commands::ws::side::Side;
use crate::errors::Exit;
use crate::global::Global;
use crate::local::workspaces::{WorkspaceCall, WorkspaceShape};
use crate::output::format::{self, first_line, short};
use crate::output::relative_time::relative;
use crate::output::table::Table;
use crate::output::{IDENTITY, STRONG};

/// List workspaces.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo ws ls
  elevo ws ls --json | jq -r 'select(.state == \"live\") | .path'
  elevo ws ls --project site               workspaces of a project
  elevo ws ls --parked                     those that outlived a sandbox")]
pub(super) struct Ls {
    /// List the workspaces of a project, from a server
    #[arg(long, value_name = "NAME")]
    project: Option<String>,

    /// List the workspaces that a server keeps after the end of their sandbox
    #[arg(long)]
    parked: bool,

    #[command(flatten)]
    at: Where,
}

/// A list of workspaces that a server has.
#[derive(Debug)]
pub(super) struct OfServer {
    at: Where,
    project: Option<String>,
    parked: bool,
}

impl Ls {
    /// Decides where the workspaces are: with a filter, on a server.
    pub(super) fn side(self) -> Side<(), OfServer> {
        match self.project.is_some() || self.parked {
            false => Side::Store(()),
            true => Side::Server(OfServer {
                at: self.at,
                project: self.project,
                parked: self.parked,
            }),
        }
    }
}

pub(super) fn run_on_store(call: &mut WorkspaceCall) -> anyhow::Result<()> {
    let workspaces = call.open_to_read()?;
    let records = workspaces.list()?;
    let longest = records.iter().map(|record| record.id.as_str().len()).max();
    let width = longest.unwrap_or_default();
    for record in &records {
        let output = &mut call.session.output;
        if output.is_json() {
            output.value(&WorkspaceShape::new(&workspaces, record)?)?;
            continue;
        }
        let name = output.styled(STRONG, format!("{:width$}", record.id.as_str()));
        let state = match record.state {
            State::Live => record.provider.name(),
            State::Parked => "parked",
        };
        let base = output.styled(IDENTITY, short(record.base));
        let created = format::local_brief(record.created);
        let state = format!("  {state:13} ");
        let line = [&name, state.as_bytes(), &base, b"  ", created.as_bytes()].concat();
        output.line(line)?;
    }
    if records.is_empty() {
        call.session
            .note("there are no workspaces; `elevo ws create` creates one");
    }
    Ok(())
}

/// Lists the workspaces of a project, the parked ones, or the parked ones of a
/// project.
pub(super) fn run_on_server(args: &OfServer, global: &Global) -> anyhow::Result<Exit> {
    let (project, parked) = (args.project.as_deref(), args.parked);
    run_with_global(&args.at, global, |call| {
        let mut query = Vec::new();
        query.extend(project.map(|project| ("project", project.to_owned())));
        query.extend(parked.then(|| ("state", "parked".to_owned())));
        let mut table = Table::new(&["ID", "NAME", "AGENT", "STATE", "MERGES", "CREATED", "PATH"]);
        let found = pages(
            call,
            &WORKSPACES,
            &query,
            |call, page: api::WorkspacePage| {
                for workspace in &page.items {
                    match call.output.is_json() {
                        true => call.output.value(workspace)?,
                        false => table.row(row(workspace)),
                    }
                }
                Ok((page.items.len(), page.next))
            },
        )?;
        match (call.output.is_json(), found) {
            (true, _) => {}
            (false, 0) => call.note(&match project.filter(|_| !parked) {
                Some(project) => {
                    let project = first_line(project);
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

fn row(workspace: &api::Workspace) -> [String; 7] {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
    let state = match (workspace.state, workspace.read_only) {
        (api::WorkspaceState::Parked, _) => "parked",
        (api::WorkspaceState::Live, true) => "read-only",
        (api::WorkspaceState::Live, false) => "live",
    };
    let place = match (&workspace.sandbox, &workspace.expires_at) {
        (Some(sandbox), _) => format!("in {sandbox}"),
        (None, Some(expires)) => format!("expires {}", relative(expires)),
        (None, None) => text(&workspace.path),
    };
    [
        workspace.id.clone(),
        text(&workspace.name),
        text(&workspace.agent),
        state.into(),
        workspace.merges.to_string(),
        relative(&workspace.created_at),
        place,
    ]
}
