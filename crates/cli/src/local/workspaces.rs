//! A command that runs on the workspaces of a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use elevo_core::{ID_BYTES, Id};
use elevo_engine::{Progress, Repository};
use elevo_workspace::{
    LazyServer, Options, ProviderKind, Record, Snapshotted, State, WorkspaceId, Workspaces,
};
use serde::Serialize;
use serde_json::json;

use crate::errors::{LocalProblem, WorkspaceProblem};
use crate::global::Global;
use crate::local::caller::{HeldStore, WorkspaceUser};
use crate::local::layout::workspaces_beside;
use crate::local::session::Session;
#[cfg(target_os = "linux")]
use crate::local::snapshot_server;
use crate::local::store_location::{Around, StoreLocation, find_workspace_location};
use crate::output::IDENTITY;
use crate::output::format::{self, short};
use crate::output::progress::{self, Watch};
use crate::output::saved_snapshot::{describe_loss, loss_shape};

/// A command that runs on the workspaces of a store.
pub(crate) struct WorkspaceCall {
    pub(crate) session: Session,
    pub(crate) location: StoreLocation,
    /// Directory of the workspaces.
    pub(crate) root: PathBuf,
}

/// Share of the free disk space that a pool of uppers may use.
const POOL_SHARE: f64 = 0.8;

/// Maximum bytes of unused layers that are kept.
const SPARE_LAYERS: u64 = 16 << 30;

impl WorkspaceCall {
    /// Finds the store and the directory of its workspaces, which is `root` if
    /// that is given.
    pub(crate) fn new(session: Session, root: Option<&Path>) -> Result<Self, LocalProblem> {
        let location = session.workspace_place()?;
        let root = match (root, session.held(&location)) {
            (Some(path), _) => session.path(path),
            (None, Some(held)) => held.workspaces.clone(),
            (None, None) => workspaces_beside(&location.store),
        };
        Ok(Self {
            session,
            location,
            root,
        })
    }

