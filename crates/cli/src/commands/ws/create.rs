use clap::Args;
use elevo_api as api;
use elevo_api::parse_limit;
use elevo_workspace::{ProviderKind, WorkspaceId};

use crate::client::Where;
use crate::client::names::{Noun, find, find_some};
use crate::client::paths::WORKSPACES;
use crate::client::project_state::resolve_some;
use crate::client::workspace::{run_with_global, workspace_shape};
use crate::commands::ws::side::Side;
use crate::errors::{Exit, WorkspaceProblem};
use crate::global::Global;
use crate::local::revision::HEAD;
use crate::local::workspace_places;
use crate::local::workspaces::{WorkspaceCall, new_workspace_id};
use crate::options::sync::Sync;
use crate::output::format::{self, first_line};

/// Create a workspace and print its directory.
#[derive(Debug, Args)]
#[command(after_help = "\
With --limit, the changes are kept in a pool: a btrfs volume next to the
workspaces, created if necessary in a file of up to four fifths of the free
space. A write beyond the limit fails as on a full disk. All forks of such a
workspace have the files of the same moment, even if commands write to it. Needs
root and `mkfs.btrfs`.

With --provider rootless it is an overlay without root, which only commands of
`elevo ws exec` see: its id is printed, because it has no directory. With
rootless-lazy, files are fetched when they are read; needs `fusermount3`.

With --project, a server creates the workspace, and the store is not used. REV
is then a state of the project, and the directory is on the server's machine.

Examples:
  elevo ws create                     of the newest commit
  elevo ws create try-1 --from v1     of a tag, with a name
  elevo ws create --limit 2G          with at most 2 GiB of changes
  elevo ws create --provider copy     with copies of all files
  elevo ws exec \"$(elevo ws create --provider rootless)\" -- make test
  elevo ws create --project site      of a project, on a server; `merge` merges
                                      its changes
  elevo ws create --project site --from 3 --read-only --sync lazy")]
pub(super) struct Create {
    /// Name of the workspace, of the characters a-z, 0-9 and -; random by default.
    /// With --project, the name can be any text, and is optional
    name: Option<String>,

    /// Snapshot to start with; by default `head`
    #[arg(long, value_name = "REV")]
    from: Option<String>,

    /// Provider: overlay, lazy, reflink or copy, by default the first that works;
    /// or rootless or rootless-lazy
    #[arg(long, conflicts_with = "project")]
    provider: Option<ProviderKind>,

    /// Maximum size of the changes: bytes, or with K, M, G or T
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    limit: Option<u64>,

    /// User on the server's machine who works in it, by name or number
    #[arg(long, value_name = "USER", requires = "project")]
    owner: Option<String>,

    #[command(flatten)]
    on: OnProject,

    #[command(flatten)]
    at: Where,
}

/// Options of a new workspace of a project.
#[derive(Debug, Args)]
struct OnProject {
    /// Create a workspace of a project, on a server
    #[arg(long, value_name = "NAME")]
    project: Option<String>,

    /// Agent that works in it; by default that of the key
    #[arg(long, value_name = "AGENT", requires = "project")]
    agent: Option<String>,

    /// Make the workspace read-only
    #[arg(long, requires = "project")]
    read_only: bool,

    /// When the workspace is refreshed and merged
    #[arg(long, value_name = "MODE", requires = "project")]
    sync: Option<Sync>,
}

/// A new workspace of a store.
#[derive(Debug)]
pub(super) struct OfStore {
    revision: Option<String>,
    id: Option<String>,
    provider: Option<ProviderKind>,
    limit: Option<u64>,
}

/// A new workspace of a project, on a server.
#[derive(Debug)]
pub(super) struct OfServer {
    at: Where,
    project: String,
    /// A state of the project; the newest by default.
    state: Option<String>,
    limit: Option<u64>,
    name: Option<String>,
    owner: Option<String>,
    agent: Option<String>,
    read_only: bool,
    sync: Option<Sync>,
}

impl Create {
    /// Decides where the workspace is created: on a server if a project is
    /// given, otherwise in a store.
    pub(super) fn side(self) -> Side<OfStore, OfServer> {
        let on = self.on;
        match on.project {
            None => Side::Store(OfStore {
                revision: self.from,
                id: self.name,
                provider: self.provider,
                limit: self.limit,
            }),
            Some(project) => Side::Server(OfServer {
                at: self.at,
                project,
                state: self.from,
                limit: self.limit,
                name: self.name,
                owner: self.owner,
                agent: on.agent,
                read_only: on.read_only,
                sync: on.sync,
            }),
        }
    }
}

pub(super) fn run_on_store(call: &mut WorkspaceCall, args: OfStore) -> anyhow::Result<()> {
    if args.provider.is_some_and(ProviderKind::is_private) && call.held().is_some() {
        return Err(WorkspaceProblem::PrivateOfServer.into());
    }
    let view = call.session.view_of(&call.location)?;
    let (base, _) = view.resolve(args.revision.as_deref().unwrap_or(HEAD))?;
    let needs_pool = args.limit.is_some();
    let workspaces = call.open(view.repository, args.provider, needs_pool)?;
    let id = match args.id {
        Some(text) => text
            .parse::<WorkspaceId>()
            .map_err(WorkspaceProblem::InvalidName)?,
        None => new_workspace_id()?,
    };
    if call.held().is_none() {
        workspace_places::record_place(&call.location.store, &call.root)?;
    }
    call.watch("creating the workspace", |progress| {
        workspaces.create(&id, base, format::now(), args.limit, progress)
    })?;
    let record = workspaces.get(&id)?;
    call.print_path(&workspaces, &record)
}

/// Creates a workspace of a project, and prints its directory.
pub(super) fn run_on_server(args: OfServer, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.at.clone(), global, |call| {
        let project = find(call, Noun::Project, &args.project)?;
        let snapshot = resolve_some(call, &project, args.state.as_ref())?;
        let wish = api::CreateWorkspace {
            project,
            agent: find_some(call, Noun::Agent, args.agent.as_ref())?,
            name: args.name,
            snapshot,
            disk: args.limit.map(|bytes| bytes.to_string()),
            owner: args.owner,
            read_only: args.read_only,
            sync: args.sync.map(Into::into).unwrap_or_default(),
        };
        let asking = call.client.create(&WORKSPACES, &wish);
        let made: api::Workspace = call.watch("creating the workspace", asking)?;
        if call.output.is_json() {
            call.output.value(&workspace_shape(&made)?)?;
            return Ok(Exit::Done);
        }
        call.output.line(made.path.as_deref().unwrap_or_default())?;
        call.output.finish()?;
        let id = first_line(&made.id);
        call.note(&match made.read_only {
            true => format!("the workspace is {id}; it is read-only"),
            false => format!("the workspace is {id}; `elevo ws merge {id}` merges its changes"),
        });
        Ok(Exit::Done)
    })
}
