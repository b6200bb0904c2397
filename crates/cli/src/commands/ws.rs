//! The commands of `elevo ws`: workspaces of a store on this machine, and
//! workspaces of projects on a server.

mod create;
mod diff;
mod exec;
mod fork;
mod ls;
mod merge;
mod merge_local;
mod park;
mod path;
mod pull;
mod restore;
mod resume;
mod rm;
#[cfg(target_os = "linux")]
mod serve;
mod shell;
mod show;
mod side;
mod snapshot;
mod status;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use elevo_workspace::WorkspaceId;

use crate::client::Where;
use crate::errors::Exit;
use crate::global::Global;
use crate::local::caller::Caller;
use crate::local::session::Session;
use crate::local::store_location::find_workspace_store;
use crate::local::workspaces::{WorkspaceCall, is_on_server};
use crate::output::reader_left;
use crate::server_socket;
use side::Side;

#[cfg(target_os = "linux")]
pub(crate) use exec::entered;

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
clones of files, or with --provider rootless it is an overlay that only `exec`
can enter. `elevo doctor` shows which providers work here.

Workspaces of a store on this machine need no server. Workspaces of projects are
on a server (`elevo up`): `pull` uses it, and so do `create`, `ls` and `rm` with
--project, and `merge` of such a workspace. It also parks the workspaces of expired
sandboxes, which `ls` and `rm` find with --parked.

Examples:
  cd \"$(elevo ws create)\"                  create one of the newest commit
  elevo ws create try-1 --from v1 --limit 2G
  elevo ws fork try-1 try-2 try-3          copy its current files, twice
  elevo ws exec try-2 -- make test         run a command in it
  elevo ws diff -p try-2                   print its changes as a patch
  elevo ws snapshot try-2 -m \"it works\"    save it
  elevo ws merge try-2 --rm                merge it into head, and delete it
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

/// The commands of `elevo ws`, each defined in its own file.
#[derive(Debug, Subcommand)]
enum WsCommand {
    Create(create::Create),
    #[command(alias = "list")]
    Ls(ls::Ls),
    Show(show::Show),
    Path(path::Path),
    Exec(exec::Exec),
    Shell(shell::Shell),
    Status(status::Status),
    Diff(diff::Diff),
    Snapshot(snapshot::Snapshot),
    Fork(fork::Fork),
    Park(park::Park),
    Resume(resume::Resume),
    Restore(restore::Restore),
    #[command(alias = "delete")]
    Rm(rm::Rm),
    #[cfg(target_os = "linux")]
    Serve(serve::Serve),
    Merge(merge::Merge),
    Pull(pull::Pull),
}

/// A command on the workspaces of a store.
#[derive(Debug)]
enum StoreCommand {
    Create(create::OfStore),
    Ls(ls::OfStore),
    Show(show::Show),
    Path(path::Path),
    Exec(exec::ExecCall),
    Status(status::Status),
    Diff(diff::Diff),
    Snapshot(snapshot::Snapshot),
    Fork(fork::Fork),
    Park(park::Park),
    Resume(resume::Resume),
    Rm(rm::OfStore),
    Merge(merge_local::OfStore),
    #[cfg(target_os = "linux")]
    Serve(serve::Serve),
}

/// A command on workspaces that a server has.
#[derive(Debug)]
enum ServerCommand {
    Create(create::OfServer),
    Ls(ls::OfServer),
    Rm(rm::OfServer),
    Diff(diff::Diff),
    Snapshot(snapshot::Snapshot),
    Fork(fork::Fork),
    Park(park::Park),
    Resume(resume::Resume),
    Restore(restore::Restore),
    Merge(merge::Merge),
    Pull(pull::Pull),
}

