//! Requests that are carried out once, however often they are sent.
//!
//! A request with an `Idempotency-Key` has a row in the catalog from its
//! beginning on. The row has a random id, and everything that the request makes
//! is named after it, so that a repetition after a crash finds what the first
//! attempt made. An attempt that cannot name what it makes writes a note into
//! the row first. Decision 0029 says what a repetition is answered.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use elevo_catalog::{Begun, Catalog, IdempotentRequest, RequestRun};
use elevo_core::{ErrorCode, TenantId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::app::{App, Principal};
use crate::clock;
use crate::failure::{Failure, Result};

/// How long a request is remembered.
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

/// A hash of parts that cannot be mistaken for other parts.
fn hash<'a>(of: &str, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let context = format!("elevo server 2026-11-16 idempotency: {of}");
    let mut hasher = blake3::Hasher::new_derive_key(&context);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// The way to answer a request.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// Carry it out, then settle the turn.
    Run(Turn),
    /// Answer from what the request has made, without making anything.
    Look(Once),
    /// Give the answer that is kept.
    Answered { status: u16, body: Vec<u8> },
}

/// The requests that this process is at work on.
#[derive(Debug, Default)]
pub(crate) struct AtWork(Mutex<HashMap<[u8; 32], Working>>);

#[derive(Debug)]
struct Working {
    fingerprint: [u8; 32],
    /// The request, once its command was started: others may look at that.
    command: Option<Once>,
}

impl AtWork {
    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Working>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a request that is not at work.
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

/// A request among those at work, until this is dropped.
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
    let message = "a request with this `Idempotency-Key` is at work";
    Failure::new(ErrorCode::IdempotencyRunning, message).retry_after(1)
}

fn mismatch() -> Failure {
    let message = "this `Idempotency-Key` was used for another request";
    Failure::new(ErrorCode::IdempotencyMismatch, message)
}

/// A request as its use case sees it. The default is one without an
/// `Idempotency-Key`, which is never repeated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Once(Option<Arc<Request>>);

#[derive(Debug)]
struct Request {
    catalog: Arc<dyn Catalog>,
    at_work: Arc<AtWork>,
    run: RequestRun,
    /// Random letters.
    id: String,
    is_again: bool,
    note: Mutex<Note>,
}

#[derive(Debug, Default)]
struct Note {
    /// The thing that was or is about to be made, as JSON.
    made: Option<String>,
    /// Whether it is a command, whose output is not kept.
    is_command: bool,
    /// Whether nothing was changed, so that there is nothing to remember.
    is_rehearsal: bool,
}

impl Once {
    fn note_of(request: &Request) -> MutexGuard<'_, Note> {
        request.note.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the request can be repeated.
    pub(crate) fn is_keyed(&self) -> bool {
        self.0.is_some()
    }

    /// Whether an earlier attempt may have made something.
    pub(crate) fn is_again(&self) -> bool {
        self.0.as_ref().is_some_and(|request| request.is_again)
    }

    /// The id of the one thing that the request makes.
    pub(crate) fn id(&self, prefix: &str) -> String {
        match &self.0 {
            Some(request) => format!("{prefix}{}", request.id),
            None => clock::id(prefix),
        }
    }

    /// The id of one of several things that the request makes.
    pub(crate) fn id_of(&self, prefix: &str, number: u32) -> String {
        let Some(request) = &self.0 else {
            return clock::id(prefix);
        };
        let number = number.to_le_bytes();
        let bytes = hash("id", [request.id.as_bytes(), &number[..]]);
        clock::id_of(prefix, &first_half(bytes))
    }

    /// Bytes for an id that is not text.
    pub(crate) fn bytes(&self) -> [u8; 16] {
        match &self.0 {
            Some(request) => first_half(hash("bytes", [request.id.as_bytes()])),
            None => clock::random(),
        }
    }

    /// The name under which the request lands.
    pub(crate) fn landing(&self) -> Option<String> {
        self.0.as_ref().map(|_| self.id("req-"))
    }

    /// The note of this attempt or an earlier one.
    pub(crate) fn noted<T: DeserializeOwned>(&self) -> Option<T> {
        let request = self.0.as_ref()?;
        let made = Self::note_of(request).made.clone()?;
        serde_json::from_str(&made).ok()
    }

