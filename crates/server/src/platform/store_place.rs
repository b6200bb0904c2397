//! The place of the store: a directory, or a PostgreSQL database and an S3 bucket.

use std::fmt;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use elevo_catalog::{PostgresCatalog, PostgresCheck, PostgresOptions};
use elevo_core::TenantId;
use elevo_engine::{Inspect, ServerStamp, Store, StoreResult};
use elevo_store_cluster::{ClusterStore, Compared, LockedStamp, OpenError, Options};
use elevo_store_local::{LocalStore, WritersBlocked, is_store, server_stamp, set_server_stamp};

use crate::config::{Config, InvalidConfig, StoreDatabase};
use crate::failure::chain;
use crate::platform::catalog_place::without_credentials;
use crate::platform::descriptors;

/// The results of the examination of a database.
pub type CheckResult = elevo_catalog::Result<Vec<PostgresCheck>>;

/// The place of a store. Shown without credentials.
#[derive(Clone, Debug)]
pub enum StorePlace {
    /// A directory.
    Directory(PathBuf),
    /// A database and a bucket.
    Cluster(Box<StoreDatabase>),
}

impl PartialEq for StorePlace {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for StorePlace {}

/// The database of a store and its bucket do not belong together.
#[derive(Debug, thiserror::Error)]
#[error("the store {store} cannot be used: {cause}")]
pub(crate) struct WrongBucket {
    pub(crate) store: StorePlace,
    pub(crate) cause: String,
}

/// A store that a start has found.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundStore {
    pub(crate) is_there: bool,
    pub(crate) stamp: Option<ServerStamp>,
    /// Whether the store has data. This is checked only if the catalog has no
    /// tenant and the store has no stamp.
    pub(crate) has_data: bool,
}

/// An open store.
#[derive(Clone, Debug)]
pub enum OpenStore {
    /// A store on this machine, which only this process uses.
    Local(Arc<LocalStore>),
    /// A store that several servers use.
    Cluster(Arc<ClusterStore>),
}

impl OpenStore {
    /// Returns the store.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Local(store) => store.clone(),
            Self::Cluster(store) => store.clone(),
        }
    }

    /// Returns the store if it is on this machine.
    pub fn local(&self) -> Option<Arc<LocalStore>> {
        match self {
            Self::Local(store) => Some(store.clone()),
            Self::Cluster(_) => None,
        }
    }

    /// Returns the store if several servers use it.
    pub fn cluster(&self) -> Option<Arc<ClusterStore>> {
        match self {
            Self::Local(_) => None,
            Self::Cluster(store) => Some(store.clone()),
        }
    }

    /// Returns the store for a verification or a repair.
    pub fn inspect(&self) -> Arc<dyn Inspect> {
        match self {
            Self::Local(store) => store.clone(),
            Self::Cluster(store) => store.clone(),
        }
    }

    /// Returns the tenants that have stored anything.
    pub async fn tenants(&self) -> StoreResult<Vec<TenantId>> {
        match self {
            Self::Local(store) => store.tenants(),
            Self::Cluster(store) => store.tenants().await,
        }
    }

    /// Compares the files of the bucket with the database, if the store has them.
    pub async fn compare_files(&self) -> StoreResult<Option<Compared>> {
        match self {
            Self::Local(_) => Ok(None),
            Self::Cluster(store) => store.compare_files().await.map(Some),
        }
    }

    /// Ends the use of a store that several servers use. It counts as used for some
    /// seconds otherwise.
    pub async fn close(&self) {
        if let Self::Cluster(store) = self {
            let _ = store.close().await;
        }
    }
}