impl WsCommand {
    /// Decides whether the command works on a store or on a server.
    fn side(self, global: &Global, root: Option<&Path>) -> Side<StoreCommand, ServerCommand> {
        use Side::{Server, Store};
        let is_remote = |at: &Where, id: Option<&WorkspaceId>| {
            at.is_given() || (root.is_none() && is_on_server(global, id))
        };
        match self {
            Self::Create(args) => match args.side() {
                Store(args) => Store(StoreCommand::Create(args)),
                Server(args) => Server(ServerCommand::Create(args)),
            },
            Self::Ls(args) => match args.side() {
                Store(args) => Store(StoreCommand::Ls(args)),
                Server(args) => Server(ServerCommand::Ls(args)),
            },
            Self::Rm(args) => match args.side() {
                Store(args) => Store(StoreCommand::Rm(args)),
                Server(args) => Server(ServerCommand::Rm(args)),
            },
            Self::Path(args) => Store(StoreCommand::Path(args)),
            Self::Show(args) => Store(StoreCommand::Show(args)),
            Self::Exec(args) => Store(StoreCommand::Exec(args.call())),
            Self::Shell(args) => Store(StoreCommand::Exec(args.call())),
            Self::Status(args) => Store(StoreCommand::Status(args)),
            Self::Diff(args) => match is_remote(&args.at(), args.id.as_ref()) {
                true => Server(ServerCommand::Diff(args)),
                false => Store(StoreCommand::Diff(args)),
            },
            Self::Snapshot(args) => match is_remote(&args.at, args.id.as_ref()) {
                true => Server(ServerCommand::Snapshot(args)),
                false => Store(StoreCommand::Snapshot(args)),
            },
            Self::Fork(args) => match is_remote(&args.at, args.id.as_ref()) {
                true => Server(ServerCommand::Fork(args)),
                false => Store(StoreCommand::Fork(args)),
            },
            Self::Park(args) => match is_remote(&args.at, args.id.as_ref()) {
                true => Server(ServerCommand::Park(args)),
                false => Store(StoreCommand::Park(args)),
            },
            Self::Resume(args) => match is_remote(&args.at, Some(&args.id)) {
                true => Server(ServerCommand::Resume(args)),
                false => Store(StoreCommand::Resume(args)),
            },
            #[cfg(target_os = "linux")]
            Self::Serve(args) => Store(StoreCommand::Serve(args)),
            Self::Merge(args) => match args.side(global, root) {
                Store(args) => Store(StoreCommand::Merge(args)),
                Server(args) => Server(ServerCommand::Merge(args)),
            },
            Self::Restore(args) => Server(ServerCommand::Restore(args)),
            Self::Pull(args) => Server(ServerCommand::Pull(args)),
        }
    }
}

impl StoreCommand {
    const fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "ws create",
            Self::Ls(_) => "ws ls",
            Self::Path(_) => "ws path",
            Self::Show(_) => "ws show",
            Self::Exec(_) => "ws exec",
            Self::Status(_) => "ws status",
            Self::Diff(_) => "ws diff",
            Self::Snapshot(_) => "ws snapshot",
            Self::Fork(_) => "ws fork",
            Self::Park(_) => "ws park",
            Self::Resume(_) => "ws resume",
            Self::Rm(_) => "ws rm",
            Self::Merge(_) => "ws merge",
            #[cfg(target_os = "linux")]
            Self::Serve(_) => "ws serve",
        }
    }

    fn run(self, call: &mut WorkspaceCall) -> anyhow::Result<Exit> {
        let done = |()| Exit::Done;
        match self {
            Self::Create(args) => create::run_on_store(call, args).map(done),
            Self::Ls(args) => ls::run_on_store(call, &args).map(done),
            Self::Path(args) => path::run(call, &args).map(done),
            Self::Show(args) => show::run(call, &args).map(done),
            Self::Exec(args) => exec::run(call, &args),
            Self::Status(args) => status::run(call, &args).map(done),
            Self::Diff(args) => diff::run(call, args),
            Self::Snapshot(args) => snapshot::run(call, args).map(done),
            Self::Fork(args) => fork::run(call, args).map(done),
            Self::Park(args) => park::run(call, args).map(done),
            Self::Resume(args) => resume::run(call, &args).map(done),
            Self::Rm(args) => rm::run_on_store(call, &args),
            Self::Merge(args) => merge_local::run(call, args),
            #[cfg(target_os = "linux")]
            Self::Serve(args) => serve::run(call, &args).map(done),
        }
    }

    /// Whether the command runs in this process even if a server holds the store.
    fn is_always_here(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Serve(_) => true,
            _ => false,
        }
    }
}

