//! Opening a store.

use std::borrow::Cow;
use std::path::PathBuf;

use elevo_core::TenantId;
use elevo_engine::{StoreError, StoreResult};
use elevo_postgres::{Chosen, Hosts, InvalidUrl, Keeper, Limits, NoneWritable, Places, Pool};
use sqlx::PgConnection;
use sqlx::migrate::{MigrateError, Migrator};

use crate::bucket::{Bucket, BucketOptions};
use crate::cache::{BlockCache, Memory};
use crate::disk::Disk;
use crate::failure::{self, valid};
use crate::options::{CacheOptions, Options};

/// The reason why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL of the database is not valid.
    #[error("the URL of the store's database is not valid")]
    InvalidUrl(#[from] InvalidUrl),
    /// No host of the database can be written.
    #[error("the database of the store cannot be used")]
    NoneWritable(#[from] NoneWritable),
    /// The options of the bucket are not valid.
    #[error("the options of the bucket are not valid")]
    InvalidBucket(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The directory of the cache cannot be used.
    #[error("the directory of the store's cache cannot be used: {}", directory.display())]
    Cache {
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A newer version has written the database.
    #[error("the schema of the store is newer than this version; use a newer version of Elevo")]
    Newer,
    /// The file in the bucket that names its store is not valid.
    #[error(
        "the file STORE in the bucket is not valid; the bucket belongs to another program or a newer version"
    )]
    UnknownBucket,
    /// The bucket has the files of another store.
    #[error(
        "the bucket has the files of another store; use an empty prefix or bucket for each store"
    )]
    ForeignBucket,
    /// The database has objects, but the bucket has no file of a store.
    #[error("the bucket does not have the files of the store in this database")]
    NoMark,
    /// The database is an older copy: a later state of it has used the bucket.
    #[error(
        "the database of the store is an older copy: it was last opened as number {found}, and the \
         bucket as number {known}"
    )]
    OlderDatabase {
        /// The epoch of the database.
        found: i64,
        /// The epoch of the bucket.
        known: i64,
    },
    /// The schema cannot be created.
    #[error("the schema of the store cannot be created")]
    Schema(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database or the bucket failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(crate) async fn cache(options: &CacheOptions) -> Result<Box<dyn BlockCache>, OpenError> {
    let Some((directory, bytes)) = &options.disk else {
        return Ok(Box::new(Memory::new(options.memory)));
    };
    match Disk::open(directory, options.memory, *bytes).await {
        Ok(disk) => Ok(Box::new(disk)),
        Err(source) => Err(OpenError::Cache {
            directory: directory.clone(),
            source,
        }),
    }
}

pub(crate) fn bucket(options: &BucketOptions) -> Result<Bucket, OpenError> {
    Bucket::open(options).map_err(|error| OpenError::InvalidBucket(Box::new(error)))
}

/// Connects to the host that can be written.
pub(crate) async fn choose(options: &Options) -> Result<(Places, Chosen), OpenError> {
    let hosts = Hosts::read(&options.database, options.wait)?;
    let places = Places {
        hosts,
        direct: None,
    };
    let chosen = places.choose().await?;
    Ok((places, chosen))
}

/// Connects to the host that can be written, and stays with it.
pub(crate) async fn connect(options: &Options) -> Result<(Pool, Keeper), OpenError> {
    let (places, mut chosen) = choose(options).await?;
    migrate(chosen.connection()).await?;
    let limits = Limits {
        connections: options.connections,
        wait: options.wait,
        statement: options.statement,
    };
    let pool = Pool::new(chosen.host().clone(), limits);
    let keeper = Keeper::start(places, chosen, pool.clone(), options.check, options.wait);
    Ok((pool, keeper))
}

/// Returns the tenants that were added last, with their numbers.
pub(crate) async fn tenants(pool: &Pool) -> StoreResult<Vec<(TenantId, i32)>> {
    let rows: Vec<(Vec<u8>, i32)> =
        sqlx::query_as("SELECT id, no FROM store.tenants ORDER BY no DESC LIMIT 10000")
            .fetch_all(pool)
            .await
            .map_err(failure::of)?;
    let read = |(id, number): (Vec<u8>, i32)| {
        let id = valid(id.try_into().ok(), "the id of a tenant")?;
        Ok((TenantId::new(id), number))
    };
    rows.into_iter().map(read).collect()
}

/// The migrations of the database, for tests that create it beforehand.
pub fn migrations() -> Migrator {
    let mut migrator: Migrator = sqlx::migrate!("./migrations");
    migrator.dangerous_set_table_name("store._sqlx_migrations");
    migrator.create_schemas = Cow::Owned(vec!["store".into()]);
    migrator
}

async fn migrate(connection: &mut PgConnection) -> Result<(), OpenError> {
    let migrated = migrations().run(connection).await;
    migrated.map_err(|error| match error {
        MigrateError::VersionMissing(_) => OpenError::Newer,
        other => OpenError::Schema(Box::new(other)),
    })
}
