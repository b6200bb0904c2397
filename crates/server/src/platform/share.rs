//! Limits the threads and the memory that one tenant may use at a time.
//!
//! Work of the engine, the store and merges computes and waits for the disk. On
//! the threads that respond to requests, this work would delay every tenant, so
//! it runs on other threads: [`Shares::apart`] polls a future where it may
//! block, and [`Shares::blocking`] runs a closure there. Both wait for a turn
//! of the tenant and then for a turn of the server, so that no tenant uses all
//! threads.
//!
//! A turn lasts as long as the work computes. A future that waits holds no
//! turn, so a turn never waits for another turn.
//!
//! [`Shares::hold`] counts the bytes of bodies and of output that stay in
//! memory for a client. It fails at once if there are too many.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use elevo_core::{ErrorCode, TenantId};
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::{Failure, Result};

/// Maximum futures of all tenants that compute at a time. Together with the
/// closures and archives below, this stays under the runtime's 512 threads for
/// blocking work.
const POLLS: usize = 128;
/// Maximum blocking closures of all tenants at a time.
const BLOCKING: usize = 256;
/// Maximum blocking closures of one tenant at a time.
const BLOCKING_OF_ONE: usize = 32;
/// Maximum archives that are sent to clients of all tenants at a time, each by
/// one thread.
const PACKING: usize = 64;
/// Maximum archives that are sent to clients of one tenant at a time.
const PACKING_OF_ONE: usize = 8;
/// Maximum time that a closure waits for its turn.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum memory of all tenants for bodies and output, in bytes.
const BYTES: usize = 384 << 20;
/// Maximum memory of one tenant for bodies and output, in bytes.
const BYTES_OF_ONE: usize = 128 << 20;

/// The shares of all tenants.
#[derive(Debug)]
pub(crate) struct Shares {
    all: Arc<Share>,
    /// Maximum futures of one tenant that compute at a time.
    polls_of_one: usize,
    tenants: Mutex<HashMap<TenantId, Arc<Share>>>,
}

/// The turns and bytes that one tenant, or all tenants together, may still use.
#[derive(Debug)]
struct Share {
    polls: Arc<Semaphore>,
    blocking: Arc<Semaphore>,
    packing: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// A turn of a tenant and a turn of the server.
type Turn = [OwnedSemaphorePermit; 2];

/// Bytes that count towards a share until this value is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<OwnedSemaphorePermit>);

impl Default for Shares {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            all: Arc::new(Share::new(POLLS, BLOCKING, PACKING, BYTES)),
            polls_of_one: (4 * cores).min(POLLS / 4),
            tenants: Mutex::default(),
        }
    }
}

impl Share {
    fn new(polls: usize, blocking: usize, packing: usize, bytes: usize) -> Self {
        let turns = |count| Arc::new(Semaphore::new(count));
        Self {
            polls: turns(polls),
            blocking: turns(blocking),
            packing: turns(packing),
            bytes: turns(bytes),
        }
    }
}

impl Shares {
    fn of(&self, tenant: TenantId) -> Arc<Share> {
        let mut tenants = self.tenants.lock();
        let new = || {
            let polls = self.polls_of_one;
            Arc::new(Share::new(
                polls,
                BLOCKING_OF_ONE,
                PACKING_OF_ONE,
                BYTES_OF_ONE,
            ))
        };
        tenants.entry(tenant).or_insert_with(new).clone()
    }

    /// Removes the share of an erased tenant.
    pub(crate) fn forget(&self, tenant: TenantId) {
        let mut tenants = self.tenants.lock();
        tenants.remove(&tenant);
    }

    /// Runs a future of a tenant where it may compute for long and wait for the
    /// disk. The future stays in the task of the caller, so its tracing spans
    /// and task-local values stay the same.
    pub(crate) async fn apart<F: Future>(&self, tenant: TenantId, work: F) -> F::Output {
        let share = self.of(tenant);
        let mut work = pin!(work);
        loop {
            let turn = turn(&share.polls, &self.all.polls).await;
            let polled =
                poll_fn(|context| Poll::Ready(where_it_may_block(|| work.as_mut().poll(context))));
            let polled = polled.await;
            drop(turn);
            match polled {
                Poll::Ready(output) => return output,
                Poll::Pending => woken().await,
            }
        }
    }

    /// Runs a blocking closure for a tenant. The closure runs to its end even
    /// if the caller is cancelled.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let share = self.of(tenant);
        let turn = in_time(turn(&share.blocking, &self.all.blocking)).await?;
        run(turn, work).await
    }

    /// Waits for a turn to write an archive that a client may read slowly.
    pub(crate) async fn packing(&self, tenant: TenantId) -> Result<Packing> {
        let share = self.of(tenant);
        let turn = in_time(turn(&share.packing, &self.all.packing)).await?;
        Ok(Packing(turn))
    }

    /// Counts bytes that stay in memory for a client. Returns `None` if the
    /// tenant or the server would exceed its limit.
    pub(crate) fn hold(&self, tenant: TenantId, bytes: usize) -> Option<Held> {
        let bytes = u32::try_from(bytes).ok()?;
        let share = self.of(tenant);
        let one = share.bytes.clone().try_acquire_many_owned(bytes).ok()?;
        let all = self.all.bytes.clone().try_acquire_many_owned(bytes).ok()?;
        Some(Held(vec![one, all]))
    }
}

