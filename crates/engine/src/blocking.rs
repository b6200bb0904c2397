use std::future::Future;

use tokio::runtime::Handle;

/// Threads for work on files, which blocks, over stores, which may not.
///
/// If the caller is inside a Tokio runtime, stores that need it find it; the
/// caller should then be on a thread that may block.
#[derive(Debug)]
pub struct Workers {
    pool: rayon::ThreadPool,
    runtime: Option<Handle>,
}

/// Deep trees recurse; untouched stack costs nothing.
const STACK_BYTES: usize = 256 * 1024 * 1024;

impl Workers {
    /// Starts `threads` of them, at least one.
    pub fn start(threads: usize) -> std::io::Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.max(1))
            .stack_size(STACK_BYTES)
            .thread_name(|at| format!("elevo-files-{at}"))
            .build()
            .map_err(std::io::Error::other)?;
        Ok(Self {
            pool,
            runtime: Handle::try_current().ok(),
        })
    }

    /// Runs `work` on the workers' threads.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// Waits for a call into a store, on a worker's thread.
    pub fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        let _inside = self.runtime.as_ref().map(Handle::enter);
        futures::executor::block_on(call)
    }
}
