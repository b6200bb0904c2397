use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use elevo_core::Timestamp;
use elevo_engine::{CommitInfo, Diff, Loss, Progress, Repository};
use elevo_objects::{Snapshot, SnapshotId, Tree};
use futures::executor::block_on;

use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::probe::{choose, probe};
#[cfg(target_os = "linux")]
use crate::provider::OverlayProvider;
use crate::provider::{FullProvider, Origin, ProviderKind, Reading, WorkspaceProvider};
use crate::record::{Record, State};
use crate::registry::{Locked, Registry};
use crate::trash;

/// How workspaces are made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that read and write files; at least 1.
    pub threads: usize,
    /// How new ones are made; otherwise the best way that works here.
    pub provider: Option<ProviderKind>,
    /// Bytes of layers that are kept though no workspace needs them.
    pub spare_layers: u64,
    /// Keep what is changed in overlays in a pool, so that they can be
    /// snapshotted at one moment and have a limit. How large it is, in bytes,
    /// if it has to be made in a file.
    pub pool: Option<u64>,
}

/// The workspaces in a directory, for one tenant. Several processes may use
/// the same at once. Every call blocks.
#[derive(Debug)]
pub struct Workspaces {
    root: PathBuf,
    repository: Repository,
    registry: Registry,
    providers: BTreeMap<ProviderKind, Box<dyn WorkspaceProvider>>,
    chosen: ProviderKind,
}

/// Holds still whoever writes into a workspace while it is read.
///
/// Without it a snapshot or a fork is of every file as it was at some moment of
/// the reading, not all of the same one.
pub trait Freeze {
    /// Returns when nobody writes any more.
    fn freeze(&self) -> io::Result<()>;
    /// Lets them go on. Called once after each [`Self::freeze`] that was tried.
    fn thaw(&self);
}

/// For workspaces that nobody writes to, or callers that accept the difference.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverFreeze;

impl Freeze for NeverFreeze {
    fn freeze(&self) -> io::Result<()> {
        Ok(())
    }

    fn thaw(&self) {}
}

struct Thaw<'a>(&'a dyn Freeze);

impl Drop for Thaw<'_> {
    fn drop(&mut self) {
        self.0.thaw();
    }
}

/// What a workspace is now, beside its base.
#[derive(Debug)]
pub struct Changes {
    /// The snapshot that it is compared with.
    pub base: SnapshotId,
    /// Its files now.
    pub tree: Tree,
    before: Tree,
    repository: Repository,
}

impl Changes {
    /// Whether it is as its base.
    pub fn is_empty(&self) -> bool {
        self.tree == self.before
    }

    /// What was added, removed and changed.
    pub fn diff(&self) -> Diff {
        Diff::new(&self.repository, self.before, self.tree)
    }

    /// The files of the base.
    pub fn before(&self) -> Tree {
        self.before
    }

    /// Where both trees can be read.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }
}

/// A snapshot taken of a workspace.
#[derive(Clone, Debug)]
pub struct Snapshotted {
    /// Its id; that of the base if nothing had changed.
    pub id: SnapshotId,
    /// Whether it is a new one.
    pub is_new: bool,
    /// What it does not keep, each kind once.
    pub losses: Vec<Loss>,
}

/// A workspace that nobody else works on.
struct Held {
    place: PathBuf,
    _lock: File,
}

const LOCK: &str = "lock";

