//! Requests that are carried out once, even if they are sent several times.
//!
//! A request with an `Idempotency-Key` has a row in the catalog from its
//! beginning on. The row has a random id, and everything that the request
//! creates is named after it, so that a retry after a crash finds the results
//! of the first attempt. An attempt that cannot choose a name writes a note
//! into the row first. Decision 0029 describes the responses to retries.

pub(crate) mod once;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use elevo_catalog::{Begun, Catalog, IdempotentRequest, RequestRun};
use elevo_core::{ErrorCode, TenantId};

use crate::app::access::principal::Principal;
use crate::app::requests::once::{Note, Once, Request};
use crate::app::resources::Resources;
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// Time for which a request is remembered.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// A request as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    tenant: TenantId,
    name: [u8; 32],
    fingerprint: [u8; 32],
}

impl Sent {
    /// Names a request by its sender, its route (method and path) and the key
    /// that the sender gave it. `content` is hashed for comparison.
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

/// Hashes parts with their lengths, so that no other parts have the same hash.
fn hash<'a>(of: &str, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let context = format!("elevo server 2026-11-16 idempotency: {of}");
    let mut hasher = blake3::Hasher::new_derive_key(&context);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// The way to respond to a request.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// Carry it out, then settle the turn.
    Run(Turn),
    /// Respond with the results of an earlier attempt, without creating
    /// anything.
    Look(Once),
    /// Return the stored response.
    Answered { status: u16, body: Vec<u8> },
}

/// The requests that this process is carrying out.
#[derive(Debug, Default)]
pub(crate) struct AtWork(Mutex<HashMap<[u8; 32], Working>>);

#[derive(Debug)]
struct Working {
    fingerprint: [u8; 32],
    /// The request, once its command was started: retries may attach to that.
    command: Option<Once>,
}

impl AtWork {
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Working>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a request that is not running.
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
    let message = "a request with this `Idempotency-Key` is still running";
    Failure::new(ErrorCode::IdempotencyRunning, message).retry_after(1)
}

fn mismatch() -> Failure {
    let message = "this `Idempotency-Key` was used for another request";
    Failure::new(ErrorCode::IdempotencyMismatch, message)
}

/// A request that this process carries out. If it is dropped without being
/// settled, the next retry starts it again.
#[derive(Debug)]
pub(crate) struct Turn {
    request: Arc<Request>,
    _place: Place,
}

impl Turn {
    pub(crate) fn once(&self) -> Once {
        Once(Some(self.request.clone()))
    }

    /// Whether a retry reads the output of a command instead of a stored
    /// response.
    pub(crate) fn is_command(&self) -> bool {
        Once::note_of(&self.request).is_command
    }

    /// Whether the request was a dry run.
    pub(crate) fn is_rehearsal(&self) -> bool {
        Once::note_of(&self.request).is_rehearsal
    }

    /// Stores the response.
    pub(crate) async fn finish(self, status: u16, body: Option<&[u8]>) {
        let Request { catalog, run, .. } = &*self.request;
        told(catalog.finish(run, status, body).await);
    }

    /// Ends a failed request. A request that was rejected and has recorded
    /// nothing is forgotten, so that it can be sent with other content.
    pub(crate) async fn fail(self, is_refused: bool) {
        let Request { catalog, run, .. } = &*self.request;
        let has_note = Once::note_of(&self.request).made.is_some();
        told(match is_refused && !has_note {
            true => catalog.abandon(run).await,
            false => catalog.release(run).await,
        });
    }

    /// Forgets a request that has changed nothing.
    pub(crate) async fn forget(self) {
        let Request { catalog, run, .. } = &*self.request;
        told(catalog.abandon(run).await);
    }
}

/// Only logs a failure: the caller gets its response even if it cannot be
/// stored. A retry then finds the request unfinished, with its results.
fn told(settled: elevo_catalog::Result<()>) {
    if let Err(error) = settled {
        let cause = crate::failure::chain(&error);
        tracing::warn!(cause, "cannot store the response to a request");
    }
}

/// Requests with an `Idempotency-Key`.
pub(crate) struct Requests {
    catalog: Arc<dyn Catalog>,
    /// Identifies this process among those that share a catalog.
    process: String,
    at_work: Arc<AtWork>,
    /// Whether requests of the previous server process are still marked as
    /// running.
    unreleased: AtomicBool,
}

impl Requests {
    pub(crate) fn new(resources: &Resources) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            process: crate::platform::clock::id("srv-"),
            at_work: Arc::default(),
            unreleased: AtomicBool::default(),
        }
    }

    /// Begins a request that may have been sent before.
    pub(crate) async fn begin(&self, sent: &Sent) -> Result<Beginning> {
        let place = match self.at_work.enter(sent)? {
            Entered::Place(place) => place,
            Entered::Command(once) => return Ok(Beginning::Look(once)),
        };
        let now = clock::now();
        let request = IdempotentRequest {
            run: RequestRun {
                tenant: sent.tenant,
                name: sent.name,
                process: self.process.clone(),
            },
            fingerprint: sent.fingerprint,
            id: clock::id(""),
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

    /// Releases the requests of earlier servers.
    pub(crate) async fn release_earlier(&self) {
        // A catalog on one machine has one server, so all others are dead.
        if let Err(error) = self.catalog.release_all_but(&[&self.process]).await {
            // Only retries of those requests need this; a later run repeats it.
            let cause = crate::failure::chain(&error);
            tracing::warn!(cause, "cannot release interrupted requests yet");
            self.unreleased.store(true, Ordering::Relaxed);
        }
    }

    /// Releases the requests of earlier servers, if that failed at the start.
    pub(crate) async fn release_again(&self) -> Result<()> {
        if self.unreleased.load(Ordering::Relaxed) {
            self.catalog.release_all_but(&[&self.process]).await?;
            self.unreleased.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}
