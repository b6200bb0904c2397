//! The files of workspaces, with or without a sandbox: snapshots, restores,
//! differences, archives and single files.

pub(crate) mod content;
pub(crate) mod diff;
pub(crate) mod elsewhere;
pub(crate) mod place;
pub(crate) mod saving;
pub(crate) mod single;
pub(crate) mod target;
pub(crate) mod uploads;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_archive::{Limits, Received};
use elevo_catalog::Catalog;
use elevo_core::{ErrorCode, Name};
use elevo_engine::{CommitInfo, ImportOptions, Loss, Progress, Repository};
use elevo_objects::SnapshotId;
use elevo_workspace::Owner;
use futures::executor::block_on;

use crate::app::access::principal::Principal;
use crate::app::files::target::{Need, WorkspaceRef};
use crate::app::resources::Resources;
use crate::app::sandboxes::Sandboxes;
use crate::app::sandboxes::freezer::Freezer;
use crate::app::sandboxes::locks::SandboxLocks;
use crate::app::snapshots::records::TakenSnapshot;
use crate::app::snapshots::{Snapshots, info, losses_out, tree_text};
use crate::app::tenant_stores::TenantStores;
use crate::app::workspaces::Workspaces;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::platform::archive::{self, ArchiveError, Rules};
use crate::platform::room::Room;

/// The message of snapshots that were created from archives.
const IMPORTED: &str = "imported from an archive";

/// Saves, restores, transfers and compares the files of workspaces, and imports
/// archives as snapshots.
pub(crate) struct Files {
    catalog: Arc<dyn Catalog>,
    config: Arc<Config>,
    freezer: Arc<Freezer>,
    locks: Arc<SandboxLocks>,
    room: Arc<Room>,
    stores: Arc<TenantStores>,
    sandboxes: Arc<Sandboxes>,
    snapshots: Arc<Snapshots>,
    /// Locks of workspaces, by id: only one request at a time checks the state
    /// of a file and changes it.
    turns: SandboxLocks,
    workspaces: Arc<Workspaces>,
}

impl Files {
    pub(crate) fn new(
        resources: &Resources,
        sandboxes: &Arc<Sandboxes>,
        snapshots: &Arc<Snapshots>,
        workspaces: &Arc<Workspaces>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            config: resources.config.clone(),
            freezer: resources.freezer.clone(),
            locks: resources.locks.clone(),
            room: resources.room.clone(),
            sandboxes: sandboxes.clone(),
            snapshots: snapshots.clone(),
            stores: resources.stores.clone(),
            turns: SandboxLocks::default(),
            workspaces: workspaces.clone(),
        }
    }

    /// Creates a snapshot from an archive.
    pub(crate) async fn import_archive(
        &self,
        who: &Principal,
        from: impl io::Read + Send + 'static,
    ) -> Result<api::SnapshotTaken> {
        who.needs(Scope::Files)?;
        let repository = self.stores.repository(who.tenant);
        let info = info(who, IMPORTED.into());
        let limits = archive::limits(self.config.limits.max_archive);
        let imported = self.stores.blocking(who.tenant, move || {
            let received = receive(&repository, from, limits)?;
            let tree = block_on(received.state.tree())?;
            let id = block_on(received.state.commit(info))?;
            Ok((id, tree, received.losses))
        });
        let (id, tree, losses) = imported.await?;
        let taken = TakenSnapshot {
            id,
            tree,
            workspace: None,
            message: IMPORTED.into(),
            name: None,
        };
        self.snapshots.record(who, taken).await?;
        Ok(api::SnapshotTaken {
            id: id.to_string(),
            tree: tree_text(&tree),
            is_new: true,
            not_kept: losses_out(&losses),
        })
    }

    /// Checks the request, and returns a future that writes a path of the
    /// workspace as a tar archive to `out`. The two parts are separate so that a
    /// rejected request gets an error and not a broken archive.
    pub(crate) async fn archive_out<W: io::Write + Send + 'static>(
        &self,
        who: &Principal,
        of: WorkspaceRef,
        path: &str,
        out: W,
    ) -> Result<impl Future<Output = Result<()>> + Send + use<W>> {
        who.needs(Scope::Files)?;
        let place = self.archive_place(who, of, Need::Transfer, path).await?;
        let pack = move || Ok(archive::pack(&place.root, &place.path, out)?);
        let turn = self.stores.shares.packing(who.tenant).await?;
        Ok(turn.run(pack))
    }

    /// Unpacks a tar archive at a path of a workspace. Returns the number of
    /// entries.
    pub(crate) async fn archive_in(
        &self,
        who: &Principal,
        of: WorkspaceRef,
        path: &str,
        from: impl io::Read + Send + 'static,
    ) -> Result<u64> {
        who.needs(Scope::Files)?;
        // Without the lock, another request could park the workspace meanwhile,
        // and lose files that are unpacked after its snapshot.
        let held = match &of {
            WorkspaceRef::Workspace(_) => Some(self.held(who, &of, Need::Write).await?.1),
            WorkspaceRef::Sandbox(_) => None,
        };
        let place = self.archive_place(who, of, Need::Write, path).await?;
        let ArchivePlace { root, path, .. } = place;
        let rules = Rules {
            owner: place.owner.map(|owner| (owner.uid, owner.gid)),
            limit: self.config.limits.max_archive,
        };
        let unpacking = move || {
            let _held = held;
            Ok(archive::unpack(&root, &path, from, rules)?)
        };
        self.stores.blocking(who.tenant, unpacking).await
    }

    async fn archive_place(
        &self,
        who: &Principal,
        of: WorkspaceRef,
        need: Need,
        path: &str,
    ) -> Result<ArchivePlace> {
        let target = self.target(who, &of, need).await?;
        let relative = archive::relative(path);
        let path = relative.ok_or_else(|| Failure::invalid("`path` leads out of the workspace"))?;
        let id = target.id;
        let place = self.stores.with(target.tenant, move |workspaces| {
            let record = workspaces.get(&id)?;
            if record.read_only && need == Need::Write {
                return Err(elevo_workspace::Error::ReadOnly(id).into());
            }
            Ok(ArchivePlace {
                root: workspaces.path(&id)?,
                path,
                owner: record.owner,
            })
        });
        place.await
    }
}

