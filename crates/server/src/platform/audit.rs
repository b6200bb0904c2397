//! Writes records of requests to the audit log (docs/operations.md, "Who did
//! what").

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use elevo_audit::{Head, Log, Options, Ticket};
use elevo_core::{ErrorCode, Timestamp};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use serde_json::{Map, Value, json};

use crate::config::{AuditConfig, AuditedCommands};
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// Maximum bytes of a text in a record.
const MAX_TEXT: usize = 4 << 10;
/// Maximum rejections recorded per second for each key, and [`BURST`] at once:
/// a caller without a key must not fill the disk.
const REFUSALS: NonZeroU32 = NonZeroU32::new(10).unwrap();
const BURST: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// The audit log, with limits on the records of rejections.
#[derive(Debug)]
pub(crate) struct Audit {
    log: Log,
    config: AuditConfig,
    /// The rejections of each key. All callers without a valid key share one
    /// entry, so that they cannot suppress the rejections of a key.
    refusals: Cache<Option<String>, Arc<Refusals>>,
}

/// Maximum keys whose rejections are counted. A key that was evicted from the
/// cache may cause a burst again.
const COUNTED: usize = 10_000;

#[derive(Debug)]
struct Refusals {
    limit: DefaultDirectRateLimiter,
    /// Number of rejections that were suppressed since the last recorded
    /// rejection.
    suppressed: AtomicU64,
}

impl Refusals {
    fn new() -> Self {
        let quota = Quota::per_second(REFUSALS).allow_burst(BURST);
        Self {
            limit: RateLimiter::direct(quota),
            suppressed: AtomicU64::default(),
        }
    }
}

/// The content of a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) event: &'static str,
    pub(crate) level: Level,
    /// The subjects of the record, such as `sandbox_id`.
    pub(crate) about: Vec<(&'static str, Value)>,
    pub(crate) who: Option<Asker>,
    pub(crate) request_id: String,
    pub(crate) status: Option<u16>,
    pub(crate) elapsed: Option<Duration>,
    pub(crate) address: Option<String>,
    pub(crate) details: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Level {
    #[default]
    Info,
    Warn,
    Error,
}

/// The key of a request, with its tenant and agent.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) tenant: String,
    pub(crate) key: String,
    pub(crate) agent: Option<String>,
}

impl Entry {
    fn record(self) -> Map<String, Value> {
        let mut record = Map::new();
        let mut put = |name: &str, value: Value| {
            record.insert(name.into(), value);
        };
        put("timestamp", clock::text(clock::now()).into());
        let level = match self.level {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        put("level", level.into());
        put("event", self.event.into());
        for (name, value) in self.about {
            put(name, value);
        }
        match self.who {
            Some(who) => {
                put("user", who.key.into());
                put("tenant", who.tenant.into());
                if let Some(agent) = who.agent {
                    put("agent", agent.into());
                }
            }
            // The caller was not authenticated.
            None if self.status.is_some() => put("user", Value::Null),
            None => put("user", "server".into()),
        }
        if !self.request_id.is_empty() {
            put("request_id", self.request_id.into());
        }
        if let Some(status) = self.status {
            put("status", status.into());
        }
        if let Some(elapsed) = self.elapsed {
            put("duration_ms", (elapsed.as_millis() as u64).into());
        }
        if let Some(address) = self.address {
            put("address", address.into());
        }
        if !self.details.is_empty() {
            put("details", self.details.into());
        }
        record
    }
}

impl Audit {
    pub(crate) fn open(
        directory: &std::path::Path,
        config: AuditConfig,
    ) -> elevo_audit::Result<Self> {
        let now = || clock::text(clock::now());
        Ok(Self {
            log: Log::open(directory, Options::default(), now)?,
            config,
            refusals: Cache::new(COUNTED),
        })
    }

    /// Fails if the log cannot record a request now. With `may_wait`, for a
    /// request that frees space on a full disk, the record may wait in memory.
    pub(crate) fn can_record(&self, may_wait: bool) -> Result<()> {
        if !self.log.is_failing() || (may_wait && self.log.can_wait()) {
            return Ok(());
        }
        let message = "the audit log cannot be written, so the request was not carried out";
        let failure = Failure::new(ErrorCode::StorageFailed, message).retry_after(5);
        Err(failure.remediation(
            "Free up space on the disk of the data directory; the server retries every second.",
        ))
    }

    pub(crate) async fn add(&self, entry: Entry) -> Ticket {
        self.log.add(entry.record()).await
    }

    /// Writes a record, and logs a failure of the write.
    pub(crate) async fn tell(&self, entry: Entry) {
        let event = entry.event;
        settle(self.add(entry).await, event).await;
    }

    /// Writes the record of a rejection, unless the limit of its key is
    /// reached.
    pub(crate) async fn tell_refusal(&self, mut entry: Entry) {
        let key = entry.who.as_ref().map(|who| who.key.clone());
        let Some(suppressed) = self.may_tell(&key) else {
            return;
        };
        if suppressed > 0 {
            entry.details.insert("suppressed".into(), suppressed.into());
        }
        self.tell(entry).await;
    }

