//! Threads for work on files.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::ops::Deref;

use parking_lot::{Condvar, Mutex};
use rayon::ThreadPool;
use tokio::runtime::Handle;

/// Threads for blocking work on files, which can also wait for the asynchronous
/// calls of a store.
///
/// Operations share thread pools: up to [`POOLS`] operations with the same
/// number of threads run at a time, and the next one waits. The threads stay
/// alive for the next operation.
///
/// If the caller is inside a Tokio runtime, stores can use it; the caller
/// should then be on a thread that may block.
#[derive(Debug)]
pub struct Workers {
    threads: usize,
    runtime: Option<Handle>,
}

/// Maximum number of pools of one size in a process. Each operation has its own
/// pool. In a shared pool, a thread that waits for a part of its operation
/// would run parts of other operations meanwhile, on the same stack, and could
/// block on their locks.
pub const POOLS: usize = 8;

/// Stack size of a thread. Large, since work on deep trees recurses; unused
/// stack costs nothing.
const STACK_BYTES: usize = 256 * 1024 * 1024;

static SIZES: Mutex<BTreeMap<usize, Size>> = Mutex::new(BTreeMap::new());
static RETURNED: Condvar = Condvar::new();

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// The pools with one number of threads.
#[derive(Default)]
struct Size {
    /// Number of existing pools.
    count: usize,
    /// Pools that no operation uses.
    idle: Vec<ThreadPool>,
}

impl Workers {
    /// Makes sure that a pool of `threads` threads exists, or of one thread if
    /// `threads` is 0.
    pub fn start(threads: usize) -> io::Result<Self> {
        let threads = threads.max(1);
        let mut sizes = SIZES.lock();
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

    /// Runs `work` on a free pool. Work that is already on a worker thread
    /// stays there, so it never waits for itself.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        if IS_WORKER.get() {
            work()
        } else {
            Lease::take(self.threads).install(work)
        }
    }

    /// Waits for a call to a store, on a worker thread.
    pub fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        let _inside = self.runtime.as_ref().map(Handle::enter);
        futures::executor::block_on(call)
    }
}

/// A pool in use by one operation. Returned on drop, also after a panic.
struct Lease {
    threads: usize,
    pool: Option<ThreadPool>,
}

impl Lease {
    /// Waits until a pool is free, and takes it. `start` has created at least
    /// one pool of this size.
    fn take(threads: usize) -> Self {
        let mut all = SIZES.lock();
        loop {
            let size = all.entry(threads).or_default();
            let mut pool = size.idle.pop();
            if pool.is_none() && size.count < POOLS {
                // If no threads can be started, wait for an existing pool.
                pool = self::pool(threads).ok();
                size.count += usize::from(pool.is_some());
            }
            if pool.is_some() {
                return Self { threads, pool };
            }
            RETURNED.wait(&mut all);
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
        let mut sizes = SIZES.lock();
        let size = sizes.entry(self.threads).or_default();
        size.idle.extend(self.pool.take());
        // Notify all threads, since some may wait for a pool of another size.
        RETURNED.notify_all();
    }
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