impl StorePlace {
    /// Reads a place from the URL of its database. The settings `S3_…` of the file
    /// or the environment name the bucket.
    pub fn of_database(
        url: &str,
        file: Option<&str>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, InvalidConfig> {
        let database = StoreDatabase::read(url, file, environment)?;
        Ok(Self::Cluster(Box::new(database)))
    }

    /// Checks the version, the standby and the settings of a database, and whether
    /// its bucket can be used. Returns nothing for a directory.
    pub async fn examine(&self) -> CheckResult {
        let Self::Cluster(database) = self else {
            return Ok(Vec::new());
        };
        let options = PostgresOptions {
            connections: database.connections,
            ..PostgresOptions::default()
        };
        let mut checks = PostgresCatalog::examine(&database.url.0, &options).await?;
        let used = ClusterStore::try_bucket(&database.options(false)).await;
        checks.push(PostgresCheck {
            name: "bucket",
            is_ok: used.is_ok(),
            message: match used {
                Ok(()) => "can be written and read".into(),
                Err(error) => format!("{}; check the settings S3_…", chain(&error)),
            },
        });
        Ok(checks)
    }

    pub(crate) fn of(config: &Config) -> Self {
        match &config.store {
            Some(database) => Self::Cluster(Box::new(database.clone())),
            None => Self::Directory(config.data_dir.join("store")),
        }
    }

    /// Fails if a newer version of Elevo wrote the store. Changes nothing.
    pub(crate) fn check_format(&self) -> anyhow::Result<()> {
        match self {
            Self::Directory(path) => Ok(elevo_store_local::check_format(path)?),
            // The schema is checked when the store is opened.
            Self::Cluster(_) => Ok(()),
        }
    }

    /// Prevents other processes from writing to a local store until the result is
    /// dropped.
    pub(crate) async fn block_writers(&self) -> anyhow::Result<Option<WritersBlocked>> {
        let Self::Directory(path) = self else {
            return Ok(None);
        };
        let path = path.clone();
        let wait = elevo_store_local::Options::default().wait;
        let keeping = move || elevo_store_local::block_writers(&path, wait);
        Ok(Some(tokio::task::spawn_blocking(keeping).await??))
    }

    /// Looks at the store without changing it. `is_lone` is true if the catalog
    /// has no tenant.
    pub(crate) async fn find(&self, is_lone: bool, adopt: bool) -> anyhow::Result<FoundStore> {
        match self {
            Self::Directory(path) => {
                let path = path.clone();
                tokio::task::spawn_blocking(move || find_directory(&path, is_lone)).await?
            }
            Self::Cluster(database) => {
                let found = ClusterStore::find(&database.options(adopt)).await;
                let found = found.map_err(|error| self.refuse(error))?;
                let found = found.map(|found| FoundStore {
                    is_there: true,
                    has_data: is_lone && found.stamp.is_none() && found.has_tenants,
                    stamp: found.stamp,
                });
                Ok(found.unwrap_or_default())
            }
        }
    }

    /// Opens the store, and creates it if there is none. `full_percent` is the
    /// disk usage, in percent, above which a local store rejects writes.
    pub(crate) async fn open(&self, full_percent: u8, adopt: bool) -> anyhow::Result<OpenStore> {
        match self {
            Self::Directory(path) => {
                let path = path.clone();
                let opening = move || open_directory(&path, full_percent);
                let opened = tokio::task::spawn_blocking(opening).await??;
                Ok(OpenStore::Local(Arc::new(opened)))
            }
            Self::Cluster(database) => self.open_database(database.options(adopt)).await,
        }
    }

    /// Opens the store for a command on all of it, and creates it if there is none.
    /// Only servers delete the unused files of a bucket, since a command may have
    /// another `STORE_FILE_GRACE`.
    pub(crate) async fn open_for_command(&self) -> anyhow::Result<OpenStore> {
        let Self::Cluster(database) = self else {
            return self.open(100, false).await;
        };
        let options = Options {
            upkeep: Duration::MAX,
            ..database.options(false)
        };
        self.open_database(options).await
    }

    async fn open_database(&self, options: Options) -> anyhow::Result<OpenStore> {
        let opened = ClusterStore::open(options).await;
        let opened = opened.map_err(|error| self.refuse(error))?;
        Ok(OpenStore::Cluster(Arc::new(opened)))
    }

    /// Opens the store for a comparison with a catalog. A local store is opened
    /// without changing it.
    pub(crate) async fn open_to_compare(&self) -> anyhow::Result<OpenStore> {
        let Self::Directory(path) = self else {
            return self.open(100, false).await;
        };
        let path = path.clone();
        let options = elevo_store_local::Options::default();
        let opening = move || LocalStore::open_read_only(&path, &options);
        let opened = tokio::task::spawn_blocking(opening).await??;
        Ok(OpenStore::Local(Arc::new(opened)))
    }

    fn refuse(&self, error: OpenError) -> anyhow::Error {
        match error {
            OpenError::UnknownBucket
            | OpenError::ForeignBucket
            | OpenError::NoMark
            | OpenError::OlderDatabase { .. } => WrongBucket {
                store: self.clone(),
                cause: error.to_string(),
            }
            .into(),
            error => anyhow::Error::new(error).context(format!("cannot open the store {self}")),
        }
    }
}

fn find_directory(path: &Path, is_lone: bool) -> anyhow::Result<FoundStore> {
    if !is_store(path)? {
        return Ok(FoundStore::default());
    }
    let stamp = server_stamp(path)?;
    let has_data = match is_lone && stamp.is_none() {
        true => {
            let options = elevo_store_local::Options::default();
            let store = LocalStore::open_read_only(path, &options)?;
            !store.tenants()?.is_empty()
        }
        false => false,
    };
    Ok(FoundStore {
        is_there: true,
        stamp,
        has_data,
    })
}

fn open_directory(path: &Path, full_percent: u8) -> anyhow::Result<LocalStore> {
    let usual = elevo_store_local::Options::default();
    let options = elevo_store_local::Options {
        holder: format!("the server (process {})", std::process::id()),
        full_percent,
        open_files: descriptors::for_store(descriptors::raise()?, usual.open_files),
        ..usual
    };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path)?;
    let store = match is_store(path)? {
        true => LocalStore::open(path, &options),
        false => LocalStore::create(path, &options),
    };
    store.with_context(|| format!("cannot open the store {}", path.display()))
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Cluster(database) => {
                let url = without_credentials(&database.url.0);
                write!(f, "{url} with the bucket {}", database.bucket.bucket)
            }
        }
    }
}