impl Workspaces {
    /// Opens the workspaces in `root`, which is made if it is not there, and
    /// clears away what processes that were killed have left.
    pub fn open(root: &Path, repository: Repository, options: &Options) -> Result<Self> {
        let chosen = match options.provider {
            Some(provider) => provider,
            None => choose(&probe(root).map_err(Error::io("write to", root))?),
        };
        for directory in ["live", "trash"].map(|name| root.join(name)) {
            fs::create_dir_all(&directory).map_err(Error::io("make", &directory))?;
        }
        let copy = FullProvider::copy(repository.clone(), options.threads);
        let reflink = FullProvider::reflink(repository.clone(), options.threads, root);
        let mut providers: Vec<Box<dyn WorkspaceProvider>> =
            vec![Box::new(reflink), Box::new(copy)];
        providers.extend(overlay(root, &repository, options)?);
        let providers = providers.into_iter();
        let providers: BTreeMap<_, _> = providers
            .map(|provider| (provider.kind(), provider))
            .collect();
        if !providers.contains_key(&chosen) {
            return Err(Error::NoOverlays);
        }
        let workspaces = Self {
            root: root.into(),
            repository,
            registry: Registry::open(&root.join("registry"))?,
            providers,
            chosen,
        };
        workspaces.clear_away()?;
        Ok(workspaces)
    }

    /// How new workspaces are made.
    pub fn provider(&self) -> ProviderKind {
        self.chosen
    }

    /// All workspaces, sorted by id.
    pub fn list(&self) -> Result<Vec<Record>> {
        Ok(self.registry.lock()?.records().values().cloned().collect())
    }

    /// One workspace.
    pub fn get(&self, id: &WorkspaceId) -> Result<Record> {
        self.registry.lock()?.get(id)
    }

    /// The directory of a workspace that is not parked.
    pub fn path(&self, id: &WorkspaceId) -> Result<PathBuf> {
        let record = self.live(id)?;
        let (place, provider) = (self.place(id), self.provider_of(&record));
        if !provider.is_attached(&place) {
            // Attaches it.
            self.hold(id)?;
        }
        Ok(provider.files(&place))
    }

    /// Makes a workspace that holds a snapshot. Returns its directory.
    ///
    /// Whoever writes more than `limit` bytes there is told that the disk is
    /// full. Its forks have the same limit.
    pub fn create(
        &self,
        id: &WorkspaceId,
        base: SnapshotId,
        created: Timestamp,
        limit: Option<u64>,
        progress: &Progress,
    ) -> Result<PathBuf> {
        let record = Record {
            id: id.clone(),
            state: State::Live,
            provider: self.chosen,
            origin: base,
            base,
            created,
            limit,
        };
        self.make(record, None, progress)
    }

    /// Finds out what was changed in a workspace since its base, and stores
    /// nothing: contents of changed files cannot be read.
    pub fn changes(&self, id: &WorkspaceId, progress: &Progress) -> Result<Changes> {
        self.compare(id, |provider, place, origin| {
            provider.look(place, origin, progress)
        })
    }

    /// The same with the contents of changed files, which go into the store
    /// without anything that refers to them; it must be open to write.
    pub fn contents(&self, id: &WorkspaceId, progress: &Progress) -> Result<Changes> {
        self.compare(id, |provider, place, origin| {
            let imported = provider.read(place, origin, progress)?.imported;
            Ok((imported.tree, imported.view(&self.repository)))
        })
    }

    /// Takes a snapshot of a workspace, which becomes its base and has the one
    /// before as its parent, whatever `info` says of parents. Durable when this
    /// returns.
    pub fn snapshot(
        &self,
        id: &WorkspaceId,
        info: CommitInfo,
        freeze: &dyn Freeze,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        let (record, held) = self.hold(id)?;
        let _thaw = match self.provider_of(&record).is_atomic(&held.place) {
            true => None,
            false => Some(stop(id, freeze)?),
        };
        self.snapshot_held(record, &held, info, progress)
    }

