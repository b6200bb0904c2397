use std::path::PathBuf;
use std::time::Duration;

use crate::bucket::BucketOptions;

/// Options for opening a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// URL of the database:
    /// `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE`. Of several hosts,
    /// the one that can be written is used.
    pub database: String,
    /// The S3 bucket.
    pub bucket: BucketOptions,
    /// Maximum number of connections of this process to the database.
    pub connections: u32,
    /// Time after which a call that waits for a connection fails.
    pub wait: Duration,
    /// Time after which a statement without an answer fails.
    pub statement: Duration,
    /// Interval between two checks that the host can be written.
    pub check: Duration,
    /// Time for which a commit is repeated whose outcome is not known.
    pub settle: Duration,
    /// Interval at which this process reports to the others, and acts on their
    /// collections.
    pub beat: Duration,
    /// Time after which this process counts as lost unless it reports.
    pub lease: Duration,
    /// Maximum size of a commit that needs no S3 file.
    pub inline_bytes: usize,
    /// The local cache of what is read from S3.
    pub cache: CacheOptions,
    /// Interval between two turns of the upkeep, which one process does for all:
    /// it bundles packs and deletes files.
    pub upkeep: Duration,
    /// The move of small packs from the database into S3.
    pub bundle: BundleOptions,
    /// Time for which an unused file stays in S3. At least the time to which the
    /// database may be restored from a backup: it finds its files then.
    pub grace: Duration,
    /// Whether to open a database although a later state of it has used the bucket,
    /// as after a restore.
    pub adopts: bool,
}

/// Options of the move of small packs into S3.
#[derive(Clone, Copy, Debug)]
pub struct BundleOptions {
    /// Age at which a pack may move.
    pub age: Duration,
    /// Size of the packs of a tenant at which they move.
    pub bytes: u64,
    /// Age at which a pack moves although there are few.
    pub oldest: Duration,
}

/// Options of the local cache.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Maximum size in memory.
    pub memory: u64,
    /// Directory of the cache on disk, which only this process uses, and its
    /// maximum size.
    pub disk: Option<(PathBuf, u64)>,
}

impl Options {
    /// The usual options.
    pub fn new(database: impl Into<String>, bucket: BucketOptions) -> Self {
        Self {
            database: database.into(),
            bucket,
            connections: 16,
            wait: Duration::from_secs(10),
            statement: Duration::from_secs(60),
            check: Duration::from_secs(1),
            settle: Duration::from_secs(10),
            beat: Duration::from_secs(2),
            lease: Duration::from_secs(15),
            inline_bytes: 256 << 10,
            cache: CacheOptions {
                memory: 256 << 20,
                disk: None,
            },
            upkeep: Duration::from_secs(60),
            bundle: BundleOptions {
                age: Duration::from_secs(600),
                bytes: 8 << 20,
                oldest: Duration::from_secs(3600),
            },
            grace: Duration::from_hours(24),
            adopts: false,
        }
    }
}