    /// Returns the number of rejections that were suppressed since the last
    /// recorded rejection; `None` if this rejection is suppressed as well.
    fn may_tell(&self, key: &Option<String>) -> Option<u64> {
        let make = || -> std::result::Result<_, Infallible> { Ok(Arc::new(Refusals::new())) };
        let Ok(refusals) = self.refusals.get_or_insert_with(key, make);
        // Only a few records may wait in memory, and rejections must not use
        // them up.
        if self.log.is_failing() || refusals.limit.check().is_err() {
            refusals.suppressed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(refusals.suppressed.swap(0, Ordering::Relaxed))
    }

    /// Returns the part of a command that a record contains.
    pub(crate) fn shown_command(&self, command: &str) -> Value {
        match self.config.commands {
            AuditedCommands::Full => cut(command),
            AuditedCommands::Program => {
                let program = command.split_whitespace().next().unwrap_or_default();
                let hash = blake3::hash(command.as_bytes()).to_hex();
                json!({ "program": cut(program), "blake3": hash.as_str() })
            }
            AuditedCommands::None => Value::Null,
        }
    }

    /// Deletes records that at `now` are older than the settings keep them.
    pub(crate) async fn remove_old(&self, now: Timestamp) -> elevo_audit::Result<()> {
        let Some(keep) = self.config.keep else {
            return Ok(());
        };
        let before = clock::before(now, keep).seconds();
        let before = Duration::from_secs(u64::try_from(before).unwrap_or_default());
        let before = SystemTime::UNIX_EPOCH + before;
        let removed = self.log.remove_before(before).await?;
        if removed > 0 {
            let details = json!({ "segments": removed });
            let entry = Entry {
                event: "audit.removed",
                details: details.as_object().cloned().unwrap_or_default(),
                ..Entry::default()
            };
            self.tell(entry).await;
        }
        Ok(())
    }

    /// Returns the number and the hash of the newest record.
    pub(crate) fn head(&self) -> Head {
        self.log.head()
    }

    pub(crate) async fn close(&self) {
        self.log.close().await;
        let records = self.log.waiting();
        if records > 0 {
            tracing::error!(
                records,
                "some records could not be written to the audit log"
            );
        }
    }
}

/// Waits until a record is written. A record that cannot be written is reported
/// in the server's log.
pub(crate) async fn settle(ticket: Ticket, event: &str) {
    match ticket.written().await {
        Ok(()) => {}
        Err(elevo_audit::Error::Waiting(cause)) => {
            tracing::warn!(
                event,
                cause,
                "a record waits in memory until the audit log can be written"
            );
        }
        Err(error) => {
            crate::platform::metrics::audit_failed();
            let cause = crate::failure::chain(&error);
            tracing::error!(
                event,
                cause,
                "a record could not be written to the audit log"
            );
        }
    }
}

/// Shortens a text to fit into a record.
pub(crate) fn cut(text: &str) -> Value {
    match text.len() > MAX_TEXT {
        false => text.into(),
        true => {
            let end = text.floor_char_boundary(MAX_TEXT);
            format!("{}… ({} bytes)", &text[..end], text.len()).into()
        }
    }
}

/// Facts that a request collects for its record.
#[derive(Debug, Default)]
pub(crate) struct Note {
    pub(crate) request_id: String,
    pub(crate) who: Option<Asker>,
    pub(crate) about: Vec<(&'static str, Value)>,
    pub(crate) details: Map<String, Value>,
    /// The record of the request, if the handler wrote it at the beginning;
    /// then no other record is written.
    pub(crate) ticket: Option<Ticket>,
}

tokio::task_local! {
    pub(crate) static NOTE: Arc<Mutex<Note>>;
}

fn with(change: impl FnOnce(&mut Note)) {
    // Does nothing outside of a request.
    let _ = NOTE.try_with(|note| change(&mut note.lock()));
}

/// Returns the id of the current request.
pub(crate) fn request_id() -> String {
    let mut id = String::new();
    with(|note| id.clone_from(&note.request_id));
    id
}

/// Adds the principal of the current request to its record.
pub(crate) fn asked_by(who: impl Into<Asker>) {
    with(|note| note.who = Some(who.into()));
}

/// Adds a subject to the record of the current request.
pub(crate) fn about(name: &'static str, value: impl Into<Value>) {
    with(|note| note.about.push((name, value.into())));
}

/// Adds a detail to the record of the current request.
pub(crate) fn detail(name: &'static str, value: impl Into<Value>) {
    with(|note| drop(note.details.insert(name.into(), value.into())));
}

/// Marks that the record of the current request is already written.
pub(crate) fn is_written(ticket: Ticket) {
    with(|note| note.ticket = Some(ticket));
}