/// The stamp in an open store. A server increments its generation while it holds
/// the lock.
#[derive(Clone, Debug)]
pub(crate) enum Stamps {
    /// A directory that only this process changes.
    File(PathBuf),
    /// A store that several servers change.
    Row(Arc<ClusterStore>),
}

impl Stamps {
    pub(crate) async fn lock(&self) -> anyhow::Result<StampLock> {
        match self {
            Self::File(store) => Ok(StampLock::File(store.clone(), server_stamp(store)?)),
            Self::Row(store) => {
                let locked = store.lock_stamp().await;
                Ok(StampLock::Row(
                    locked.context("cannot read the mark of the store")?,
                ))
            }
        }
    }
}

/// A stamp that no other process changes.
pub(crate) enum StampLock {
    File(PathBuf, Option<ServerStamp>),
    Row(LockedStamp),
}

impl StampLock {
    pub(crate) fn stamp(&self) -> Option<&ServerStamp> {
        match self {
            Self::File(_, stamp) => stamp.as_ref(),
            Self::Row(locked) => locked.stamp(),
        }
    }

    /// Replaces the stamp, durably.
    pub(crate) async fn set(self, stamp: &ServerStamp) -> anyhow::Result<()> {
        match self {
            Self::File(store, _) => {
                set_server_stamp(&store, stamp).context("cannot mark the store")
            }
            Self::Row(locked) => {
                let set = locked.set(stamp).await;
                set.context("cannot mark the store")
            }
        }
    }
}