impl ServerCommand {
    fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match self {
            Self::Create(args) => create::run_on_server(args, global),
            Self::Ls(args) => ls::run_on_server(&args, global),
            Self::Rm(args) => rm::run_on_server(&args, global),
            Self::Diff(args) => diff::run_on_server(args, global),
            Self::Snapshot(args) => snapshot::run_on_server(args, global),
            Self::Fork(args) => fork::run_on_server(args, global),
            Self::Park(args) => park::run_on_server(args, global),
            Self::Resume(args) => resume::run_on_server(args, global),
            Self::Restore(args) => restore::run(args, global),
            Self::Merge(args) => merge::run(args, global),
            Self::Pull(args) => pull::run(args, global),
        }
    }
}

impl Ws {
    /// Whether the command exits with the code of a program that it runs.
    pub(crate) fn ends_as_another(&self) -> bool {
        matches!(self.command, WsCommand::Exec(_) | WsCommand::Shell(_))
    }

    /// Decides whether the command works on a store or on a server.
    fn side(self) -> Side<WsOfStore, (ServerCommand, Global)> {
        match self.command.side(&self.global, self.workspaces.as_deref()) {
            Side::Server(command) => Side::Server((command, self.global)),
            Side::Store(command) => Side::Store(WsOfStore {
                global: self.global,
                workspaces: self.workspaces,
                command,
            }),
        }
    }

    /// Returns the command if it works on a store.
    pub(crate) fn of_store(self) -> Option<WsOfStore> {
        match self.side() {
            Side::Store(command) => Some(command),
            Side::Server(_) => None,
        }
    }
}

/// Runs a command in this process, on a server, or in the server that holds the
/// store and its workspaces.
pub(crate) fn run(ws: Ws) -> anyhow::Result<Exit> {
    match ws.side() {
        Side::Server((command, global)) => command.run(&global),
        Side::Store(command) => command.run(),
    }
}

/// A command on the workspaces of a store, with its options.
#[derive(Debug)]
pub(crate) struct WsOfStore {
    global: Global,
    workspaces: Option<PathBuf>,
    command: StoreCommand,
}

impl WsOfStore {
    fn run(self) -> anyhow::Result<Exit> {
        let caller = Caller::local()?;
        if self.command.is_always_here() {
            return self.run_for(caller);
        }
        let store = find_workspace_store(&self.global, &caller.here);
        if let (StoreCommand::Exec(args), Ok(store)) = (&self.command, &store)
            && server_socket::serves(store)
        {
            let mut options = vec![OsString::from("--store"), store.into()];
            if let Some(root) = self.workspaces {
                options.extend(["--workspaces".into(), root.into()]);
            }
            return exec::run_served(args, &options, self.global.json);
        }
        match server_socket::call(store, &caller, false)? {
            Some(exit) => Ok(exit),
            None => self.run_for(caller),
        }
    }

    /// Runs the command for a caller.
    pub(crate) fn run_for(self, caller: Caller) -> anyhow::Result<Exit> {
        let session = Session::new(self.global, self.command.name(), caller);
        let mut call = WorkspaceCall::new(session, self.workspaces.as_deref())?;
        let result = self.command.run(&mut call).and_then(|exit| {
            call.session.output.finish()?;
            Ok(exit)
        });
        match result {
            Err(error) if reader_left(&error) => Ok(Exit::Done),
            other => other,
        }
    }
}
