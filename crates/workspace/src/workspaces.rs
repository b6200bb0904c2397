//! [`Workspaces`]: the operations on the workspaces of one tenant. Each module
//! below has the operations of one kind.

mod backup;
mod cleanup;
mod creation;
mod erase;
mod forks;
mod growth;
mod home_transfer;
mod lifecycle;
mod locked;
mod private;
mod providers;
mod read_only;
mod refresh;
mod restore;
mod snapshots;

pub use backup::write_records;
pub use erase::erase;
#[cfg(target_os = "linux")]
pub use providers::write_out;
pub use snapshots::needed_snapshots;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use elevo_core::Timestamp;
use elevo_engine::{CommitInfo, Loss, Owner, Progress, Repository};
use elevo_objects::{Snapshot, SnapshotId};
use parking_lot::Mutex;

use crate::changes::Changes;
use crate::error::{Error, Result};
use crate::freeze::Freeze;
use crate::home;
use crate::probe::default_in;
use crate::provider::{LazyServer, Origin, ProviderKind, Scan, WorkspaceProvider};
use crate::record::{Record, State};
use crate::registry::{Pins, Registry};
use elevo_core::WorkspaceId;

pub use private::WorkspaceAccess;
pub use read_only::Binding;
pub use refresh::Refreshed;

/// Settings of [`Workspaces`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that read and write files; at least 1.
    pub threads: usize,
    /// The provider of new workspaces; `None` for the default here.
    pub provider: Option<ProviderKind>,
    /// Maximum bytes of layers that are kept although no workspace needs them.
    pub spare_layers: u64,
    /// If set, the uppers of overlays are kept in a pool, so that workspaces
    /// can have a limit and snapshots of one moment. The value is the size in
    /// bytes of the file that is created for the pool if it needs one.
    pub pool: Option<u64>,
    /// The owner of the files of new workspaces; `None` for the caller. Only
    /// root can set another owner. Existing workspaces and their forks keep
    /// theirs.
    pub owner: Option<Owner>,
    /// Serves snapshots before they are written out, if set.
    pub lazy: Option<Arc<dyn LazyServer>>,
    /// Whether the users of workspaces, such as containers, do not see the mounts
    /// of this process. Read-only copies and clones are then links, not mounts.
    pub hidden_mounts: bool,
    /// The name of this node, if several nodes use the store. The snapshots that
    /// the workspaces need then have refs in it, because collections by other
    /// nodes cannot read the registry.
    pub node: Option<String>,
}

/// The workspaces of one tenant, in a directory that several threads and
/// processes may use at once. Every call blocks.
#[derive(Debug)]
pub struct Workspaces {
    root: PathBuf,
    repository: Repository,
    registry: Registry,
    providers: BTreeMap<ProviderKind, Box<dyn WorkspaceProvider>>,
    default_provider: ProviderKind,
    threads: usize,
    owner: Option<Owner>,
    /// The limits that `cap_growth` set last.
    caps: Mutex<BTreeMap<WorkspaceId, u64>>,
}

/// A snapshot taken of a workspace.
#[derive(Clone, Debug)]
pub struct Snapshotted {
    /// The id of the snapshot; that of the base if nothing had changed.
    pub id: SnapshotId,
    /// Whether the snapshot is new.
    pub is_new: bool,
    /// The losses: properties of files that the snapshot does not keep. Each
    /// kind is listed once.
    pub losses: Vec<Loss>,
}

/// The disk usage of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of the changes and of the home, with the metadata of the file
    /// system.
    pub used: u64,
    /// Maximum of `used`.
    pub limit: Option<u64>,
}

impl Workspaces {
    /// Opens the workspaces in `root`, which is created if it does not exist,
    /// and deletes the remains of processes that were killed.
    pub fn open(root: &Path, repository: Repository, options: &Options) -> Result<Self> {
        if options.owner.is_some() && !rustix::process::geteuid().is_root() {
            return Err(Error::OwnerNeedsRoot);
        }
        let default_provider = match options.provider {
            Some(provider) => provider,
            None => default_in(root).map_err(Error::io("write to", root))?,
        };
        for directory in ["live", "trash"].map(|name| root.join(name)) {
            fs::create_dir_all(&directory).map_err(Error::io("create", &directory))?;
        }
        // The kernel lists mounts with canonical paths.
        let root = &root.canonicalize().map_err(Error::io("find", root))?;
        let providers = providers::providers(root, &repository, options)?;
        if !providers.contains_key(&default_provider) {
            return Err(Error::NoOverlays);
        }
        let mut registry = Registry::open(&root.join("registry"), &root.join("live"))?;
        if let Some(node) = &options.node {
            registry.pin(Pins::new(repository.clone(), node))?;
        }
        let workspaces = Self {
            root: root.into(),
            repository,
            registry,
            providers,
            default_provider,
            threads: options.threads,
            owner: options.owner,
            caps: Mutex::default(),
        };
        workspaces.clean_up()?;
        Ok(workspaces)
    }

    /// The provider of new workspaces.
    pub fn provider(&self) -> ProviderKind {
        self.default_provider
    }

    /// Returns all workspaces, sorted by id.
    pub fn list(&self) -> Result<Vec<Record>> {
        Ok(self.registry.lock()?.records().values().cloned().collect())
    }

    /// Returns the record of a workspace.
    pub fn get(&self, id: &WorkspaceId) -> Result<Record> {
        self.registry.lock()?.get(id)
    }

