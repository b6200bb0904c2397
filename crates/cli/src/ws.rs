//! The commands of `elevo ws`: workspaces of a store on this machine, and
//! workspaces of projects on a server.

mod keep;
#[cfg(target_os = "linux")]
mod lazy;
mod look;
mod make;
pub(crate) mod places;
mod run;
mod served;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use elevo_engine::{Progress, Repository};
use elevo_workspace::{LazyServer, Options, ProviderKind, Record, State, WorkspaceId, Workspaces};
use serde::Serialize;

use crate::bar::{self, Watch};
use crate::caller::{Caller, Held, User};
use crate::errors::{Exit, Problem};
use crate::format;
use crate::global::Global;
use crate::output::reader_left;
use crate::server_socket;
use crate::session::{Place, Session, find_workspace_store};

#[cfg(target_os = "linux")]
pub(crate) use run::entered;
pub(crate) use served::Sync;

/// Manage workspaces: directories for agents, created from snapshots.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A workspace is an ordinary directory with the files of a snapshot, for one
agent. Its changes can be listed, saved as a snapshot, forked, parked (kept in
the store only) and discarded. As root it is an overlay mount, which takes
milliseconds to create for a tree of any size; without root it has copies or
clones of files, or with --provider rootless it is an overlay that only `run`
can enter. `elevo doctor` shows which providers work here.

Workspaces of a store on this machine need no server. Workspaces of projects are
on a server (`elevo up`): `merge`, `complete` and `refresh` use it, and so do
`create`, `ls` and `rm` with --project. It also parks the workspaces of expired
sandboxes, which `ls` and `rm` find with --parked.

Examples:
  cd \"$(elevo ws create)\"                  create one of the newest commit
  elevo ws create v1 --id try-1 --limit 2G
  elevo ws fork try-1 try-2 try-3          copy its current files, twice
  elevo ws run try-2 -- make test          run a command in it
  elevo ws diff -p try-2                   print its changes as a patch
  elevo ws snapshot try-2 -m \"it works\"    save it
  elevo ws rm try-1 try-3
  cd \"$(elevo ws create --project site)\"   create a workspace of a project
  elevo ws merge -m \"a better page\"        merge its changes into the project"
)]
pub(crate) struct Ws {
    #[command(flatten)]
    pub(crate) global: Global,

    /// Directory of the workspaces; by default next to the store
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "ELEVO_WORKSPACES",
        hide_env_values = true,
        help_heading = "Common options"
    )]
    workspaces: Option<PathBuf>,

    #[command(subcommand)]
    command: WsCommand,
}

/// The commands of `elevo ws`, each defined in a module of its area.
#[derive(Debug, Subcommand)]
enum WsCommand {
    Create(make::Create),
    Ls(look::Ls),
    Path(look::Path),
    Run(run::Run),
    Status(look::Status),
    Diff(look::Diff),
    Snapshot(keep::Snapshot),
    Fork(make::Fork),
    Park(keep::Park),
    Resume(make::Resume),
    Rm(make::Rm),
    #[cfg(target_os = "linux")]
    Serve(lazy::Serve),
    #[command(flatten)]
    Served(served::Served),
}

impl WsCommand {
    const fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "ws create",
            Self::Ls(_) => "ws ls",
            Self::Path(_) => "ws path",
            Self::Run(_) => "ws run",
            Self::Status(_) => "ws status",
            Self::Diff(_) => "ws diff",
            Self::Snapshot(_) => "ws snapshot",
            Self::Fork(_) => "ws fork",
            Self::Park(_) => "ws park",
            Self::Resume(_) => "ws resume",
            Self::Rm(_) => "ws rm",
            #[cfg(target_os = "linux")]
            Self::Serve(_) => "ws serve",
            Self::Served(_) => "ws merge",
        }
    }
}

impl Ws {
    /// Whether the exit code is that of a command it runs.
    pub(crate) fn ends_as_another(&self) -> bool {
        matches!(self.command, WsCommand::Run(_))
    }
}

/// A command that runs on the workspaces of a store.
struct Call {
    session: Session,
    place: Place,
    root: PathBuf,
}

