//! Creates, forks, resumes and deletes workspaces.

use clap::Args;
use elevo_workspace::{Error, NeverFreeze, ProviderKind, State, WorkspaceId, Workspaces};
use serde_json::json;

use super::served::{self, OnProject};
use super::{Call, places};
use crate::client::Where;
use crate::errors::{Exit, Problem, Protected};
use crate::format::{self, size};
use crate::global::Global;
use crate::output::reader_left;
use crate::revision::HEAD;
use crate::service::not_removed;
use crate::state::about::About;

/// Create a workspace and print its directory.
#[derive(Debug, Args)]
#[command(after_help = "\
With --limit, the changes are kept in a pool: a btrfs volume next to the
workspaces, created if necessary in a file of up to four fifths of the free
space. A write beyond the limit fails as on a full disk. All forks of such a
workspace have the files of the same moment, even if commands write to it. Needs
root and `mkfs.btrfs`.

With --provider rootless it is an overlay without root, which only commands of
`elevo ws run` see: its id is printed, because it has no directory. With
rootless-lazy, files are fetched when they are read; needs `fusermount3`.

With --project, a server creates the workspace, and the store is not used. REV
is then a state of the project, and the directory is on the server's machine.

Examples:
  elevo ws create                     of the newest commit
  elevo ws create v1 --id try-1       of a tag, with an id
  elevo ws create --limit 2G          with at most 2 GiB of changes
  elevo ws create --provider copy     with copies of all files
  elevo ws run \"$(elevo ws create --provider rootless)\" -- make test
  elevo ws create --project site      of a project, on a server; `merge` merges
                                      its changes
  elevo ws create --project site 3 --read-only --sync lazy")]
pub(super) struct Create {
    /// Snapshot to start with; by default `head`
    #[arg(value_name = "REV")]
    revision: Option<String>,

    /// Id of the workspace: a-z, 0-9 and -; by default a new one
    #[arg(long, conflicts_with = "project")]
    id: Option<WorkspaceId>,

    /// Provider: overlay, lazy, reflink or copy, by default the first that works;
    /// or rootless or rootless-lazy
    #[arg(long, conflicts_with = "project")]
    provider: Option<ProviderKind>,

    /// Maximum size of the changes: bytes, or with K, M, G or T
    #[arg(long, value_name = "SIZE", value_parser = size)]
    limit: Option<u64>,

    /// Name of a workspace of a project; need not be unique
    #[arg(long, requires = "project")]
    name: Option<String>,

    /// User on the server's machine who works in it, by name or number
    #[arg(long, value_name = "USER", requires = "project")]
    owner: Option<String>,

    #[command(flatten)]
    on: OnProject,

    #[command(flatten)]
    at: Where,
}

impl Create {
    /// Whether a server creates the workspace.
    pub(super) fn is_served(&self) -> bool {
        self.on.project.is_some()
    }

    /// Runs the command against a server.
    pub(super) fn ask(self, global: &Global) -> anyhow::Result<Exit> {
        let wish = served::Wish {
            project: self.on.project.clone().unwrap_or_default(),
            on: self.on,
            name: self.name,
            snapshot: self.revision,
            disk: self.limit,
            owner: self.owner,
        };
        served::create(&self.at, global, wish)
    }
}

pub(super) fn create(call: &mut Call, args: Create) -> anyhow::Result<()> {
    if args.provider.is_some_and(ProviderKind::is_private) && call.held().is_some() {
        return Err(Problem::PrivateOfServer.into());
    }
    let view = call.session.view_of(&call.place)?;
    let (base, _) = view.resolve(args.revision.as_deref().unwrap_or(HEAD))?;
    let needs_pool = args.limit.is_some();
    let workspaces = call.open(view.repository, args.provider, needs_pool)?;
    let id = args.id.map_or_else(new_id, Ok)?;
    if call.held().is_none() {
        places::note(&call.place.store, &call.root)?;
    }
    call.watch("creating the workspace", |progress| {
        workspaces.create(&id, base, format::now(), args.limit, progress)
    })?;
    let record = workspaces.get(&id)?;
    call.print_path(&workspaces, &record)
}

/// Create workspaces with the current files of another; print their directories.
#[derive(Debug, Args)]
#[command(after_help = "\
Forks include changes that are in no snapshot. If the workspace has a limit (and
so is in the pool), all forks have the same limit and the files of the same
moment, and no snapshot is created. Otherwise a snapshot is created first, and a
file that is written at the same time has its state of some moment during the
snapshot.

Examples:
  elevo ws fork try-1                  create one fork, with a new id
  elevo ws fork try-1 try-2 try-3      create two forks")]
pub(super) struct Fork {
    /// The workspace
    id: WorkspaceId,

    /// Ids of the forks; by default one fork with a new id
    #[arg(value_name = "NEW")]
    into: Vec<WorkspaceId>,

    #[command(flatten)]
    about: About,
}

pub(super) fn fork(call: &mut Call, args: Fork) -> anyhow::Result<()> {
    let workspaces = call.open_to_write()?;
    let into = match args.into.is_empty() {
        true => vec![new_id()?],
        false => args.into,
    };
    let info = args.about.into_info(&call.session, Vec::new(), None);
    call.watch("forking", |progress| {
        workspaces.fork(&args.id, &into, info, &NeverFreeze, progress)
    })?;
    for id in &into {
        let record = workspaces.get(id)?;
        call.print_path(&workspaces, &record)?;
    }
    Ok(())
}

