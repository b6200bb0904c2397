use async_trait::async_trait;
use elevo_core::Timestamp;

use crate::error::Result;
use crate::records::{Begun, IdempotentRequest, RequestRun};

/// Requests with an idempotency key.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps this one:
///
/// 22. *At most one process runs a request*: of concurrent calls of
///     [`begin`](Self::begin) by different processes, at most one returns
///     [`New`](Begun::New) or [`Again`](Begun::Again), and only the process that
///     runs a request can change it.
#[async_trait]
pub trait Requests {
    /// Begins a request, unless it is finished or another process runs it. A
    /// request past its `keep_until` counts as unknown. `NotFound` if the tenant
    /// does not exist.
    ///
    /// If the same process has begun the request and not finished it, the request
    /// is begun again: a process tracks by itself which requests it is running.
    async fn begin(&self, request: &IdempotentRequest) -> Result<Begun>;

    /// Records the resource that a request is about to create, in place of an
    /// earlier such record. `NotFound` if this process does not run the request.
    async fn note_made(&self, run: &RequestRun, made: &str) -> Result<()>;

    /// Stores the status of the response to a request and, if given, its body.
    /// `NotFound` if this process does not run the request.
    async fn finish(&self, run: &RequestRun, status: u16, body: Option<&[u8]>) -> Result<()>;

    /// Leaves a request unfinished: the next client that sends it begins it
    /// again, and gets the same id and the recorded resource. Does nothing if
    /// this process does not run the request.
    async fn release(&self, run: &RequestRun) -> Result<()>;

    /// Deletes a request that has changed nothing. Does nothing if this process
    /// does not run the request.
    async fn abandon(&self, run: &RequestRun) -> Result<()>;

    /// Releases the unfinished requests of a process that is known to have ended;
    /// returns how many.
    async fn release_of(&self, process: &str) -> Result<u64>;

    /// Releases the unfinished requests of all processes except those in `alive`;
    /// returns how many. `alive` must have every process that runs requests, also
    /// those of other servers.
    async fn release_all_but(&self, alive: &[&str]) -> Result<u64>;

    /// Deletes the requests whose `keep_until` has passed at `now`; returns how
    /// many. Deletes in small changes; after a failure, another call continues.
    async fn forget_idempotent(&self, now: Timestamp) -> Result<u64>;
}
