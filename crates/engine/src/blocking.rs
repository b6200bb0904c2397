use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rayon::ThreadPool;
use tokio::runtime::Handle;

/// Threads for work on files, which blocks, over stores, which may not.
///
/// Operations share their threads: as many as [`POOLS`] run at a time with the
/// same number of threads, and the next one waits. Threads stay for the next
/// operation.
///
/// If the caller is inside a Tokio runtime, stores that need it find it; the
/// caller should then be on a thread that may block.
#[derive(Debug)]
pub struct Workers {
    threads: usize,
    runtime: Option<Handle>,
}

/// Maximum number of pools of one size in a process. Each operation has a pool to
/// itself: in a common one, a thread that waits for a part of its operation would
/// take up parts of others, on the same stack and behind their locks.
pub const POOLS: usize = 8;

/// Deep trees recurse; untouched stack costs nothing.
const STACK_BYTES: usize = 256 * 1024 * 1024;

static SIZES: Mutex<BTreeMap<usize, Size>> = Mutex::new(BTreeMap::new());
static RETURNED: Condvar = Condvar::new();

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// The pools of one number of threads.
#[derive(Default)]
struct Size {
    /// Those that exist.
    count: usize,
    /// Those that no operation uses.
    idle: Vec<ThreadPool>,
}

impl Workers {
    /// Makes sure that there are `threads` of them, at least one.
    pub fn start(threads: usize) -> io::Result<Self> {
        let threads = threads.max(1);
        let mut sizes = sizes();
        let size = sizes.entry(threads).or_default();
        if size.count == 0 {
            size.idle.push(pool(threads)?);
            size.count = 1;
        }
        Ok(Self {
            threads,
            runtime: Handle::try_current().ok(),
        })
    }

    /// Runs `work` on the workers' threads, when some are free. Work that is on
    /// such a thread already stays there, so it never waits for itself.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match IS_WORKER.get() {
            true => work(),
            false => Lease::take(self.threads).install(work),
        }
    }

    /// Waits for a call into a store, on a worker's thread.
    pub fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        let _inside = self.runtime.as_ref().map(Handle::enter);
        futures::executor::block_on(call)
    }
}

/// A pool that one operation uses, and gives back also if it panics.
struct Lease {
    threads: usize,
    pool: Option<ThreadPool>,
}

impl Lease {
    /// Takes a pool, once one is free. There is one for each size that was started.
    fn take(threads: usize) -> Self {
        let mut all = sizes();
        loop {
            let size = all.entry(threads).or_default();
            let mut pool = size.idle.pop();
            if pool.is_none() && size.count < POOLS {
                // Without more threads, those that there are have to do.
                pool = self::pool(threads).ok();
                size.count += usize::from(pool.is_some());
            }
            if pool.is_some() {
                return Self { threads, pool };
            }
            all = RETURNED.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Deref for Lease {
    type Target = ThreadPool;

    fn deref(&self) -> &ThreadPool {
        match &self.pool {
            Some(pool) => pool,
            None => unreachable!("a lease has its pool until it is dropped"),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut sizes = sizes();
        let size = sizes.entry(self.threads).or_default();
        size.idle.extend(self.pool.take());
        // Those that wait may want another size.
        RETURNED.notify_all();
    }
}

fn sizes() -> MutexGuard<'static, BTreeMap<usize, Size>> {
    SIZES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pool(threads: usize) -> io::Result<ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .stack_size(STACK_BYTES)
        .thread_name(|at| format!("elevo-files-{at}"))
        .start_handler(|_| IS_WORKER.set(true))
        .build()
        .map_err(io::Error::other)
}
