//! Configuration of RocksDB.

use std::fs;
use std::path::Path;

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType,
    DBRecoveryMode, Error, LogLevel,
};

use crate::options::Options;

pub(crate) const DIRECTORY: &str = "db";

/// File content.
pub(crate) const CHUNKS: &str = "chunks";
/// Nodes of all kinds of trees.
pub(crate) const NODES: &str = "nodes";
/// Snapshots.
pub(crate) const SNAPSHOTS: &str = "snapshots";
/// Objects that a collection found to be needed.
pub(crate) const MARKS: &str = "marks";
/// Refs and other small rows. The family that every RocksDB has.
pub(crate) const METADATA: &str = rocksdb::DEFAULT_COLUMN_FAMILY_NAME;

/// Values from this size on are in separate files, which compaction does not
/// rewrite; the tables have keys and the positions of the values.
const BLOB_BYTES: u64 = 1 << 10;
const BLOB_FILE_BYTES: u64 = 256 << 20;

/// Maximum size of the log: this much is replayed on opening.
const LOG_BYTES: u64 = 64 << 20;
/// Maximum number of logs that earlier processes may leave.
const KEPT_LOGS: usize = 32;

/// Bytes of marks that are collected in memory before they go to a table file.
const MARK_BYTES: usize = 16 << 20;

const BLOOM_BITS: f64 = 10.0;
/// Size of the filters that save searches of recent writes, as a share of the
/// write buffers.
const MEMORY_BLOOM: f64 = 0.01;

pub(crate) fn create(path: &Path, options: &Options) -> Result<DB, Error> {
    let mut database = database(options);
    database.create_if_missing(true);
    database.create_missing_column_families(true);
    DB::open_cf_descriptors(&database, path, families(options))
}

/// Opens the database. `is_whole` must be true only if it is known that no
/// crash has cut off the log.
pub(crate) fn open(path: &Path, options: &Options, is_whole: bool) -> Result<DB, Error> {
    let mut database = database(options);
    set_recovery(&mut database, options, is_whole);
    if is_whole && logs(path) < KEPT_LOGS {
        // Without this option, each process, however short-lived, would write
        // the log of the previous process to new table files. The option is set
        // only after an orderly end: if a log is cut off, RocksDB reads the
        // next log only if it continues without a gap, and unlogged writes are
        // a gap.
        database = database.get_options_from_string("avoid_flush_during_recovery=true")?;
    }
    // A store from before there were collections has no marks.
    database.create_missing_column_families(true);
    DB::open_cf_descriptors(&database, path, families(options))
}

fn logs(path: &Path) -> usize {
    let is_log = |entry: &fs::DirEntry| entry.path().extension().is_some_and(|end| end == "log");
    fs::read_dir(path).map_or(0, |entries| entries.flatten().filter(is_log).count())
}

/// Opens a view of the current database; `None` if a writer was changing its
/// files at the same time.
///
/// RocksDB reads the list of table files first and the logs after it. A flush
/// in between moves rows from a log, which is then deleted, to a table that is
/// not in the list yet; those rows would be missing, while newer ones are
/// present. A flush also appends to the manifest, so an unchanged manifest
/// proves that there was none.
pub(crate) fn open_read_only(
    path: &Path,
    options: &Options,
    is_whole: bool,
) -> Result<Option<DB>, Error> {
    let mut database = database(options);
    set_recovery(&mut database, options, is_whole);
    // Open all table files now: the writer may delete one while this view needs
    // it, and an open file outlives its name.
    database.set_max_open_files(-1);
    let before = manifest(path);
    let mut families = families(options);
    if !DB::list_cf(&database, path)?
        .iter()
        .any(|name| name == MARKS)
    {
        families.retain(|family| family.name() != MARKS);
    }
    let opened = DB::open_cf_descriptors_read_only(&database, path, families, false);
    if manifest(path) == before {
        opened.map(Some)
    } else {
        Ok(None)
    }
}

/// Sets how the log is replayed. In a log that is known to be complete, any
/// damage is an error. In any other log, a power loss may have left a gap, and
/// nothing that was written after the gap may appear.
fn set_recovery(database: &mut rocksdb::Options, options: &Options, is_whole: bool) {
    let mode = if is_whole && !options.salvage {
        DBRecoveryMode::AbsoluteConsistency
    } else {
        DBRecoveryMode::PointInTime
    };
    database.set_wal_recovery_mode(mode);
}

/// Returns the manifest's name and length.
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
    database.set_max_total_wal_size(LOG_BYTES);
    // Table files go to the disk while they are written, not all at the end.
    database.set_bytes_per_sync(1 << 20);
    // RocksDB's own diagnostic log.
    database.set_log_level(LogLevel::Warn);
    database.set_keep_log_file_num(2);
    database.set_max_log_file_size(1 << 20);
    database.set_stats_dump_period_sec(0);
    database.set_stats_persist_period_sec(0);
    database
}

fn families(options: &Options) -> Vec<ColumnFamilyDescriptor> {
    let blocks = Cache::new_lru_cache(options.block_cache);
    let mut chunks = family_of_objects(&blocks);
    chunks.set_write_buffer_size(options.write_buffers / 4);
    let mut nodes = family_of_objects(&blocks);
    nodes.set_write_buffer_size(options.write_buffers / 8);
    let small = family(&blocks);
    let mut marks = family(&blocks);
    marks.set_write_buffer_size(MARK_BYTES);
    marks.set_memtable_whole_key_filtering(true);
    marks.set_memtable_prefix_bloom_ratio(MEMORY_BLOOM);
    vec![
        ColumnFamilyDescriptor::new(CHUNKS, chunks),
        ColumnFamilyDescriptor::new(NODES, nodes),
        ColumnFamilyDescriptor::new(SNAPSHOTS, small.clone()),
        ColumnFamilyDescriptor::new(MARKS, marks),
        ColumnFamilyDescriptor::new(METADATA, small),
    ]
}

/// Chunks are already compressed; nodes are mostly hashes.
fn family_of_objects(blocks: &Cache) -> rocksdb::Options {
    let mut family = family(blocks);
    family.set_enable_blob_files(true);
    family.set_min_blob_size(BLOB_BYTES);
    family.set_blob_file_size(BLOB_FILE_BYTES);
    family.set_blob_compression_type(DBCompressionType::None);
    family.set_memtable_prefix_bloom_ratio(MEMORY_BLOOM);
    family.set_memtable_whole_key_filtering(true);
    family
}

fn family(blocks: &Cache) -> rocksdb::Options {
    let mut tables = BlockBasedOptions::default();
    tables.set_block_cache(blocks);
    tables.set_bloom_filter(BLOOM_BITS, false);
    tables.set_cache_index_and_filter_blocks(true);
    tables.set_pin_l0_filter_and_index_blocks_in_cache(true);
    // A table of a million keys has a filter of more than a megabyte, which no
    // shard of the cache has room for: each lookup would read all of it.
    tables.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    tables.set_partition_filters(true);
    tables.set_pin_top_level_index_and_filter(true);
    tables.set_format_version(6);
    let mut family = rocksdb::Options::default();
    family.set_block_based_table_factory(&tables);
    family.set_compression_type(DBCompressionType::Lz4);
    family.set_level_compaction_dynamic_level_bytes(true);
    family
}
