//! Options of a store.

use std::time::Duration;

/// Options for opening a store. The defaults suit a development machine.
///
/// Memory is bounded by `block_cache + write_buffers` and a few megabytes. A
/// store that is opened for reading has no write buffers, but holds the log of
/// the writer instead, at most 64 MiB. Chunks and large nodes are cached only
/// by the operating system.
#[derive(Clone, Debug)]
pub struct Options {
    /// Description of this process, shown to a user who finds the store busy:
    /// command, process, host, start time.
    pub holder: String,
    /// Maximum time to wait for another writer to finish.
    pub wait: Duration,
    /// Bytes of memory for keys, small objects, and the filters over them.
    pub block_cache: usize,
    /// Bytes of memory for writes that are not in table files yet.
    pub write_buffers: usize,
    /// Bytes that may be put ahead of a commit before further puts skip the
    /// log. For fewer bytes, skipping the log is not worth its price: the
    /// commit has to wait for a flush, which leaves additional files.
    pub logged_puts: usize,
    /// Maximum number of open files. A store opened for reading ignores it and
    /// keeps all table files open.
    pub open_files: u16,
    /// Opens a store although its log is damaged. The entries after the damage,
    /// which have the newest commits, are lost.
    pub salvage: bool,
    /// Number of threads that write table files in the background.
    pub background_jobs: u16,
    /// Disk usage in percent above which the store rejects new objects and
    /// snapshots. Garbage collection still runs.
    pub full_percent: u8,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            holder: "an unnamed process".into(),
            wait: Duration::from_secs(2),
            block_cache: 128 << 20,
            write_buffers: 256 << 20,
            logged_puts: 16 << 20,
            open_files: 512,
            salvage: false,
            background_jobs: u16::try_from(cores.clamp(2, 16)).unwrap_or(2),
            full_percent: 100,
        }
    }
}