    /// Makes a workspace for each of `into` that holds what `id` holds now.
    /// Either all are made or none.
    ///
    /// With a pool it is what was there at one moment, and no snapshot is
    /// taken: their base is that of `id`. Otherwise a snapshot is taken as by
    /// [`Self::snapshot`], which is the base of all and is returned.
    pub fn fork(
        &self,
        id: &WorkspaceId,
        into: &[WorkspaceId],
        info: CommitInfo,
        freeze: &dyn Freeze,
        progress: &Progress,
    ) -> Result<Option<Snapshotted>> {
        let (record, held) = self.hold(id)?;
        let created = info.created;
        let provider = self.provider_of(&record);
        let fork = |base: &Record, id: &WorkspaceId| Record {
            id: id.clone(),
            created,
            ..base.clone()
        };
        if provider.is_atomic(&held.place) {
            let records = into.iter().map(|id| fork(&record, id)).collect();
            self.make_all(records, |places, origin| {
                provider.fork_at_once(&held.place, places, origin, progress)
            })?;
            return Ok(None);
        }
        let _thaw = stop(id, freeze)?;
        let taken = self.snapshot_held(record.clone(), &held, info, progress)?;
        let taken_record = Record {
            origin: taken.id,
            base: taken.id,
            ..record
        };
        let records = into.iter().map(|id| fork(&taken_record, id)).collect();
        self.make_all(records, |places, origin| {
            let mut places = places.iter();
            places.try_for_each(|place| provider.fork(&held.place, place, origin, progress))
        })?;
        Ok(Some(taken))
    }

    /// Takes a snapshot of a workspace and gives up its directory.
    pub fn park(
        &self,
        id: &WorkspaceId,
        info: CommitInfo,
        freeze: &dyn Freeze,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        let (record, held) = self.hold(id)?;
        let thaw = stop(id, freeze)?;
        let taken = self.snapshot_held(record, &held, info, progress)?;
        let mut registry = self.registry.lock()?;
        let parked = Record {
            state: State::Parked,
            ..registry.get(id)?
        };
        registry.set(parked)?;
        self.throw(&registry, &held.place)?;
        drop((registry, thaw, held));
        self.empty_trash()?;
        Ok(taken)
    }

    /// Makes a directory for a parked workspace again. Returns it.
    pub fn resume(&self, id: &WorkspaceId, progress: &Progress) -> Result<PathBuf> {
        let parked = self.get(id)?;
        if parked.state != State::Parked {
            return Err(Error::NotParked(id.clone()));
        }
        let live = Record {
            state: State::Live,
            provider: self.chosen,
            origin: parked.base,
            ..parked.clone()
        };
        self.make(live, Some(&parked), progress)
    }

    /// Removes a workspace with all that is in it. What was not snapshotted is
    /// lost.
    pub fn remove(&self, id: &WorkspaceId) -> Result<()> {
        let record = self.get(id)?;
        let held = match record.state {
            State::Live => Some(self.hold_place(id)),
            State::Parked => None,
        };
        let held = match held.transpose() {
            // Somebody has removed it by hand.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            held => held?,
        };
        let mut registry = self.registry.lock()?;
        registry.remove(id)?;
        if let Some(held) = &held {
            self.throw(&registry, &held.place)?;
        }
        drop((registry, held));
        self.empty_trash()
    }

