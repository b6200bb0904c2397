use std::path::PathBuf;

use clap::{Args, ValueEnum};
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find_some};
use crate::client::pages::items;
use crate::client::paths::sandbox_path;
use crate::client::project_state::resolve_some;
use crate::errors::SandboxProblem;
use crate::input::duration::seconds;
use crate::input::file::absolute_text;
use crate::input::variable::{pair, variable};
use crate::options::network::Network;
use crate::options::sync::Sync;
use crate::output::sandbox::print_sandbox_ids;

/// Action on the workspace of a sandbox that expires.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnExpiry {
    /// Park the workspace if it has changes that were neither merged nor snapshotted
    Park,
    /// Delete the workspace
    Delete,
}

impl From<OnExpiry> for api::OnExpiry {
    fn from(action: OnExpiry) -> Self {
        match action {
            OnExpiry::Park => Self::Park,
            OnExpiry::Delete => Self::Delete,
        }
    }
}

/// Create a sandbox and print its id.
#[derive(Debug, Args)]
#[command(after_help = "\
Returns when the sandbox can run commands. A limit that the server cannot
enforce is rejected, never ignored. Without TEMPLATE, a fork uses the template
of its origin; otherwise there must be exactly one template.

Examples:
  id=$(elevo sandbox create python:3.11)
  elevo sandbox create python:3.11 --name try-1 --memory 512m --network none
  elevo sandbox create python:3.11 --metadata run=7
  elevo sandbox create python:3.11 --directory ~/project    copy a directory
  elevo sandbox create python:3.11 --snapshot 1a2b…         start with a snapshot
  elevo sandbox create python:3.11 --project site --sync event
  elevo sandbox create --fork \"$id\"                         copy another sandbox
  elevo sandbox create --workspace sbx-…                    resume a parked one")]
pub(super) struct Create {
    /// Template of the sandbox; `elevo template ls` lists them
    template: Option<String>,

    /// Name of the sandbox; need not be unique
    #[arg(long)]
    name: Option<String>,

    /// Environment variable for all commands in it; can be repeated
    #[arg(long = "env", short, value_name = "NAME=VALUE", value_parser = variable)]
    envs: Vec<(String, String)>,

    /// Pair of metadata that labels it; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,

    /// Number of processors, such as 2 or 0.5
    #[arg(long, value_name = "N")]
    cpu: Option<String>,

    /// Memory, such as 512m or 2g
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,

    /// Maximum size of the changes in its workspace
    #[arg(long, value_name = "SIZE")]
    disk: Option<String>,

    /// Maximum number of processes
    #[arg(long, value_name = "N")]
    pids: Option<u32>,

    /// Network access; by default the server's setting
    #[arg(long)]
    network: Option<Network>,

    /// OCI runtime of the engine, such as runsc
    #[arg(long, value_name = "NAME")]
    runtime: Option<String>,

    /// Time until the sandbox expires: seconds, or with s, m, h or d; 1h by default
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    timeout: Option<u32>,

    /// Action on its workspace when it expires; park by default
    #[arg(long, value_name = "ACTION")]
    on_expiry: Option<OnExpiry>,

    /// Snapshot to start with; by default the workspace is empty
    #[arg(long, value_name = "ID", group = "source")]
    snapshot: Option<String>,

    /// Directory on the server's machine to copy
    #[arg(long, value_name = "PATH", group = "source")]
    directory: Option<PathBuf>,

    /// Sandbox to fork: the new one gets its current files and its disk limit
    #[arg(long, value_name = "SANDBOX", group = "source")]
    fork: Option<String>,

    /// Project to create a workspace of, which `elevo ws merge` merges
    #[arg(long, value_name = "NAME", group = "source")]
    project: Option<String>,

    /// Parked workspace to continue in; `elevo ws ls --parked` lists them
    #[arg(long, value_name = "WORKSPACE", group = "source")]
    workspace: Option<String>,

    /// State of the project; the newest by default
    #[arg(long, value_name = "REV", requires = "project")]
    at: Option<String>,

    /// Agent that works on the project; by default that of the key
    #[arg(long, value_name = "AGENT", requires = "project")]
    agent: Option<String>,

    /// Make the project's files read-only
    #[arg(long, requires = "project")]
    read_only: bool,

    /// When the workspace is refreshed and merged
    #[arg(long, value_name = "MODE", requires = "project")]
    sync: Option<Sync>,
}

pub(super) fn run(call: &mut Call, args: Create) -> anyhow::Result<()> {
    let fork = find_some(call, Noun::Sandbox, args.fork.as_ref())?;
    let parked = find_some(call, Noun::Workspace, args.workspace.as_ref())?;
    let agent = find_some(call, Noun::Agent, args.agent.as_ref())?;
    let template = match (args.template, &fork) {
        (Some(template), _) => template,
        (None, Some(origin)) => {
            let path = sandbox_path(origin, &[]);
            call.wait(call.client.get::<api::Sandbox>(&path))?.template
        }
        (None, None) => only_template(call)?,
    };
    let workspace = match (args.snapshot, args.directory, fork, args.project) {
        _ if parked.is_some() => parked.map(api::WorkspaceSource::Existing),
        (Some(id), ..) => Some(api::WorkspaceSource::Snapshot(id)),
        (_, Some(path), ..) => Some(api::WorkspaceSource::Directory(absolute_text(path)?)),
        (_, _, Some(id), _) => Some(api::WorkspaceSource::Fork(id)),
        (_, _, _, Some(name)) => Some(api::WorkspaceSource::Project(api::ProjectSource {
            snapshot: resolve_some(call, &name, args.at.as_ref())?,
            name,
            agent,
            read_only: args.read_only,
            sync: args.sync.map(Into::into).unwrap_or_default(),
        })),
        _ => None,
    };
    let wish = api::CreateSandbox {
        template,
        name: args.name,
        envs: args.envs.into_iter().collect(),
        metadata: args.metadata.into_iter().collect(),
        timeout_seconds: args.timeout,
        on_expiry: args.on_expiry.map(Into::into),
        resources: api::Resources {
            cpu: args.cpu,
            memory: args.memory,
            disk: args.disk,
            pids: args.pids,
        },
        network: args.network.map(Into::into),
        runtime: args.runtime,
        workspace,
    };
    let asking = call.client.create(&["api", "v1", "sandboxes"], &wish);
    let made: api::Sandbox = call.watch("creating the sandbox", asking)?;
    print_sandbox_ids(call, std::slice::from_ref(&made))
}

/// Returns the name of the template if there is exactly one.
fn only_template(call: &Call) -> anyhow::Result<String> {
    let list: Vec<api::Template> = call.wait(items(
        &call.client,
        &["api", "v1", "templates"],
        &[],
        usize::MAX,
    ))?;
    let mut names = list.into_iter().map(|template| template.name);
    match (names.next(), names.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(SandboxProblem::NoTemplate.into()),
        (Some(_), Some(_)) => Err(SandboxProblem::WhichTemplate.into()),
    }
}