/// Runs a command in this process, or in the server that holds the store and its
/// workspaces.
pub(crate) fn run(ws: Ws) -> anyhow::Result<Exit> {
    let (command, global) = (ws.command, &ws.global);
    let command = match command {
        WsCommand::Served(served) => return served::run(served, global),
        WsCommand::Create(args) if args.is_served() => return args.ask(global),
        WsCommand::Ls(args) if args.is_served() => return args.ask(global),
        WsCommand::Rm(args) if args.is_served() => return args.ask(global),
        // Always in this process, also if a server holds the store.
        #[cfg(target_os = "linux")]
        WsCommand::Serve(_) => {
            let ws = Ws { command, ..ws };
            return run_for(ws, Caller::local()?);
        }
        local => local,
    };
    let caller = Caller::local()?;
    let store = find_workspace_store(global, &caller.here);
    if let (WsCommand::Run(args), Ok(store)) = (&command, &store)
        && server_socket::serves(store)
    {
        let mut options = vec![OsString::from("--store"), store.into()];
        if let Some(root) = ws.workspaces {
            options.extend(["--workspaces".into(), root.into()]);
        }
        return run::run_served(args, &options, global.json);
    }
    let ws = Ws { command, ..ws };
    match server_socket::call(store, &caller, false)? {
        Some(code) => Ok(code),
        None => run_for(ws, caller),
    }
}

/// Runs a command for a caller.
pub(crate) fn run_for(ws: Ws, caller: Caller) -> anyhow::Result<Exit> {
    let session = Session::new(ws.global, ws.command.name(), caller);
    let place = session.workspace_place()?;
    let root = match (ws.workspaces, session.held(&place)) {
        (Some(path), _) => session.path(&path),
        (None, Some(held)) => held.workspaces.clone(),
        (None, None) => places::beside(&place.store),
    };
    let mut call = Call {
        session,
        place,
        root,
    };
    let done = |()| Exit::Done;
    let result = match ws.command {
        WsCommand::Served(_) => Err(Problem::NotHere.into()),
        WsCommand::Create(args) if args.is_served() => Err(Problem::NotHere.into()),
        WsCommand::Ls(args) if args.is_served() => Err(Problem::NotHere.into()),
        WsCommand::Rm(args) if args.is_served() => Err(Problem::NotHere.into()),
        WsCommand::Create(args) => make::create(&mut call, args).map(done),
        WsCommand::Ls(_) => look::ls(&mut call).map(done),
        WsCommand::Path(args) => look::path(&mut call, &args).map(done),
        WsCommand::Run(args) => run::run(&mut call, &args),
        WsCommand::Status(args) => look::status(&mut call, &args).map(done),
        WsCommand::Diff(args) => look::diff(&mut call, args),
        WsCommand::Snapshot(args) => keep::snapshot(&mut call, args).map(done),
        WsCommand::Fork(args) => make::fork(&mut call, args).map(done),
        WsCommand::Park(args) => keep::park(&mut call, args).map(done),
        WsCommand::Resume(args) => make::resume(&mut call, &args).map(done),
        WsCommand::Rm(args) => make::rm(&mut call, &args),
        #[cfg(target_os = "linux")]
        WsCommand::Serve(args) => lazy::serve(&mut call, &args).map(done),
    };
    let result = result.and_then(|code| {
        call.session.output.finish()?;
        Ok(code)
    });
    match result {
        Err(error) if reader_left(&error) => Ok(Exit::Done),
        other => other,
    }
}

/// Share of the free disk space that a pool of uppers may use.
const POOL_SHARE: f64 = 0.8;
/// Maximum bytes of unused layers that are kept.
const SPARE_LAYERS: u64 = 16 << 30;

impl Call {
    /// Opens the workspaces of an open store.
    fn open(
        &self,
        repository: Repository,
        provider: Option<ProviderKind>,
        needs_pool: bool,
    ) -> anyhow::Result<Workspaces> {
        if let Some(held) = self.held() {
            let options = Options {
                provider: provider.or(held.options.provider),
                ..held.options.clone()
            };
            return Ok(Workspaces::open(&self.root, repository, &options)?);
        }
        let has_pool = self.root.join("uppers").is_dir();
        let pool = (has_pool || needs_pool).then(|| self.room());
        let options = Options {
            threads: self.session.threads(),
            provider,
            spare_layers: SPARE_LAYERS,
            pool,
            owner: None,
            lazy: self.lazy_server()?,
        };
        Ok(Workspaces::open(&self.root, repository, &options)?)
    }

