use std::time::Duration;

/// How a store is opened. The defaults suit a development machine.
///
/// Memory is bounded by `block_cache + write_buffers` and a few megabytes. A
/// store that is opened for reading has no write buffers, but holds the log of
/// the writer instead, at most 64 MiB. Chunks and large nodes are cached by the
/// operating system alone.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who opens it, in words for the user that finds it busy: command,
    /// process, host, since when.
    pub holder: String,
    /// How long to wait for another writer to finish.
    pub wait: Duration,
    /// Bytes of memory for keys, small objects, and the filters over them.
    pub block_cache: usize,
    /// Bytes of memory for what is written but not yet in table files.
    pub write_buffers: usize,
    /// Bytes that may be put ahead of a commit before what follows skips the
    /// log. Less is not worth the flush that the commit then waits for, nor
    /// the files that it leaves.
    pub logged_puts: usize,
    /// How many files may be open at once. Does not hold for a store opened
    /// for reading, which keeps all table files open.
    pub open_files: u16,
    /// Opens a store though its log is damaged. What follows the damage in the
    /// log is lost: the newest commits.
    pub salvage: bool,
    /// Threads that write table files in the background.
    pub background_jobs: u16,
    /// How full the disk may be, in percent, for objects and snapshots to be
    /// taken; collections go on above it.
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
