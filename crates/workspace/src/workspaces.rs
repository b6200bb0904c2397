mod backup;
mod cleanup;
mod creation;
mod erase;
mod forks;
mod growth;
mod home_transfer;
mod locked;
mod private;
mod read_only;
mod refresh;
mod restore;
mod snapshots;

pub use backup::write_records;
pub use erase::erase;
pub use snapshots::needed_snapshots;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use elevo_core::Timestamp;
use elevo_engine::{CommitInfo, Loss, Owner, Progress, Repository};
use elevo_objects::{Snapshot, SnapshotId};
#[cfg(target_os = "linux")]
use futures::executor::block_on;

use crate::changes::Changes;
use crate::error::{Error, Result};
use crate::freeze::{Freeze, pause};
use crate::home;
use crate::id::WorkspaceId;
use crate::probe::best;
use crate::provider::{FullProvider, LazyServer, Origin, ProviderKind, Scan, WorkspaceProvider};
#[cfg(target_os = "linux")]
use crate::provider::{NoServer, OverlayProvider};
use crate::record::{Record, State};
use crate::registry::Registry;

pub use private::Way;
pub use read_only::Binding;
pub use refresh::Refreshed;

/// Settings of [`Workspaces`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that read and write files; at least 1.
    pub threads: usize,
    /// The provider of new workspaces; otherwise the best one that works here.
    pub provider: Option<ProviderKind>,
    /// Maximum bytes of layers that are kept although no workspace needs them.
    pub spare_layers: u64,
    /// Keep the uppers of overlays in a pool, so that they can have a limit and
    /// snapshots of one moment. The value is the size in bytes of the file that
    /// is created for the pool if it needs one.
    pub pool: Option<u64>,
    /// The owner of the files of new workspaces; otherwise the caller. Only
    /// root can set another owner. Existing workspaces and their forks keep
    /// theirs.
    pub owner: Option<Owner>,
    /// Serves snapshots before they are written out, if set.
    pub lazy: Option<Arc<dyn LazyServer>>,
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
    /// The losses that the snapshot does not keep, each kind once.
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
            None => best(root).map_err(Error::io("write to", root))?,
        };
        for directory in ["live", "trash"].map(|name| root.join(name)) {
            fs::create_dir_all(&directory).map_err(Error::io("create", &directory))?;
        }
        // The kernel lists mounts with canonical paths.
        let root = &root.canonicalize().map_err(Error::io("find", root))?;
        let providers = providers(root, &repository, options)?;
        if !providers.contains_key(&default_provider) {
            return Err(Error::NoOverlays);
        }
        let workspaces = Self {
            root: root.into(),
            repository,
            registry: Registry::open(&root.join("registry"), &root.join("live"))?,
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

    /// Takes a snapshot of a workspace and deletes its directory. Its home is
    /// stored as a separate snapshot.
    pub fn park(
        &self,
        id: &WorkspaceId,
        info: CommitInfo,
        freeze: &dyn Freeze,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        let (record, locked) = self.lock(id)?;
        let _entrance = self.check_unused(&record, &locked.live_dir)?;
        let thaw = pause(id, freeze)?;
        let home = self.store_home(&record, &locked, &info, progress)?;
        let taken = self.snapshot_locked(record, &locked, info, progress)?;
        let mut registry = self.registry.lock()?;
        let parked = Record {
            state: State::Parked,
            home,
            ..registry.get(id)?
        };
        registry.set(parked)?;
        drop(registry);
        self.delete_locked(&locked)?;
        drop((thaw, locked));
        self.empty_trash()?;
        Ok(taken)
    }

    /// Creates the directory and home of a parked workspace again. Returns the
    /// directory.
    pub fn resume(&self, id: &WorkspaceId, progress: &Progress) -> Result<PathBuf> {
        let parked = self.get(id)?;
        // The user chose a private provider, and perhaps a lazy one, so keep
        // it.
        let provider = match parked.provider.is_private() {
            true => parked.provider,
            false => self.default_provider,
        };
        self.resume_by(parked, provider, progress)
    }

    fn resume_by(
        &self,
        parked: Record,
        provider: ProviderKind,
        progress: &Progress,
    ) -> Result<PathBuf> {
        if parked.state != State::Parked {
            return Err(Error::NotParked(parked.id));
        }
        let live = Record {
            state: State::Live,
            provider,
            origin: parked.base,
            owner: self.owner,
            ..parked.clone()
        };
        self.create_workspace(live, Some(&parked), progress)
    }

    /// Removes a workspace and deletes its files. Changes that are in no
    /// snapshot are lost.
    pub fn remove(&self, id: &WorkspaceId) -> Result<()> {
        let record = self.get(id)?;
        // The files on a stuck pool would stay, without a record of them.
        #[cfg(target_os = "linux")]
        if crate::provider::looks_stuck(&self.root) {
            let stuck = std::io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(Error::io("remove a workspace in", &self.root)(stuck));
        }
        let locked = match record.state {
            State::Live => self.lock_if_present(id)?,
            State::Parked => None,
        };
        let _entrance = match &locked {
            Some(locked) => self.check_unused(&record, &locked.live_dir)?,
            None => None,
        };
        let mut registry = self.registry.lock()?;
        let now = registry.get(id)?;
        // Another process is resuming it, or has removed it and created it
        // again.
        let is_of_another = locked.is_none() && self.live_dir(id).exists();
        if now.state != record.state || is_of_another {
            return Err(Error::Busy(id.clone()));
        }
        registry.remove(id)?;
        match locked {
            Some(locked) => {
                drop(registry);
                self.delete_locked(&locked)?;
            }
            // The directory was deleted by hand.
            None => self.release(&self.live_dir(id))?,
        }
        self.empty_trash()
    }

    fn provider_of(&self, record: &Record) -> &dyn WorkspaceProvider {
        match self.providers.get(&record.provider) {
            Some(provider) => &**provider,
            None => unreachable!("there is one for each kind"),
        }
    }
}

