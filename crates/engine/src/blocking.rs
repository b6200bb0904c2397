//! Threads for work on files.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::ops::Deref;

use parking_lot::{Condvar, Mutex};
use rayon::ThreadPool;
use tokio::runtime::Handle;

/// Threads for work on files, which blocks, over stores, whose calls may
/// suspend.
///
/// Operations share thread pools: up to [`POOLS`] operations with the same
/// number of threads run at a time, and the next one waits. Threads stay for
/// the next operation.
///
/// If the caller is inside a Tokio runtime, stores can use it; the caller
/// should then be on a thread that may block.
#[derive(Debug)]
pub struct Workers {
    threads: usize,
    runtime: Option<Handle>,
}

/// Maximum number of pools of one size in a process. Each operation has a pool
/// to itself: in a shared pool, a thread that waits for a part of its operation
/// would run parts of others, on the same stack and behind their locks.
pub const POOLS: usize = 8;

/// Large, since deep trees recurse; untouched stack costs nothing.
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
    /// Makes sure that a pool of `threads` threads exists, at least one thread.
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
    /// Takes a pool once one is free. `start` has created at least one of each
    /// size.
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
        // Notify all: some may wait for another size.
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