impl Held {
    /// Adds the bytes of `more` to this value.
    pub(crate) fn add(&mut self, more: Self) {
        if self.0.is_empty() {
            self.0 = more.0;
            return;
        }
        for (held, more) in self.0.iter_mut().zip(more.0) {
            held.merge(more);
        }
    }
}

/// The turn to write an archive.
#[derive(Debug)]
pub(crate) struct Packing(Turn);

impl Packing {
    /// Runs the closure that writes the archive.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        run(self.0, work).await
    }
}

/// Returns the failure of a request that exceeds the memory limit of its tenant
/// or of the server.
pub(crate) fn too_many_bytes() -> Failure {
    let message = "the running requests use too much memory";
    Failure::new(ErrorCode::Overloaded, message).retry_after(1)
}

async fn run<T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let work = move || {
        let done = work();
        drop(turn);
        done
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::internal(&error)))
}

async fn turn(one: &Arc<Semaphore>, all: &Arc<Semaphore>) -> Turn {
    // The semaphores are never closed, so an error does not occur.
    let next = async |turns: &Arc<Semaphore>| loop {
        if let Ok(permit) = turns.clone().acquire_owned().await {
            return permit;
        }
        tokio::task::yield_now().await;
    };
    [next(one).await, next(all).await]
}

async fn in_time(turn: impl Future<Output = Turn>) -> Result<Turn> {
    tokio::time::timeout(PATIENCE, turn).await.map_err(|_| {
        let message = "too many operations are already running";
        Failure::new(ErrorCode::Overloaded, message).retry_after(5)
    })
}

/// Runs `work` while another thread takes over the tasks of this thread.
fn where_it_may_block<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Waits until the current task is woken.
async fn woken() {
    let mut is_first = true;
    poll_fn(|_| match std::mem::replace(&mut is_first, false) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const ONE: TenantId = TenantId::new([1; 16]);
    const OTHER: TenantId = TenantId::new([2; 16]);

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_only_worker_runs_other_tasks_while_a_future_computes() {
        let shares = Arc::new(Shares::default());
        let (release, released) = std::sync::mpsc::channel::<()>();
        let computing = tokio::spawn({
            let shares = shares.clone();
            async move {
                let work = async move { released.recv().unwrap() };
                shares.apart(ONE, work).await;
            }
        });
        // There is no other worker, so this task must run on the same one.
        tokio::spawn(async move { release.send(()).unwrap() });
        computing.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_future_that_waits_holds_no_turn() {
        let shares = Arc::new(Shares::default());
        let gate = Arc::new(Semaphore::new(0));
        let waiting: Vec<_> = (0..1000)
            .map(|_| {
                let (shares, gate) = (shares.clone(), gate.clone());
                tokio::spawn(async move {
                    shares
                        .apart(ONE, async { drop(gate.acquire().await.unwrap()) })
                        .await;
                })
            })
            .collect();
        shares.apart(ONE, async { gate.add_permits(1) }).await;
        for waiting in waiting {
            waiting.await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_tenant_that_uses_all_its_turns_does_not_block_others() {
        let shares = Arc::new(Shares::default());
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let running = Arc::new(AtomicUsize::new(0));
        let all: Vec<_> = (0..100)
            .map(|_| {
                let (shares, released) = (shares.clone(), released.clone());
                let running = running.clone();
                tokio::spawn(async move {
                    let work = move || {
                        running.fetch_add(1, Ordering::SeqCst);
                        let _ = released.lock().recv();
                        running.fetch_sub(1, Ordering::SeqCst);
                        Ok(())
                    };
                    shares.blocking(ONE, work).await
                })
            })
            .collect();
        while running.load(Ordering::SeqCst) < BLOCKING_OF_ONE {
            tokio::task::yield_now().await;
        }
        assert_eq!(shares.blocking(OTHER, || Ok(7)).await.unwrap(), 7);
        assert_eq!(running.load(Ordering::SeqCst), BLOCKING_OF_ONE);
        drop(release);
        for one in all {
            one.await.unwrap().unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_closure_waits_only_for_a_limited_time() {
        let shares = Shares::default();
        let turns = shares.of(ONE).blocking.clone();
        let _all = turns
            .acquire_many_owned(BLOCKING_OF_ONE as u32)
            .await
            .unwrap();
        let refused = shares.blocking(ONE, || Ok(())).await;
        assert_eq!(refused.unwrap_err().code, ErrorCode::Overloaded);
    }

    #[test]
    fn a_future_that_blocks_does_not_delay_the_shutdown_of_the_runtime() {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
        let (begin, begun) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        runtime.spawn(async move {
            let shares = Shares::default();
            let work = async move {
                begin.send(()).unwrap();
                let _ = released.recv();
            };
            shares.apart(ONE, work).await;
        });
        begun.recv().unwrap();
        runtime.shutdown_timeout(Duration::from_millis(1));
        // The thread blocks until here, and must end before the test does.
        drop(release);
    }

    #[test]
    fn bytes_are_counted_by_tenant_and_released() {
        let shares = Shares::default();
        let half = BYTES_OF_ONE / 2;
        let mut held = shares.hold(ONE, half).unwrap();
        held.add(shares.hold(ONE, half).unwrap());
        assert!(shares.hold(ONE, 1).is_none());
        let others = [2, 3].map(|n| shares.hold(TenantId::new([n; 16]), BYTES_OF_ONE).unwrap());
        // The tenant is below its limit, but the server has reached its own.
        assert!(shares.hold(TenantId::new([4; 16]), 1).is_none());
        drop((held, others));
        assert!(shares.hold(ONE, BYTES_OF_ONE).is_some());
    }
}