    /// Notes what is about to be made. When this returns, a repetition finds the
    /// note, even if this process dies.
    pub(crate) async fn note(&self, made: &(impl Serialize + Sync)) -> Result<()> {
        let Some(request) = &self.0 else {
            return Ok(());
        };
        let made = serde_json::to_string(made).map_err(|error| Failure::internal(&error))?;
        request.catalog.note_made(&request.run, &made).await?;
        Self::note_of(request).made = Some(made);
        Ok(())
    }

    /// Notes the command that is about to be started. Repetitions look at that
    /// from now on.
    pub(crate) async fn note_command(&self, command: &str) -> Result<()> {
        self.note(&command).await?;
        self.show_command();
        Ok(())
    }

    /// The command that an attempt has noted. Repetitions look at that from now
    /// on.
    pub(crate) fn noted_command(&self) -> Option<String> {
        let command = self.noted()?;
        self.show_command();
        Some(command)
    }

    fn show_command(&self) {
        let Some(request) = &self.0 else {
            return;
        };
        Self::note_of(request).is_command = true;
        if let Some(working) = request.at_work.lock().get_mut(&request.run.name) {
            working.command = Some(Self(Some(Arc::new(request.looked_at()))));
        }
    }

    /// Takes back the note: what it names was surely not made.
    pub(crate) async fn take_back(&self) -> Result<()> {
        self.note(&()).await?;
        let Some(request) = &self.0 else {
            return Ok(());
        };
        Self::note_of(request).is_command = false;
        if let Some(working) = request.at_work.lock().get_mut(&request.run.name) {
            working.command = None;
        }
        Ok(())
    }

    /// Says that the request was a rehearsal: the key can be used for the real
    /// thing.
    pub(crate) fn rehearsed(&self) {
        if let Some(request) = &self.0 {
            Self::note_of(request).is_rehearsal = true;
        }
    }
}

fn first_half(bytes: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&bytes[..16]);
    half
}

impl Request {
    /// The same request for a repetition that makes nothing.
    fn looked_at(&self) -> Self {
        let made = Once::note_of(self).made.clone();
        Self {
            catalog: self.catalog.clone(),
            at_work: self.at_work.clone(),
            run: self.run.clone(),
            id: self.id.clone(),
            is_again: true,
            note: Mutex::new(Note {
                made,
                ..Note::default()
            }),
        }
    }
}

/// A request that this process carries out. One that is dropped without being
/// settled is begun again by the next repetition.
#[derive(Debug)]
pub(crate) struct Turn {
    request: Arc<Request>,
    _place: Place,
}

impl Turn {
    pub(crate) fn once(&self) -> Once {
        Once(Some(self.request.clone()))
    }

    /// Whether the answer is read from somewhere else when it is wanted again.
    pub(crate) fn is_command(&self) -> bool {
        Once::note_of(&self.request).is_command
    }

    /// Whether nothing was changed.
    pub(crate) fn is_rehearsal(&self) -> bool {
        Once::note_of(&self.request).is_rehearsal
    }

    /// Keeps the answer.
    pub(crate) async fn finish(self, status: u16, body: Option<&[u8]>) {
        let Request { catalog, run, .. } = &*self.request;
        told(catalog.finish(run, status, body).await);
    }

    /// The request has failed. One that was refused and has noted nothing is
    /// forgotten, so that it can be sent with another content.
    pub(crate) async fn fail(self, is_refused: bool) {
        let Request { catalog, run, .. } = &*self.request;
        let has_note = Once::note_of(&self.request).made.is_some();
        told(match is_refused && !has_note {
            true => catalog.abandon(run).await,
            false => catalog.release(run).await,
        });
    }

    /// The request has changed nothing that a repetition could double.
    pub(crate) async fn forget(self) {
        let Request { catalog, run, .. } = &*self.request;
        told(catalog.abandon(run).await);
    }
}

/// The caller gets its answer even if that cannot be kept: a repetition finds the
/// request unfinished, and what it has made.
fn told(settled: elevo_catalog::Result<()>) {
    if let Err(error) = settled {
        let cause = crate::failure::chain(&error);
        tracing::warn!(cause, "the answer to a request is not kept");
    }
}

impl App {
    /// Begins a request that may have been sent before.
    pub(crate) async fn begin_once(&self, sent: &Sent) -> Result<Beginning> {
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
}
