//! Requests with an `Idempotency-Key`, which take effect once even if the client
//! sends them several times.
//!
//! Such a request has a row in the catalog before it does anything. The row has
//! a random id, and the ids of all resources that the request creates are
//! derived from it. So a retry after a crash finds the resources of the first
//! attempt. If the id of a resource cannot be derived, the attempt records the
//! id in the row, as a note, before it creates the resource. Decision 0029
//! describes the responses to retries.

pub(crate) mod once;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use elevo_catalog::{Begun, Catalog, IdempotentRequest, Node, RequestRun};
use elevo_core::{ErrorCode, TenantId};
use parking_lot::{Mutex, MutexGuard};

use crate::app::access::principal::Principal;
use crate::app::requests::once::{Note, Once, Request};
use crate::app::resources::Resources;
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// Time for which the catalog keeps the row of a request.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// A request with an `Idempotency-Key`, as the client sent it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    tenant: TenantId,
    /// Hash of the tenant, the API key, the route and the idempotency key.
    name: [u8; 32],
    /// Hash of the content.
    fingerprint: [u8; 32],
}

impl Sent {
    /// `route` is the method and the path, and `key` is the idempotency key. A
    /// request with the same key but other `content` is rejected, which is
    /// detected by the hash of the content.
    pub(crate) fn new(who: &Principal, route: &str, key: &str, content: &[&[u8]]) -> Self {
        let tenant = who.tenant.to_string();
        let name = [tenant.as_bytes(), who.key.as_bytes(), route.as_bytes()];
        Self {
            tenant: who.tenant,
            name: hash("request", name.into_iter().chain([key.as_bytes()])),
            fingerprint: hash("content", content.iter().copied()),
        }
    }
}

/// Hashes parts with their lengths, so that a different division of the same
/// bytes into parts has another hash.
pub(crate) fn hash<'a>(of: &str, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let context = format!("elevo server 2026-11-16 idempotency: {of}");
    let mut hasher = blake3::Hasher::new_derive_key(&context);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// The way in which a request must be handled.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// Carry out the request, and then finish or fail the [`Turn`].
    Run(Turn),
    /// Respond with the command that an earlier attempt has started, without
    /// creating anything.
    Look(Once),
    /// Respond with the stored response of an earlier attempt.
    Answered { status: u16, body: Vec<u8> },
}

/// The requests with an `Idempotency-Key` that this process is carrying out, by
/// name.
#[derive(Debug, Default)]
pub(crate) struct AtWork(Mutex<HashMap<[u8; 32], Working>>);

/// A request that this process is carrying out.
#[derive(Debug)]
struct Working {
    fingerprint: [u8; 32],
    /// Set as soon as the request has started a command. A retry then attaches to
    /// the output of this command.
    command: Option<Once>,
}

impl AtWork {
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Working>> {
        self.0.lock()
    }

    /// Marks a request as running. If the request is running already, returns
    /// the command that it has started, or fails if it has started none.
    fn enter(self: &Arc<Self>, sent: &Sent) -> Result<Entered> {
        match self.lock().entry(sent.name) {
            Entry::Occupied(known) if known.get().fingerprint != sent.fingerprint => {
                Err(mismatch())
            }
            Entry::Occupied(known) => match &known.get().command {
                Some(once) => Ok(Entered::Command(once.clone())),
                None => Err(at_work()),
            },
            Entry::Vacant(free) => {
                free.insert(Working {
                    fingerprint: sent.fingerprint,
                    command: None,
                });
                Ok(Entered::Place(Place {
                    at_work: self.clone(),
                    name: sent.name,
                }))
            }
        }
    }
}

/// The result of [`AtWork::enter`].
enum Entered {
    Place(Place),
    Command(Once),
}

/// Marks a request as running until dropped.
#[derive(Debug)]
struct Place {
    at_work: Arc<AtWork>,
    name: [u8; 32],
}

impl Drop for Place {
    fn drop(&mut self) {
        self.at_work.lock().remove(&self.name);
    }
}

fn at_work() -> Failure {
    let message = "a request with this `Idempotency-Key` is still running; retry later";
    Failure::new(ErrorCode::IdempotencyRunning, message).retry_after(1)
}

fn mismatch() -> Failure {
    let message = "this `Idempotency-Key` was used for a request with other content; use a new \
                   key";
    Failure::new(ErrorCode::IdempotencyMismatch, message)
}

/// A request that this process carries out. If the turn is dropped without a call
/// of [`finish`](Self::finish), [`fail`](Self::fail) or [`forget`](Self::forget),
/// the next retry carries the request out again.
#[derive(Debug)]
pub(crate) struct Turn {
    request: Arc<Request>,
    _place: Place,
}

impl Turn {
    pub(crate) fn once(&self) -> Once {
        Once(Some(self.request.clone()))
    }

    /// Returns true if the request has started a command. Its response is not
    /// stored: a retry reads the output of the command.
    pub(crate) fn is_command(&self) -> bool {
        Once::note_of(&self.request).is_command
    }

    /// Returns true if the response of the request must not be stored.
    pub(crate) fn is_unstored(&self) -> bool {
        Once::note_of(&self.request).is_unstored
    }