    #[cfg(target_os = "linux")]
    fn lazy_server(&self) -> anyhow::Result<Option<Arc<dyn LazyServer>>> {
        Ok(Some(Arc::new(lazy::Processes {
            program: std::env::current_exe()?,
            store: self.place.store.clone(),
            workspaces: self.root.clone(),
        })))
    }

    #[cfg(not(target_os = "linux"))]
    fn lazy_server(&self) -> anyhow::Result<Option<Arc<dyn LazyServer>>> {
        Ok(None)
    }

    /// The server's open store, if these are its workspaces.
    fn held(&self) -> Option<&Arc<Held>> {
        let held = self.session.held(&self.place);
        held.filter(|held| held.workspaces == self.root)
    }

    /// Returns an error if a sandbox or a project uses the workspace.
    fn check_free(&self, id: &WorkspaceId) -> Result<(), Problem> {
        match self.held() {
            Some(held) => match (held.used_by)(id.as_str()) {
                User::Nobody => Ok(()),
                User::Sandbox => Err(Problem::InSandbox(id.as_str().to_owned())),
                User::Project => Err(Problem::InProject(id.as_str().to_owned())),
                User::Parked => Err(Problem::ParkedOnServer(id.as_str().to_owned())),
            },
            None => Ok(()),
        }
    }

    fn room(&self) -> u64 {
        let above = self.root.ancestors().find(|above| above.exists());
        let free = above.and_then(|above| rustix::fs::statvfs(above).ok());
        free.map_or(0, |free| {
            (free.f_bavail as f64 * free.f_frsize as f64 * POOL_SHARE) as u64
        })
    }

    fn open_to_read(&self) -> anyhow::Result<Workspaces> {
        let repository = self.session.view_of(&self.place)?.repository;
        self.open(repository, None, false)
    }

    fn open_to_write(&self) -> anyhow::Result<Workspaces> {
        let repository = self.session.write(&self.place)?;
        self.open(repository, None, false)
    }

    /// Runs `work` with a progress bar.
    fn watch<T>(&self, doing: &'static str, work: impl FnOnce(&Progress) -> T) -> T {
        let progress = Progress::new();
        let watch = Watch {
            doing,
            things: "entries",
            total: None,
            counts: || (progress.entries(), progress.bytes()),
        };
        bar::watch(self.session.hides_progress(), watch, || work(&progress))
    }

    /// Prints the path of a workspace, or its id if it is private and has no path.
    fn print_path(&mut self, workspaces: &Workspaces, record: &Record) -> anyhow::Result<()> {
        let shape = WorkspaceShape::new(workspaces, record)?;
        if self.session.output.is_json() {
            self.session.output.value(&shape)?;
        } else {
            let line = shape.path.unwrap_or(shape.workspace);
            self.session.output.line(line)?;
        }
        Ok(())
    }
}

/// A workspace as JSON.
#[derive(Debug, Serialize)]
struct WorkspaceShape {
    workspace: String,
    state: State,
    provider: ProviderKind,
    path: Option<String>,
    base: String,
    created: String,
    limit: Option<u64>,
}

impl WorkspaceShape {
    fn new(workspaces: &Workspaces, record: &Record) -> anyhow::Result<Self> {
        let path = match record.state {
            State::Live => match workspaces.path(&record.id) {
                Err(elevo_workspace::Error::Private(_)) => None,
                path => Some(path?),
            },
            State::Parked => None,
        };
        Ok(Self {
            workspace: record.id.to_string(),
            state: record.state,
            provider: record.provider,
            path: path.map(|path| path.to_string_lossy().into_owned()),
            base: record.base.to_string(),
            created: format::rfc3339(record.created),
            limit: record.limit,
        })
    }
}