    /// Opens the workspaces of an open store.
    pub(crate) fn open(
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
            hidden_mounts: false,
            node: None,
        };
        Ok(Workspaces::open(&self.root, repository, &options)?)
    }

    #[cfg(target_os = "linux")]
    fn lazy_server(&self) -> anyhow::Result<Option<Arc<dyn LazyServer>>> {
        Ok(Some(Arc::new(snapshot_server::SnapshotProcesses {
            program: std::env::current_exe()?,
            store: self.location.store.clone(),
            workspaces: self.root.clone(),
        })))
    }

    #[cfg(not(target_os = "linux"))]
    fn lazy_server(&self) -> anyhow::Result<Option<Arc<dyn LazyServer>>> {
        Ok(None)
    }

    /// The server's open store, if these are its workspaces.
    pub(crate) fn held(&self) -> Option<&Arc<HeldStore>> {
        let held = self.session.held(&self.location);
        held.filter(|held| held.workspaces == self.root)
    }

    /// Returns an error if a sandbox or a project uses the workspace.
    pub(crate) fn check_free(&self, id: &WorkspaceId) -> Result<(), WorkspaceProblem> {
        match self.held() {
            Some(held) => match (held.used_by)(id.as_str()) {
                WorkspaceUser::Nobody => Ok(()),
                WorkspaceUser::Sandbox => Err(WorkspaceProblem::InSandbox(id.as_str().to_owned())),
                WorkspaceUser::Project => Err(WorkspaceProblem::InProject(id.as_str().to_owned())),
                WorkspaceUser::Parked => {
                    Err(WorkspaceProblem::ParkedOnServer(id.as_str().to_owned()))
                }
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

    pub(crate) fn open_to_read(&self) -> anyhow::Result<Workspaces> {
        let repository = self.session.view_of(&self.location)?.repository;
        self.open(repository, None, false)
    }

    pub(crate) fn open_to_write(&self) -> anyhow::Result<Workspaces> {
        let repository = self.session.write(&self.location)?;
        self.open(repository, None, false)
    }

    /// Finds a workspace: the one with this id, the only one whose id starts with
    /// it, or the one around the current directory.
    pub(crate) fn find(
        &self,
        workspaces: &Workspaces,
        given: Option<&WorkspaceId>,
    ) -> anyhow::Result<WorkspaceId> {
        let Some(given) = given else {
            return self.around();
        };
        let records = workspaces.list()?;
        let fits = |id: &&WorkspaceId| id.as_str().starts_with(given.as_str());
        let ids: Vec<_> = records.iter().map(|it| &it.id).filter(fits).collect();
        match &ids[..] {
            [one] => Ok((*one).clone()),
            several if several.len() > 1 && !several.contains(&given) => {
                Err(WorkspaceProblem::Ambiguous {
                    text: given.to_string(),
                    candidates: several.iter().map(ToString::to_string).collect(),
                }
                .into())
            }
            _ => Ok(given.clone()),
        }
    }

    /// The workspace around the current directory.
    fn around(&self) -> anyhow::Result<WorkspaceId> {
        let inside = match &self.location.around {
            Around::Workspace(inside) if inside.root == self.root => inside.id.clone(),
            _ => None,
        };
        let here = self.session.here();
        inside.ok_or_else(|| WorkspaceProblem::NoWorkspaceHere(here.into()).into())
    }

    /// Runs `work` with a progress bar.
    pub(crate) fn watch<T>(&self, doing: &'static str, work: impl FnOnce(&Progress) -> T) -> T {
        let progress = Progress::new();
        let watch = Watch {
            doing,
            things: "entries",
            total: None,
            counts: || (progress.entries(), progress.bytes()),
        };
        progress::watch(self.session.hides_progress(), watch, || work(&progress))
    }

    /// Prints the path of a workspace, or its id if it is private and has no path.
    pub(crate) fn print_path(
        &mut self,
        workspaces: &Workspaces,
        record: &Record,
    ) -> anyhow::Result<()> {
        let shape = WorkspaceShape::new(workspaces, record)?;
        if self.session.output.is_json() {
            self.session.output.value(&shape)?;
        } else {
            let line = shape.path.unwrap_or(shape.id);
            self.session.output.line(line)?;
        }
        Ok(())
    }
}

/// A workspace as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkspaceShape {
    id: String,
    state: State,
    provider: ProviderKind,
    pub(crate) path: Option<String>,
    start: String,
    base: String,
    created_at: String,
    limit: Option<u64>,
}

impl WorkspaceShape {
    pub(crate) fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    pub(crate) fn new(workspaces: &Workspaces, record: &Record) -> anyhow::Result<Self> {
        let path = match record.state {
            State::Live => match workspaces.path(&record.id) {
                Err(elevo_workspace::Error::Private(_)) => None,
                path => Some(path?),
            },
            State::Parked => None,
        };
        Ok(Self {
            id: record.id.to_string(),
            state: record.state,
            provider: record.provider,
            path: path.map(|path| path.to_string_lossy().into_owned()),
            start: record.start.to_string(),
            base: record.base.to_string(),
            created_at: format::rfc3339(record.created),
            limit: record.limit,
        })
    }
}

/// Whether a command on a workspace is for a server: the directory has no store,
/// or a server owns the store and created the workspace.
pub(crate) fn is_on_server(global: &Global, id: Option<&WorkspaceId>) -> bool {
    let Ok(here) = std::env::current_dir() else {
        return false;
    };
    let Ok(location) = find_workspace_location(global, &here) else {
        return id.is_some();
    };
    let id = match (id, &location.around) {
        (Some(id), _) => Some(id),
        (None, Around::Workspace(inside)) => inside.id.as_ref(),
        (None, _) => None,
    };
    let is_created_there = |id: &WorkspaceId| {
        let mut forms = ["ws-", "sbx-"].iter();
        forms.any(|form| elevo_core::is_id_text(form, id))
    };
    id.is_some_and(is_created_there) && location.is_of_server().unwrap_or(false)
}

/// Whether a store that no server owns has a live workspace: the one with this id
/// or prefix, or the one around the current directory.
pub(crate) fn is_live_in_store(
    global: &Global,
    root: Option<&Path>,
    id: Option<&WorkspaceId>,
) -> bool {
    let Ok(here) = std::env::current_dir() else {
        return false;
    };
    let Ok(location) = find_workspace_location(global, &here) else {
        return false;
    };
    if location.is_of_server().unwrap_or(false) {
        return false;
    }
    let root = match root {
        Some(root) => here.join(root),
        None => workspaces_beside(&location.store),
    };
    match (id, &location.around) {
        (None, Around::Workspace(inside)) => inside.root == root && inside.id.is_some(),
        (None, _) => false,
        (Some(id), _) => std::fs::read_dir(root.join("live")).is_ok_and(|entries| {
            let mut names = entries.flatten().map(|entry| entry.file_name());
            names.any(|name| name.to_string_lossy().starts_with(id.as_str()))
        }),
    }
}

/// Returns a random id.
pub(crate) fn new_workspace_id() -> anyhow::Result<WorkspaceId> {
    let mut random = [0; ID_BYTES];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(WorkspaceId::from_bytes(&random))
}

/// Prints the snapshot of a workspace and the losses. `done` is the verb.
/// `is_described` is whether the caller gave a message or labels for it.
pub(crate) fn print_snapshotted(
    call: &mut WorkspaceCall,
    id: &WorkspaceId,
    taken: &Snapshotted,
    done: &str,
    is_described: bool,
) -> anyhow::Result<()> {
    for loss in &taken.losses {
        call.session.note(&describe_loss(loss));
    }
    let output = &mut call.session.output;
    if output.is_json() {
        let losses: Vec<_> = taken.losses.iter().map(loss_shape).collect();
        output.value(&json!({
            "workspace": id.as_str(),
            "snapshot": taken.id.to_string(),
            "changed": taken.is_new,
            "losses": losses,
        }))?;
    } else {
        let snapshot = output.styled(IDENTITY, short(taken.id));
        let text = match taken.is_new {
            true => format!("{done} {id} as "),
            false => format!("{done} {id}, unchanged since "),
        };
        output.line([text.as_bytes(), &snapshot].concat())?;
    }
    if is_described && !taken.is_new {
        let id = short(taken.id);
        call.session.note(&format!(
            "no snapshot was created, so the message and labels were not saved; `elevo tag NAME \
             {id}` names the last one"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_ids_are_ids_and_differ() {
        assert_ne!(new_workspace_id().unwrap(), new_workspace_id().unwrap());
    }
}