fn providers(
    root: &Path,
    repository: &Repository,
    options: &Options,
) -> Result<BTreeMap<ProviderKind, Box<dyn WorkspaceProvider>>> {
    let copy = FullProvider::copy(repository.clone(), options.threads);
    let reflink = FullProvider::reflink(repository.clone(), options.threads, root);
    #[cfg(target_os = "linux")]
    let [copy, reflink] = [copy, reflink].map(|provider| provider.with_view_mounts(root));
    let mut providers: Vec<Box<dyn WorkspaceProvider>> = vec![Box::new(reflink), Box::new(copy)];
    providers.extend(overlays(root, repository, options)?);
    let providers = providers.into_iter();
    Ok(providers
        .map(|provider| (provider.kind(), provider))
        .collect())
}

#[cfg(target_os = "linux")]
fn overlays(
    root: &Path,
    repository: &Repository,
    options: &Options,
) -> Result<Vec<Box<dyn WorkspaceProvider>>> {
    let (threads, spare) = (options.threads, options.spare_layers);
    let overlay = || {
        let overlay = OverlayProvider::new(repository.clone(), threads, root, spare);
        match options.pool {
            Some(bytes) => overlay.with_pool(root, bytes),
            None => Ok(overlay),
        }
    };
    let server = options.lazy.clone().unwrap_or_else(|| Arc::new(NoServer));
    // A pool needs root.
    let rootless = || OverlayProvider::new(repository.clone(), threads, root, spare).rootless();
    Ok(vec![
        Box::new(overlay()?),
        Box::new(overlay()?.lazy(root, server.clone())),
        Box::new(rootless()),
        Box::new(rootless().lazy(root, server)),
    ])
}

/// Writes a snapshot out as the layers that new overlays in `root` need.
#[cfg(target_os = "linux")]
pub fn write_out(
    root: &Path,
    repository: &Repository,
    threads: usize,
    id: SnapshotId,
    owner: Option<Owner>,
) -> Result<()> {
    let snapshot = &block_on(repository.snapshot(id))?;
    let origin = Origin {
        id,
        snapshot,
        limit: None,
        owner,
        read_only: false,
    };
    OverlayProvider::new(repository.clone(), threads, root, 0).write_out(origin)
}

#[cfg(not(target_os = "linux"))]
fn overlays(
    _: &Path,
    _: &Repository,
    options: &Options,
) -> Result<Vec<Box<dyn WorkspaceProvider>>> {
    match options.pool {
        Some(_) => Err(Error::NoOverlays),
        None => Ok(Vec::new()),
    }
}

fn origin<'a>(record: &Record, snapshot: &'a Snapshot) -> Origin<'a> {
    Origin {
        id: record.origin,
        snapshot,
        limit: record.limit,
        owner: record.owner,
        read_only: record.read_only,
    }
}