    /// A workspace as `look` sees it, beside its base.
    fn compare(
        &self,
        id: &WorkspaceId,
        look: impl FnOnce(&dyn WorkspaceProvider, &Path, Origin<'_>) -> Result<(Tree, Repository)>,
    ) -> Result<Changes> {
        let (record, held) = self.hold(id)?;
        let base = self.snapshot_of(record.base)?;
        let made_from = self.snapshot_of(record.origin)?;
        let origin = origin(&record, &made_from);
        let (tree, repository) = look(self.provider_of(&record), &held.place, origin)?;
        Ok(Changes {
            base: record.base,
            tree,
            before: base.tree,
            repository,
        })
    }

    fn snapshot_of(&self, id: SnapshotId) -> Result<Snapshot> {
        Ok(block_on(self.repository.snapshot(id))?)
    }

    fn place(&self, id: &WorkspaceId) -> PathBuf {
        self.root.join("live").join(id.as_str())
    }

    fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    fn provider_of(&self, record: &Record) -> &dyn WorkspaceProvider {
        match self.providers.get(&record.provider) {
            Some(provider) => &**provider,
            None => unreachable!("there is one for each kind"),
        }
    }

    fn live(&self, id: &WorkspaceId) -> Result<Record> {
        let record = self.get(id)?;
        match record.state {
            State::Live => Ok(record),
            State::Parked => Err(Error::Parked(id.clone())),
        }
    }

    /// Keeps everybody else from working on a workspace.
    fn hold(&self, id: &WorkspaceId) -> Result<(Record, Held)> {
        self.live(id)?;
        let held = self.hold_place(id)?;
        // It may have changed before it was held.
        let record = self.live(id)?;
        let provider = self.provider_of(&record);
        if !provider.is_attached(&held.place) {
            let made_from = self.snapshot_of(record.origin)?;
            let origin = origin(&record, &made_from);
            provider.attach(&held.place, origin, &Progress::new())?;
        }
        Ok((record, held))
    }

    fn hold_place(&self, id: &WorkspaceId) -> Result<Held> {
        let place = self.place(id);
        let lock = File::open(place.join(LOCK)).map_err(Error::io("open", &place))?;
        match lock.try_lock() {
            Ok(()) => Ok(Held { place, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::Busy(id.clone())),
            Err(TryLockError::Error(source)) => Err(Error::io("lock", &place)(source)),
        }
    }

    /// Makes a workspace. `before` is what is known of it, if it was parked.
    fn make(
        &self,
        record: Record,
        before: Option<&Record>,
        progress: &Progress,
    ) -> Result<PathBuf> {
        let place = self.make_place(&record.id, before)?;
        let provider = self.provider_of(&record);
        let files = provider.files(&place.place);
        self.fill(vec![(record, place)], |places, origin| {
            let mut places = places.iter();
            places.try_for_each(|place| provider.create(place, origin, progress))
        })?;
        Ok(files)
    }

    /// Makes workspaces of the same origin; all or none.
    fn make_all(
        &self,
        records: Vec<Record>,
        fill: impl FnOnce(&[&Path], Origin<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut places = Vec::with_capacity(records.len());
        for record in records {
            match self.make_place(&record.id, None) {
                Ok(place) => places.push((record, place)),
                Err(error) => {
                    self.give_up(places)?;
                    return Err(error);
                }
            }
        }
        self.fill(places, fill)
    }

    /// Lets `fill` fill places, and then makes them known.
    fn fill(
        &self,
        places: Vec<(Record, Held)>,
        fill: impl FnOnce(&[&Path], Origin<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some((first, _)) = places.first() else {
            return Ok(());
        };
        let paths: Vec<_> = places
            .iter()
            .map(|(_, held)| held.place.as_path())
            .collect();
        let made = self.snapshot_of(first.origin).and_then(|made_from| {
            fill(&paths, origin(first, &made_from))?;
            let records = places.iter().map(|(record, _)| record.clone());
            self.registry.lock()?.set_all(records.collect())
        });
        if made.is_err() {
            self.give_up(places)?;
        }
        made
    }

    fn give_up(&self, places: Vec<(Record, Held)>) -> Result<()> {
        let registry = self.registry.lock()?;
        for (_, held) in &places {
            self.throw(&registry, &held.place)?;
        }
        drop((registry, places));
        self.empty_trash()
    }

    fn make_place(&self, id: &WorkspaceId, before: Option<&Record>) -> Result<Held> {
        let registry = self.registry.lock()?;
        if registry.records().get(id) != before {
            return Err(Error::Exists(id.clone()));
        }
        let place = self.place(id);
        let make = || -> io::Result<File> {
            fs::create_dir(&place)?;
            let lock = File::create_new(place.join(LOCK))?;
            lock.try_lock()?;
            Ok(lock)
        };
        match make() {
            Ok(lock) => Ok(Held { place, _lock: lock }),
            // Being made by somebody else, or being thrown away.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Error::Busy(id.clone()))
            }
            Err(error) => Err(Error::io("make", &place)(error)),
        }
    }

    /// Gets a place out of the way. The registry is locked, so that nobody
    /// takes it for somebody else's.
    fn throw(&self, _: &Locked<'_>, place: &Path) -> Result<()> {
        for provider in self.providers.values() {
            provider.release(place)?;
        }
        trash::throw(place, &self.trash())
    }

    fn empty_trash(&self) -> Result<()> {
        let trash = self.trash();
        trash::empty(&trash).map_err(Error::io("empty", &trash))
    }

    /// Removes layers that no workspace needs, if there is much of them.
    fn tidy(&self) -> Result<()> {
        let origins = self
            .list()?
            .into_iter()
            .filter(|record| record.state == State::Live);
        let origins = origins.map(|record| self.snapshot_of(record.origin));
        let origins = origins.collect::<Result<Vec<_>>>()?;
        self.providers
            .values()
            .try_for_each(|provider| provider.tidy(&origins))
    }

    /// Removes places that no live workspace has and nobody is working on.
    fn clear_away(&self) -> Result<()> {
        self.tidy()?;
        let registry = self.registry.lock()?;
        let live = self.root.join("live");
        let list = || fs::read_dir(&live)?.collect::<io::Result<Vec<_>>>();
        for entry in list().map_err(Error::io("list", &live))? {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.parse().ok());
            let record = id.as_ref().and_then(|id| registry.records().get(id));
            if record.is_some_and(|record| record.state == State::Live) {
                continue;
            }
            let place = entry.path();
            let lock = File::open(place.join(LOCK));
            let is_held = lock.as_ref().is_ok_and(|lock| lock.try_lock().is_err());
            if !is_held {
                self.throw(&registry, &place)?;
            }
        }
        drop(registry);
        self.empty_trash()?;
        for provider in self.providers.values() {
            for id in provider.cut_off()?.iter().flat_map(|id| id.parse()) {
                // Unless somebody is reading it now.
                if let Ok(held) = self.hold_place(&id) {
                    provider.clear_away(&held.place)?;
                }
            }
        }
        Ok(())
    }

    fn snapshot_held(
        &self,
        record: Record,
        held: &Held,
        info: CommitInfo,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        let base = self.snapshot_of(record.base)?;
        let made_from = self.snapshot_of(record.origin)?;
        let origin = origin(&record, &made_from);
        let reading = self
            .provider_of(&record)
            .read(&held.place, origin, progress)?;
        let losses = reading.losses().to_vec();
        let is_new = !is_same(&reading, &base);
        let mut id = record.base;
        if is_new {
            let parents = vec![record.base];
            id = reading.commit(&self.repository, CommitInfo { parents, ..info })?;
            let mut registry = self.registry.lock()?;
            registry.set(Record { base: id, ..record })?;
        } else {
            reading.keep();
        }
        Ok(Snapshotted { id, is_new, losses })
    }
}

#[cfg(target_os = "linux")]
fn overlay(
    root: &Path,
    repository: &Repository,
    options: &Options,
) -> Result<Option<Box<dyn WorkspaceProvider>>> {
    let (threads, spare) = (options.threads, options.spare_layers);
    let mut overlay = OverlayProvider::new(repository.clone(), threads, root, spare);
    if let Some(bytes) = options.pool {
        overlay = overlay.with_pool(root, bytes)?;
    }
    Ok(Some(Box::new(overlay)))
}

#[cfg(not(target_os = "linux"))]
fn overlay(
    _: &Path,
    _: &Repository,
    options: &Options,
) -> Result<Option<Box<dyn WorkspaceProvider>>> {
    match options.pool {
        Some(_) => Err(Error::NoOverlays),
        None => Ok(None),
    }
}

fn origin<'a>(record: &Record, snapshot: &'a Snapshot) -> Origin<'a> {
    Origin {
        id: record.origin,
        snapshot,
        limit: record.limit,
    }
}

fn is_same(reading: &Reading, base: &Snapshot) -> bool {
    reading.imported.tree == base.tree && reading.imported.times == base.times
}

fn stop<'a>(id: &WorkspaceId, freeze: &'a dyn Freeze) -> Result<Thaw<'a>> {
    let thaw = Thaw(freeze);
    freeze.freeze().map_err(|source| Error::Freeze {
        id: id.clone(),
        source,
    })?;
    Ok(thaw)
}
