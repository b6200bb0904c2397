//! Creates backups of the whole server while it runs. [`crate::platform::backup`]
//! describes their content and the order of the steps.

mod directory;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use elevo_api as api;
use elevo_catalog::Catalog;
use elevo_catalog::{FoundCatalog, SqliteCatalog};
use elevo_core::{ErrorCode, TenantId};
use elevo_engine::{CommitInfo, Progress};
use elevo_store_local::LocalStore;
use elevo_workspace::{Error as WorkspaceError, Record, State, WorkspaceId};

use crate::app::maintenance::backups::directory::{BackupDirectory, not_written};
use crate::app::maintenance::collecting::Collecting;
use crate::app::resources::Resources;
use crate::app::sandboxes::freezer::Freezer;
use crate::app::sandboxes::locks::SandboxLocks;
use crate::app::tenant_stores::{self, TenantStores};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::platform::audit::{Audit, Entry};
use crate::platform::backup::manifest::Manifest;
use crate::platform::backup::{AUDIT, CATALOG, RESTORED, STORE, WORKSPACES, files};
use crate::platform::catalog_place::CatalogPlace;
use crate::platform::clock;

/// Maximum attempts to copy a workspace that another process uses.
const ATTEMPTS: u32 = 600;
/// Pause between two attempts.
const AGAIN: Duration = Duration::from_millis(50);

/// The records of workspaces, by tenant.
type Records = BTreeMap<TenantId, BTreeMap<WorkspaceId, Record>>;

/// The copies of the workspaces of one tenant.
#[derive(Debug, Default)]
struct Copies {
    records: Vec<Record>,
    /// Workspaces that were not parked. A restored server resumes them.
    live: Vec<WorkspaceId>,
    /// Workspaces that could not be read. The backup has only their last
    /// snapshots.
    unread: Vec<api::UnreadWorkspace>,
}

/// Creates backups of the whole server, and resumes workspaces after a restore.
pub(crate) struct Backups {
    local_store: Option<Arc<LocalStore>>,
    /// Held while a backup runs.
    turn: tokio::sync::Mutex<()>,
    audit: Arc<Audit>,
    catalog: Arc<dyn Catalog>,
    collecting: Arc<Collecting>,
    config: Arc<Config>,
    freezer: Arc<Freezer>,
    locks: Arc<SandboxLocks>,
    stores: Arc<TenantStores>,
}

impl Backups {
    pub(crate) fn new(resources: &Resources) -> Self {
        Self {
            local_store: resources.local_store.clone(),
            turn: tokio::sync::Mutex::default(),
            audit: resources.audit.clone(),
            catalog: resources.catalog.clone(),
            collecting: resources.collecting.clone(),
            config: resources.config.clone(),
            freezer: resources.freezer.clone(),
            locks: resources.locks.clone(),
            stores: resources.stores.clone(),
        }
    }

    /// Creates a backup. The backup continues if the client disconnects.
    pub(crate) async fn create(self: &Arc<Self>, wish: api::MakeBackup) -> Result<api::BackupMade> {
        let app = self.clone();
        let making = tokio::spawn(async move { app.back_up_now(&wish).await });
        making.await.map_err(|error| Failure::internal(&error))?
    }

    async fn back_up_now(&self, wish: &api::MakeBackup) -> Result<api::BackupMade> {
        let Ok(_turn) = self.turn.try_lock() else {
            let message = "another backup is being created";
            return Err(Failure::new(ErrorCode::CollectionRunning, message)
                .remediation("Wait until that backup is finished, and retry.")
                .retry_after(10));
        };
        if self.local_store.is_none() {
            let message = "the store of this server is in a database and a bucket";
            return Err(Failure::new(ErrorCode::StorageFailed, message).remediation(
                "Back up the database with its archived log, and keep the bucket as it is (see \
                 docs/operations.md).",
            ));
        }
        let data = self.config.data_dir.clone();
        let root = self.config.workspace_root.clone();
        let directory = PathBuf::from(&wish.directory);
        let place =
            tenant_stores::blocking(move || BackupDirectory::begin(&directory, [&data, &root]))
                .await?;
        let place = Arc::new(place);
        let begun = clock::now();
        // A garbage collection between the copy of the catalog and the copy of
        // the store could delete objects that the copied catalog needs.
        let still = self.collecting.pause().await;
        let catalog = self.copy_catalog_and_workspaces(&place).await?;
        let store = self.copy_store(place.clone()).await?;
        drop(still);
        let (audit, keep) = (self.config.data_dir.join(AUDIT), wish.keep);
        let unread = catalog.unread;
        let manifest = Manifest {
            installation: catalog.found.installation.unwrap_or_default(),
            generation: catalog.found.generation,
            begun: clock::text(begun),
            ended: String::new(),
            database: catalog.found.log_position,
            files: BTreeMap::new(),
        };
        let finishing = move || {
            copy_audit(&audit, &place.unfinished)?;
            place.finish(manifest, keep)
        };
        let (path, manifest, removed) = tenant_stores::blocking(finishing).await?;
        let made = api::BackupMade {
            backup: path.to_string_lossy().into_owned(),
            begun_at: manifest.begun.clone(),
            ended_at: manifest.ended.clone(),
            bytes: store.bytes + manifest.bytes(),
            new_bytes: store.new_bytes + manifest.bytes(),
            workspaces: catalog.workspaces,
            unread,
            removed,
            database: manifest.database,
        };
        self.note_backup(&made).await;
        Ok(made)
    }

