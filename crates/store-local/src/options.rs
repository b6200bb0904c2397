use std::time::Duration;

/// How a store is opened. The defaults suit a development machine; memory is
/// bounded by `block_cache + blob_cache + write_buffers`, and a few megabytes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who opens it, in words for the user that finds it busy: command,
    /// process, host, since when.
    pub holder: String,
    /// How long to wait for another writer to finish.
    pub wait: Duration,
    /// Bytes of memory for blocks of nodes, small chunks and indexes.
    pub block_cache: usize,
    /// Bytes of memory for chunks read lately.
    pub blob_cache: usize,
    /// Bytes of memory for what is written but not yet in table files.
    pub write_buffers: usize,
    /// How many files may be open at once.
    pub open_files: u16,
    /// Threads that write table files in the background.
    pub background_jobs: u16,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            holder: "an unnamed process".into(),
            wait: Duration::from_secs(2),
            block_cache: 128 << 20,
            blob_cache: 32 << 20,
            write_buffers: 256 << 20,
            open_files: 512,
            background_jobs: u16::try_from(cores.clamp(2, 16)).unwrap_or(2),
        }
    }
}