    /// Returns the directory of a live workspace. Fails with [`Error::Private`]
    /// if only processes that enter the workspace see it.
    pub fn path(&self, id: &WorkspaceId) -> Result<PathBuf> {
        let record = self.live_record(id)?;
        let live_dir = self.live_dir(id);
        if !self.is_attached(&record, &live_dir)? {
            if !self.can_attach(&record, &live_dir)? {
                return Err(Error::Private(id.clone()));
            }
            // `lock` attaches the workspace.
            self.lock(id)?;
        }
        Ok(self.files_of(&record, &live_dir))
    }

    /// Returns the home of a live workspace: a directory for the agent, next to
    /// its files and under the same limit. It is forked, parked and removed
    /// with the workspace, but is not part of its snapshots and changes.
    pub fn home(&self, id: &WorkspaceId) -> Result<PathBuf> {
        let record = self.live_record(id)?;
        let live_dir = self.live_dir(id);
        let home = self.provider_of(&record).home(&live_dir);
        if !home.exists() {
            // Workspaces of older versions have no home.
            let (record, _locked) = self.lock(id)?;
            home::create(&home, record.owner)?;
        }
        Ok(home)
    }

    /// Returns the disk usage of a live workspace; `None` if it is not counted
    /// because the workspace cannot have a limit, or never had one. Takes
    /// constant time.
    pub fn limit_usage(&self, id: &WorkspaceId) -> Result<Option<Usage>> {
        let record = self.live_record(id)?;
        let live_dir = self.live_dir(id);
        let Some(limits) = self.provider_of(&record).limits(&live_dir) else {
            return Ok(None);
        };
        Ok(limits.used()?.map(|used| Usage {
            used,
            limit: record.limit,
        }))
    }

    /// Creates a workspace with the files of a snapshot. Returns its directory.
    ///
    /// A process that writes more than `limit` bytes there gets an error as on
    /// a full disk. Forks have the same limit.
    pub fn create(
        &self,
        id: &WorkspaceId,
        base: SnapshotId,
        created: Timestamp,
        limit: Option<u64>,
        progress: &Progress,
    ) -> Result<PathBuf> {
        let record = self.new_record(id, base, created, limit);
        self.create_workspace(record, None, progress)
    }

    /// Creates a workspace with another owner than [`Options::owner`].
    pub fn create_owned(
        &self,
        id: &WorkspaceId,
        base: SnapshotId,
        created: Timestamp,
        limit: Option<u64>,
        owner: Owner,
        progress: &Progress,
    ) -> Result<PathBuf> {
        let record = Record {
            owner: Some(owner),
            ..self.new_record(id, base, created, limit)
        };
        self.create_workspace(record, None, progress)
    }

    fn new_record(
        &self,
        id: &WorkspaceId,
        base: SnapshotId,
        created: Timestamp,
        limit: Option<u64>,
    ) -> Record {
        Record {
            id: id.clone(),
            state: State::Live,
            provider: self.default_provider,
            origin: base,
            start: base,
            base,
            created,
            limit,
            owner: self.owner,
            home: None,
            read_only: false,
            unfinished: None,
        }
    }

    /// Creates an empty workspace. All empty workspaces have the same base,
    /// which is stored with the first.
    pub fn create_empty(
        &self,
        id: &WorkspaceId,
        created: Timestamp,
        limit: Option<u64>,
    ) -> Result<PathBuf> {
        let base = self.empty_snapshot()?;
        self.create(id, base, created, limit, &Progress::new())
    }

    /// Compares a workspace with its base and stores nothing: the contents of
    /// changed files cannot be read from the result.
    pub fn changes(&self, id: &WorkspaceId, progress: &Progress) -> Result<Changes> {
        self.compare(id, |provider, live_dir, origin| {
            provider.scan(live_dir, origin, progress)
        })
    }

    /// Like [`Self::changes`], but stores the contents of changed files,
    /// without a reference to them. The store must be writable.
    pub fn contents(&self, id: &WorkspaceId, progress: &Progress) -> Result<Changes> {
        self.compare(id, |provider, live_dir, origin| {
            let imported = provider.read(live_dir, origin, progress)?.imported;
            let view = imported.view(&self.repository);
            Ok(Scan {
                tree: imported.tree,
                view,
            })
        })
    }

    /// Sets the snapshot that the work of a workspace starts from, after a merge
    /// of all earlier work.
    pub fn set_start(&self, id: &WorkspaceId, start: SnapshotId) -> Result<()> {
        let (record, _locked) = self.lock(id)?;
        self.registry.lock()?.set(Record { start, ..record })
    }

    /// Takes a snapshot of a workspace. It becomes the base, and its only
    /// parent is the previous base, regardless of the parents in `info`.
    /// Durable when this returns. For a read-only workspace, returns its base.
    pub fn snapshot(
        &self,
        id: &WorkspaceId,
        info: CommitInfo,
        freeze: &dyn Freeze,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        let (record, locked) = self.lock(id)?;
        let _thaw = self.pause_unless_atomic(&record, &locked, freeze)?;
        self.snapshot_locked(record, &locked, info, progress)
    }

    fn provider_of(&self, record: &Record) -> &dyn WorkspaceProvider {
        match self.providers.get(&record.provider) {
            Some(provider) => &**provider,
            None => unreachable!("`open` creates a provider for each kind"),
        }
    }
}

/// Returns the origin of a workspace. `snapshot` is the snapshot of the origin.
fn origin<'a>(record: &Record, snapshot: &'a Snapshot) -> Origin<'a> {
    Origin {
        id: record.origin,
        snapshot,
        limit: record.limit,
        owner: record.owner,
        read_only: record.read_only,
    }
}
