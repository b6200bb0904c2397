//! How RocksDB is set up.

use std::fs;
use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode, Error,
};

use crate::options::Options;

pub(crate) const DIRECTORY: &str = "db";

/// File content.
pub(crate) const CHUNKS: &str = "chunks";
/// Nodes of all kinds of trees.
pub(crate) const NODES: &str = "nodes";
/// Snapshots.
pub(crate) const SNAPSHOTS: &str = "snapshots";
/// References. The family that every RocksDB has.
pub(crate) const METADATA: &str = rocksdb::DEFAULT_COLUMN_FAMILY_NAME;

const BLOOM_BITS: f64 = 10.0;

pub(crate) fn create(path: &Path, options: &Options) -> Result<DB, Error> {
    let mut database = database(options);
    database.create_if_missing(true);
    database.create_missing_column_families(true);
    DB::open_cf_descriptors(&database, path, families(options))
}

pub(crate) fn open(path: &Path, options: &Options) -> Result<DB, Error> {
    DB::open_cf_descriptors(&database(options), path, families(options))
}

/// A view of the database as it is now, or `None` if a writer was changing its
/// files meanwhile.
///
/// RocksDB reads the list of table files first and the logs after it. A flush
/// in between moves rows from a log that is then deleted to a table that is
/// not in the list yet; the rows would be missing, and newer ones there. It
/// also adds to the manifest, so that an unchanged manifest is proof that
/// there was none.
pub(crate) fn open_read_only(path: &Path, options: &Options) -> Result<Option<DB>, Error> {
    let mut database = database(options);
    // All table files now: the writer may delete one while this view needs it,
    // and an open file outlives its name.
    database.set_max_open_files(-1);
    let before = manifest(path);
    let opened = DB::open_cf_descriptors_read_only(&database, path, families(options), false);
    if manifest(path) == before {
        opened.map(Some)
    } else {
        Ok(None)
    }
}

/// The manifest's name and length.
fn manifest(path: &Path) -> Option<(String, u64)> {
    let name = fs::read_to_string(path.join("CURRENT")).ok()?;
    let length = fs::metadata(path.join(name.trim())).ok()?.len();
    Some((name, length))
}

fn database(options: &Options) -> rocksdb::Options {
    let mut database = rocksdb::Options::default();
    database.set_max_background_jobs(options.background_jobs.into());
    database.set_max_open_files(options.open_files.into());
    database.set_db_write_buffer_size(options.write_buffers);
    database.set_max_total_wal_size(128 << 20);
    database.set_bytes_per_sync(1 << 20);
    // After a power loss, nothing that was written after a hole may appear.
    database.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    database.set_keep_log_file_num(2);
    database.set_max_log_file_size(1 << 20);
    database.set_stats_dump_period_sec(0);
    database.set_stats_persist_period_sec(0);
    database
}

fn families(options: &Options) -> Vec<ColumnFamilyDescriptor> {
    let blocks = Cache::new_lru_cache(options.block_cache);
    let blobs = Cache::new_lru_cache(options.blob_cache);
    let mut chunks = family(&blocks);
    chunks.set_write_buffer_size(options.write_buffers / 4);
    chunks.set_enable_blob_files(true);
    chunks.set_min_blob_size(2 << 10);
    chunks.set_blob_file_size(256 << 20);
    chunks.set_blob_compression_type(DBCompressionType::Lz4);
    chunks.set_blob_cache(&blobs);
    let mut nodes = family(&blocks);
    nodes.set_write_buffer_size(options.write_buffers / 8);
    let small = family(&blocks);
    vec![
        ColumnFamilyDescriptor::new(CHUNKS, chunks),
        ColumnFamilyDescriptor::new(NODES, nodes),
        ColumnFamilyDescriptor::new(SNAPSHOTS, small.clone()),
        ColumnFamilyDescriptor::new(METADATA, small),
    ]
}

fn family(blocks: &Cache) -> rocksdb::Options {
    let mut tables = BlockBasedOptions::default();
    tables.set_block_cache(blocks);
    tables.set_bloom_filter(BLOOM_BITS, false);
    tables.set_cache_index_and_filter_blocks(true);
    tables.set_pin_l0_filter_and_index_blocks_in_cache(true);
    tables.set_format_version(6);
    let mut family = rocksdb::Options::default();
    family.set_block_based_table_factory(&tables);
    family.set_compression_type(DBCompressionType::Lz4);
    family.set_level_compaction_dynamic_level_bytes(true);
    family
}
