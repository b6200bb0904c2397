//! Files as archives: imports an archive as a snapshot, and packs and unpacks
//! paths of a sandbox's workspace.

pub(crate) mod content;
pub(crate) mod diff;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_archive::{Limits, Received};
use elevo_core::{ErrorCode, Name, SandboxId};
use elevo_engine::{CommitInfo, ImportOptions, Loss, Progress, Repository};
use elevo_objects::SnapshotId;
use elevo_workspace::Owner;
use futures::executor::block_on;

use crate::app::access::principal::Principal;
use crate::app::resources::Resources;
use crate::app::sandboxes::Sandboxes;
use crate::app::snapshots::{Snapshots, info, losses_out};
use crate::app::tenant_stores::TenantStores;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::platform::archive::{self, ArchiveError, Rules};

/// Imports archives as snapshots, and transfers and compares the files of
/// sandboxes.
pub(crate) struct Files {
    config: Arc<Config>,
    stores: Arc<TenantStores>,
    sandboxes: Arc<Sandboxes>,
    snapshots: Arc<Snapshots>,
}

impl Files {
    pub(crate) fn new(
        resources: &Resources,
        sandboxes: &Arc<Sandboxes>,
        snapshots: &Arc<Snapshots>,
    ) -> Self {
        Self {
            config: resources.config.clone(),
            sandboxes: sandboxes.clone(),
            snapshots: snapshots.clone(),
            stores: resources.stores.clone(),
        }
    }

    /// Creates a snapshot from an archive.
    pub(crate) async fn import_archive(
        &self,
        who: &Principal,
        from: impl io::Read + Send + 'static,
    ) -> Result<api::Imported> {
        who.needs(Scope::Files)?;
        let repository = self.stores.repository(who.tenant);
        let info = info(who, "imported from an archive".into());
        let limits = archive::limits(self.config.limits.max_archive);
        let imported = self.stores.blocking(who.tenant, move || {
            let received = receive(&repository, from, limits)?;
            let id = block_on(received.state.commit(info))?;
            Ok((id, received.losses))
        });
        let (id, losses) = imported.await?;
        Ok(api::Imported {
            snapshot_id: id.to_string(),
            not_kept: losses_out(&losses),
        })
    }

    /// Checks the request, and returns a future that writes a path of the
    /// workspace as a tar archive to `out`. The two parts are separate so that a
    /// rejected request gets an error and not a broken archive.
    pub(crate) async fn archive_out<W: io::Write + Send + 'static>(
        &self,
        who: &Principal,
        id: &SandboxId,
        path: &str,
        out: W,
    ) -> Result<impl Future<Output = Result<()>> + Send + use<W>> {
        who.needs(Scope::Files)?;
        let (root, path, _) = self.archive_place(who, id, path).await?;
        let pack = move || Ok(archive::pack(&root, &path, out)?);
        let turn = self.stores.shares.packing(who.tenant).await?;
        Ok(turn.run(pack))
    }

    /// Unpacks a tar archive at a path of a workspace. Returns the number of
    /// entries.
    pub(crate) async fn archive_in(
        &self,
        who: &Principal,
        id: &SandboxId,
        path: &str,
        from: impl io::Read + Send + 'static,
    ) -> Result<u64> {
        who.needs(Scope::Files)?;
        who.needs(Scope::SandboxesWrite)?;
        let (root, path, owner) = self.archive_place(who, id, path).await?;
        let rules = Rules {
            owner: owner.map(|owner| (owner.uid, owner.gid)),
            limit: self.config.limits.max_archive,
        };
        let unpacking = move || Ok(archive::unpack(&root, &path, from, rules)?);
        self.stores.blocking(who.tenant, unpacking).await
    }

    /// Returns the directory of a sandbox's workspace, `path` relative to it,
    /// and the owner of new files.
    async fn archive_place(
        &self,
        who: &Principal,
        id: &SandboxId,
        path: &str,
    ) -> Result<(PathBuf, PathBuf, Option<Owner>)> {
        let sandbox = self.sandboxes.visible(who, id).await?;
        let relative = archive::relative(path);
        let relative =
            relative.ok_or_else(|| Failure::invalid("`path` leads out of the workspace"))?;
        let workspace = sandbox.workspace.clone();
        let root = self.stores.with(sandbox.tenant, move |workspaces| {
            let owner = workspaces.get(&workspace)?.owner;
            Ok((workspaces.path(&workspace)?, owner))
        });
        let (root, owner) = root.await?;
        Ok((root, relative, owner))
    }
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