    /// Stores the response for later retries.
    pub(crate) async fn finish(self, status: u16, body: Option<&[u8]>) {
        let Request { catalog, run, .. } = &*self.request;
        told(catalog.finish(run, status, body).await);
    }

    /// Ends a failed request, so that a retry carries it out again. If the
    /// request was rejected and has recorded nothing, deletes its row, so that
    /// the client can use the key with corrected content.
    pub(crate) async fn fail(self, is_refused: bool) {
        let Request { catalog, run, .. } = &*self.request;
        let has_note = Once::note_of(&self.request).made.is_some();
        told(match is_refused && !has_note {
            true => catalog.abandon(run).await,
            false => catalog.release(run).await,
        });
    }

    /// Deletes the row of a request that has changed nothing.
    pub(crate) async fn forget(self) {
        let Request { catalog, run, .. } = &*self.request;
        told(catalog.abandon(run).await);
    }
}

/// Logs a failure to store the outcome of a request. The failure is not returned:
/// the client gets its response, and a retry finds the resources of the request by
/// their ids.
fn told(settled: elevo_catalog::Result<()>) {
    if let Err(error) = settled {
        let cause = crate::failure::chain(&error);
        tracing::warn!(
            cause,
            "cannot store the outcome of a request with an idempotency key"
        );
    }
}

/// Carries out requests with an `Idempotency-Key` once. Holds those that this
/// process is carrying out; the catalog has the others.
pub(crate) struct Requests {
    catalog: Arc<dyn Catalog>,
    /// The node of this server, and the session that its requests name.
    node: Node,
    at_work: Arc<AtWork>,
    /// True while rows of earlier server processes are still marked as running.
    unreleased: AtomicBool,
}

impl Requests {
    pub(crate) fn new(resources: &Resources) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            node: resources.node.clone(),
            at_work: Arc::default(),
            unreleased: AtomicBool::default(),
        }
    }

    /// Returns how to handle a request: the client may have sent it before.
    pub(crate) async fn begin(&self, sent: &Sent) -> Result<Beginning> {
        // The requests in memory are checked first: the catalog treats a
        // request that is marked as running in this process as interrupted.
        let place = match self.at_work.enter(sent)? {
            Entered::Place(place) => place,
            Entered::Command(once) => return Ok(Beginning::Look(once)),
        };
        let now = clock::now();
        let request = IdempotentRequest {
            run: RequestRun {
                tenant: sent.tenant,
                name: sent.name,
                process: self.node.session.to_string(),
            },
            fingerprint: sent.fingerprint,
            id: clock::name(""),
            now,
            keep_until: clock::after(now, KEPT),
        };
        let turn = |id, made, is_again| Turn {
            request: Arc::new(self.request(request.run.clone(), id, made, is_again)),
            _place: place,
        };
        match self.catalog.begin(&request).await? {
            Begun::New => Ok(Beginning::Run(turn(request.id.clone(), None, false))),
            Begun::Again { id, made } => Ok(Beginning::Run(turn(id, made, true))),
            Begun::Done {
                status,
                body: Some(body),
                ..
            } => Ok(Beginning::Answered { status, body }),
            // A finished request without a stored body has started a command.
            Begun::Done { id, made, .. } => {
                let request = self.request(request.run, id, made, true);
                Ok(Beginning::Look(Once(Some(Arc::new(request)))))
            }
            Begun::Running => Err(at_work()),
            Begun::Mismatch => Err(mismatch()),
        }
    }

    fn request(
        &self,
        run: RequestRun,
        id: String,
        made: Option<String>,
        is_again: bool,
    ) -> Request {
        Request {
            catalog: self.catalog.clone(),
            at_work: self.at_work.clone(),
            run,
            id,
            is_again,
            note: Mutex::new(Note {
                made,
                ..Note::default()
            }),
        }
    }

    /// Releases the requests of all processes except this one and the servers of
    /// other nodes: only one server process at a time runs on a node.
    async fn release(&self) -> elevo_catalog::Result<u64> {
        // A server that begins its session after this call accepts requests only
        // after its recovery, so none of them is released below.
        let nodes = self.catalog.sessions().await?;
        let others = nodes.iter().filter(|node| node.id != self.node.id);
        let alive = others.chain([&self.node]);
        let alive: Vec<_> = alive.map(|node| node.session.to_string()).collect();
        let alive: Vec<_> = alive.iter().map(String::as_str).collect();
        self.catalog.release_all_but(&alive).await
    }

    /// Marks the requests of earlier server processes as no longer running, so
    /// that retries can carry them out.
    pub(crate) async fn release_earlier(&self) {
        if let Err(error) = self.release().await {
            // Only retries of those requests depend on this, so the server
            // starts anyway and a job tries again.
            let cause = crate::failure::chain(&error);
            tracing::warn!(cause, "cannot release interrupted requests; a job retries");
            self.unreleased.store(true, Ordering::Relaxed);
        }
    }

    /// Releases the requests of earlier server processes, if
    /// [`Self::release_earlier`] failed at the start.
    pub(crate) async fn release_again(&self) -> Result<()> {
        if self.unreleased.load(Ordering::Relaxed) {
            self.release().await?;
            self.unreleased.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}