    async fn note_backup(&self, made: &api::BackupMade) {
        tracing::info!(backup = made.backup, bytes = made.bytes, "created a backup");
        for workspace in &made.unread {
            let api::UnreadWorkspace { id, cause } = workspace;
            tracing::error!(
                id,
                cause,
                "cannot copy the files of a workspace; the backup has only its last snapshot"
            );
        }
        let entry = Entry {
            event: "server.backed_up",
            about: vec![("backup", made.backup.as_str().into())],
            ..Entry::default()
        };
        self.audit.tell(entry).await;
    }

    /// Copies the catalog, and stores the files of all workspaces as snapshots.
    /// The caller copies the store afterwards, so that the copy contains these
    /// snapshots.
    async fn copy_catalog_and_workspaces(&self, place: &BackupDirectory) -> Result<Copied> {
        // The records are listed before and after the catalog is copied. A
        // workspace that is deleted after the copy has a row in the copied
        // catalog, so the backup needs its record, and only the first list is
        // sure to have it. A workspace that is created in between is only in
        // the second list.
        let mut records = self.all_records().await?;
        let found = self.copy_catalog(place).await?;
        for (tenant, after) in self.all_records().await? {
            records.entry(tenant).or_default().extend(after);
        }
        let (mut workspaces, mut unread) = (0, Vec::new());
        for (tenant, records) in records {
            let copies = self.copy_workspaces(tenant, records).await?;
            workspaces += copies.records.len() as u64;
            unread.extend(copies.unread.iter().cloned());
            let directory = place.unfinished.join(WORKSPACES).join(tenant.to_string());
            tenant_stores::blocking(move || write_copies(&directory, copies)).await?;
        }
        Ok(Copied {
            found,
            workspaces,
            unread,
        })
    }

    /// Copies the catalog if it is a file. A database has separate backups, and
    /// the result has the position in its log that this backup belongs to.
    async fn copy_catalog(&self, place: &BackupDirectory) -> Result<FoundCatalog> {
        let found = match CatalogPlace::of(&self.config) {
            CatalogPlace::File(from) => {
                let copy = place.unfinished.join(CATALOG);
                SqliteCatalog::copy_file(&from, &copy).await?;
                SqliteCatalog::find(&copy).await?
            }
            database @ CatalogPlace::Database(_) => database.find().await?,
        };
        Ok(found.unwrap_or_default())
    }

    async fn all_records(&self) -> Result<Records> {
        let mut all = Records::new();
        for tenant in self.stores.known() {
            let listing = self
                .stores
                .with(tenant, |workspaces| Ok(workspaces.list()?));
            let records = listing.await?.into_iter();
            let records = records.map(|record| (record.id.clone(), record));
            all.insert(tenant, records.collect());
        }
        Ok(all)
    }

    async fn copy_workspaces(
        &self,
        tenant: TenantId,
        records: BTreeMap<WorkspaceId, Record>,
    ) -> Result<Copies> {
        let mut copies = Copies::default();
        for (id, record) in records {
            if record.state == State::Parked {
                copies.records.push(record);
                continue;
            }
            let copy = match self.copy_workspace(tenant, &id).await {
                Ok(copy) => copy,
                Err(failure) => {
                    copies.unread.push(api::UnreadWorkspace {
                        id: id.to_string(),
                        cause: failure.summary(),
                    });
                    None
                }
            };
            copies.live.push(id);
            // `copy` is `None` if the workspace could not be read, or if it was
            // merged or deleted after the backup began. Then the backup has its
            // last snapshot instead.
            copies.records.push(copy.unwrap_or(Record {
                state: State::Parked,
                home: None,
                ..record
            }));
        }
        Ok(copies)
    }