/// Restore the directory of a parked workspace, and print it.
#[derive(Debug, Args)]
#[command(after_help = "\
The directory is as it was when the workspace was parked, including modification
times.

Examples:
  elevo ws resume try-1
  cd \"$(elevo ws resume try-1)\"")]
pub(super) struct Resume {
    /// The workspace
    id: WorkspaceId,
}

pub(super) fn resume(call: &mut Call, args: &Resume) -> anyhow::Result<()> {
    let workspaces = call.open_to_read()?;
    call.watch("creating the workspace", |progress| {
        workspaces.resume(&args.id, progress)
    })?;
    let record = workspaces.get(&args.id)?;
    call.print_path(&workspaces, &record)
}

/// Delete workspaces with their files.
#[derive(Debug, Args)]
#[command(after_help = "\
To delete a workspace with changes that are in no snapshot, or that have not
landed in its project, confirm the question on a terminal, or use --discard.
Snapshots stay in the store. If a workspace cannot be deleted, the command
reports it and deletes the others.

Examples:
  elevo ws rm try-1 try-2
  elevo ws rm --discard try-1              discard its unsaved changes
  elevo ws ls --json | jq -r .workspace | xargs elevo ws rm
  elevo ws rm --project site ws-…
  elevo ws rm --parked sbx-…               a workspace that outlived its sandbox")]
pub(super) struct Rm {
    /// The workspaces
    #[arg(required = true, value_name = "ID")]
    ids: Vec<WorkspaceId>,

    /// Discard changes without a question
    #[arg(long)]
    discard: bool,

    /// Delete workspaces of a project, on a server
    #[arg(long, value_name = "NAME", conflicts_with = "parked")]
    project: Option<String>,

    /// Delete workspaces that a server keeps after the end of their sandbox
    #[arg(long)]
    parked: bool,

    #[command(flatten)]
    at: Where,
}

impl Rm {
    /// Whether the workspaces are on a server.
    pub(super) fn is_served(&self) -> bool {
        self.project.is_some() || self.parked
    }

    /// Runs the command against a server.
    pub(super) fn ask(self, global: &Global) -> anyhow::Result<Exit> {
        let ids: Vec<_> = self.ids.iter().map(ToString::to_string).collect();
        let project = self.project.as_deref();
        served::rm(&self.at, global, project, &ids, self.discard)
    }
}

pub(super) fn rm(call: &mut Call, args: &Rm) -> anyhow::Result<Exit> {
    let workspaces = call.open_to_read()?;
    let mut first = None;
    for id in &args.ids {
        match remove(call, &workspaces, id, args.discard) {
            Ok(()) => {}
            Err(error) if reader_left(&error) => return Err(error),
            Err(error) => {
                let error = error.context(not_removed(id.as_str()));
                let failed = call.session.report(&error)?;
                first.get_or_insert(failed);
            }
        }
    }
    // Stops the processes that served snapshots for these workspaces.
    workspaces.tidy()?;
    Ok(first.unwrap_or(Exit::Done))
}

fn remove(
    call: &mut Call,
    workspaces: &Workspaces,
    id: &WorkspaceId,
    discard: bool,
) -> anyhow::Result<()> {
    call.check_free(id)?;
    if !discard {
        check_kept(call, workspaces, id)?;
    }
    call.watch("deleting", |_| workspaces.remove(id))?;
    let output = &mut call.session.output;
    match output.is_json() {
        true => output.value(&json!({ "removed": id.as_str() }))?,
        false => output.line(format!("Removed {id}"))?,
    }
    Ok(())
}

/// Returns an error if the workspace has changes that are in no snapshot, unless
/// the user confirms the deletion.
fn check_kept(call: &Call, workspaces: &Workspaces, id: &WorkspaceId) -> anyhow::Result<()> {
    if workspaces.get(id)?.state == State::Parked {
        return Ok(());
    }
    let changes = call.watch("looking", |progress| workspaces.changes(id, progress));
    let changes = changes.map_err(|source| match source {
        busy @ (Error::Busy(_) | Error::InUse { .. }) => anyhow::Error::from(busy),
        source => {
            let (id, source) = (id.to_string(), source.into());
            Protected::ChangesUnknown { id, source }.into()
        }
    })?;
    if changes.is_empty() {
        return Ok(());
    }
    let question = format!("`{id}` has changes that are in no snapshot. Delete it with them?");
    match call.session.ask(&question)? {
        Some(true) => Ok(()),
        _ => Err(Protected::Unsaved(id.to_string()).into()),
    }
}

/// Returns a random id.
fn new_id() -> anyhow::Result<WorkspaceId> {
    const LETTERS: &[u8] = b"abcdefghjkmnpqrstvwxyz0123456789";
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let letters = random.map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
    Ok(format!("ws-{}", String::from_iter(letters)).parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_an_optional_unit() {
        for (text, bytes) in [("1", 1), ("2k", 2048), ("3MB", 3 << 20), ("4G", 4 << 30)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "G", "1.5G", "-1", "0", "9X", "99999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn new_ids_are_ids_and_differ() {
        assert_ne!(new_id().unwrap(), new_id().unwrap());
    }
}
