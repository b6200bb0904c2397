//! Bare RocksDB, whose time is the lower bound for a commit.

use std::path::Path;

use anyhow::{Context, Result};
use elevo_core::TenantId;
use elevo_engine::Commit;
use elevo_objects::Kind;
use rocksdb::{Cache, DB, Env, Options, WriteBatch, WriteOptions};

/// A database with the column families and options of a store. Batches are written directly,
/// without lookups, comparisons or hashing.
pub(crate) struct BareRocksDb {
    db: DB,
}

/// The rows of a commit: a column family, a key and a value each.
pub(crate) type Puts = Vec<(&'static str, Vec<u8>, Vec<u8>)>;

impl BareRocksDb {
    /// Creates an empty database at `path` with the options of the store in `store`, which RocksDB
    /// records on disk.
    pub(crate) fn like_that_of(store: &Path, path: &Path) -> Result<Self> {
        let cache = Cache::new_lru_cache(128 << 20);
        let latest = Options::load_latest(store.join("db"), Env::new()?, true, cache);
        let (mut options, families) = latest.context("cannot read the options of the store")?;
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let db = DB::open_cf_descriptors(&options, path, families)?;
        Ok(Self { db })
    }

    /// Writes all rows in one durable batch.
    pub(crate) fn write(&self, puts: &Puts) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (family, key, value) in puts {
            let family = self.db.cf_handle(family).context("a family is missing")?;
            batch.put_cf(family, key, value);
        }
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        Ok(self.db.write_opt(batch, &synced)?)
    }
}

/// The keys and values that the local store uses for `commit`.
pub(crate) fn puts(tenant: TenantId, commit: &Commit) -> Result<Puts> {
    let row = |parts: &[&[u8]]| [&[tenant.as_bytes().as_slice()], parts].concat().concat();
    let mut puts = Puts::new();
    for object in &commit.objects {
        let (family, kind) = match object.key.kind {
            Kind::Chunk => ("chunks", b"c"),
            Kind::Directory => ("nodes", b"d"),
            Kind::Times => ("nodes", b"t"),
            Kind::ChunkList => ("nodes", b"f"),
            Kind::Snapshot => ("nodes", b"s"),
        };
        let key = row(&[object.key.hash.as_bytes(), kind]);
        puts.push((family, key, object.data.to_vec()));
    }
    for snapshot in &commit.snapshots {
        let (id, data) = snapshot.encode()?;
        puts.push(("snapshots", row(&[id.0.as_bytes()]), data.to_vec()));
    }
    for update in &commit.references {
        let target = update
            .target
            .context("the commit removes a ref, which this benchmark cannot write")?;
        let key = row(&[b"r", update.name.as_bytes()]);
        puts.push(("default", key, target.0.as_bytes().to_vec()));
    }
    Ok(puts)
}