    /// Stores the files of a workspace as a snapshot. Returns the record of a
    /// parked workspace with that snapshot; `None` if the workspace no longer
    /// exists.
    async fn copy_workspace(&self, tenant: TenantId, id: &WorkspaceId) -> Result<Option<Record>> {
        let _held = self.locks.hold(id.as_str()).await;
        for _ in 0..ATTEMPTS {
            let frozen = match self.catalog.sandbox_of_workspace(tenant, id).await? {
                Some(sandbox) => self.freezer.frozen(&sandbox),
                None => self.freezer.frozen_nothing(),
            };
            let wanted = id.clone();
            let copying = self.stores.with(tenant, move |workspaces| {
                let info = backup_info(&wanted);
                match workspaces.copy_of(&wanted, info, &frozen, &Progress::new()) {
                    Ok(record) => Ok(Some(Some(record))),
                    Err(WorkspaceError::NotFound(_)) => Ok(Some(None)),
                    Err(WorkspaceError::Parked(_)) => Ok(Some(Some(workspaces.get(&wanted)?))),
                    Err(WorkspaceError::Busy(_)) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            });
            if let Some(copied) = copying.await? {
                return Ok(copied);
            }
            tokio::time::sleep(AGAIN).await;
        }
        let message = "another process is using the workspace";
        Err(Failure::new(ErrorCode::WorkspaceBusy, message))
    }

    async fn copy_store(&self, place: Arc<BackupDirectory>) -> Result<elevo_store_local::Backup> {
        let missing = || {
            Failure::new(
                ErrorCode::StorageFailed,
                "only a local store can be backed up",
            )
        };
        let store = self.local_store.clone().ok_or_else(missing)?;
        tenant_stores::blocking(move || {
            let into = place.unfinished.join(STORE);
            let earlier = place.earlier.as_ref().map(|path| path.join(STORE));
            let made = store.backup_into(&into, earlier.as_deref(), &Progress::new());
            made.map_err(|error| {
                let message = "cannot back up the store";
                Failure::new(ErrorCode::StorageFailed, message).caused_by(&error)
            })
        })
        .await
    }

    /// Resumes the workspaces that were live when the backup was created. Does
    /// nothing on a server that was not restored from a backup.
    pub(crate) async fn resume_restored(&self) {
        for tenant in self.stores.known() {
            let list = self.stores.directory(tenant).join(RESTORED);
            let Ok(text) = fs::read_to_string(&list) else {
                continue;
            };
            let mut is_done = true;
            for id in text.lines().filter_map(|line| line.parse().ok()) {
                if let Err(failure) = self.resume_one(tenant, &id).await {
                    let (workspace, cause) = (id.as_str(), failure.summary());
                    tracing::error!(workspace, cause, "cannot resume a restored workspace");
                    is_done = false;
                }
            }
            // Without the deletion, the next start retries all workspaces of
            // the list. Those that are live are skipped.
            if is_done && let Err(error) = fs::remove_file(&list) {
                tracing::warn!(cause = %error, list = %list.display(), "cannot delete the list of restored workspaces");
            }
        }
    }

    async fn resume_one(&self, tenant: TenantId, id: &WorkspaceId) -> Result<()> {
        let wanted = id.clone();
        let resuming = self.stores.with(tenant, move |workspaces| {
            match workspaces.resume(&wanted, &Progress::new()) {
                Err(WorkspaceError::NotFound(_) | WorkspaceError::NotParked(_)) => Ok(()),
                resumed => Ok(resumed.map(drop)?),
            }
        });
        resuming.await
    }
}

/// The results of the steps before the copy of the store.
struct Copied {
    found: FoundCatalog,
    workspaces: u64,
    unread: Vec<api::UnreadWorkspace>,
}

fn backup_info(id: &WorkspaceId) -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: "server".into(),
        message: format!("backup of {id}"),
        created: clock::now(),
        labels: BTreeMap::new(),
        reference: None,
    }
}

fn write_copies(directory: &Path, copies: Copies) -> Result<()> {
    let failed = |error: io::Error| not_written(directory, &error);
    files::make_private(directory).map_err(failed)?;
    elevo_workspace::write_records(directory, copies.records)?;
    // `write_records` has created a lock file. Only processes that share a
    // registry need it, so the backup does not contain it.
    fs::remove_file(directory.join("registry/lock")).map_err(failed)?;
    let live: String = copies.live.iter().map(|id| format!("{id}\n")).collect();
    fs::write(directory.join(RESTORED), live).map_err(failed)?;
    let synced = File::open(directory.join(RESTORED)).and_then(|file| file.sync_all());
    synced.map_err(failed)
}

fn copy_audit(from: &Path, unfinished: &Path) -> Result<()> {
    let to = unfinished.join(AUDIT);
    let copy = || -> io::Result<()> {
        files::make_private(&to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            match files::copy_lines(&entry.path(), &to.join(entry.file_name())) {
                // The file was older than `AUDIT_KEEP` and was deleted after it
                // was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                copied => copied?,
            }
        }
        Ok(())
    };
    copy().map_err(|error| not_written(&to, &error))
}