/// The place of an archive in a workspace.
struct ArchivePlace {
    /// The directory of the workspace.
    root: PathBuf,
    /// The path below it.
    path: PathBuf,
    /// The owner of new files.
    owner: Option<Owner>,
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        let code = match error {
            ArchiveError::Archive(error) => return error.into(),
            ArchiveError::Io(_) => return Self::internal(&error),
            ArchiveError::NoSuchPath(_) | ArchiveError::NotADirectory(_) => ErrorCode::PathNotFound,
            ArchiveError::Refused { .. } | ArchiveError::Changed => ErrorCode::ArchiveRefused,
            ArchiveError::Full => ErrorCode::DiskFull,
        };
        Self::new(code, crate::failure::chain(&error))
    }
}

impl From<elevo_archive::Error> for Failure {
    fn from(error: elevo_archive::Error) -> Self {
        use elevo_archive::Error;
        let code = match error {
            Error::Engine(error) => return error.into(),
            Error::TooLarge(_) | Error::TooMany(_) => ErrorCode::PayloadTooLarge,
            Error::Write(_) => return Self::internal(&error),
            _ => ErrorCode::ArchiveRefused,
        };
        Self::new(code, crate::failure::chain(&error))
    }
}

/// Stores the files of an archive. The caller commits the result as a snapshot.
pub(crate) fn receive(
    repository: &Repository,
    from: impl io::Read + Send,
    limits: Limits,
) -> Result<Received> {
    let options = elevo_archive::ImportOptions {
        limits,
        base: None,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let received = elevo_archive::import(repository, from, &options, &Progress::new())?;
    Ok(received)
}

/// Stores the files of a directory as a snapshot, without entries that have the
/// reserved name. Returns the snapshot and the metadata that it could not keep.
pub(crate) fn import(
    repository: &Repository,
    path: &Path,
    info: CommitInfo,
) -> Result<(SnapshotId, Vec<Loss>)> {
    let options = ImportOptions {
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        leave_out: vec![Name::reserved()],
        ignoring: None,
    };
    let imported = elevo_engine::import(repository, path, &options, &Progress::new())?;
    let losses = imported.losses.clone();
    let id = block_on(imported.commit(repository, info))?;
    Ok((id, losses))
}
