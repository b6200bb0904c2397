//! Who asked for what, in the audit log (docs/operations.md, "Who did what").

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use elevo_audit::{Head, Log, Options, Ticket};
use elevo_core::{ErrorCode, Timestamp};
use quick_cache::sync::Cache;
use serde_json::{Map, Value, json};

use crate::app::Principal;
use crate::clock;
use crate::config::{AuditConfig, AuditedCommands};
use crate::failure::{Failure, Result};

/// As much of a text is kept.
const MAX_TEXT: usize = 4 << 10;
/// Refusals that are written a second for each key, and how many may come at
/// once: a caller without a key must not fill the disk.
const REFUSALS: u32 = 10;
const BURST: u32 = 100;

/// The audit log and what it is told.
#[derive(Debug)]
pub(crate) struct Audit {
    log: Log,
    config: AuditConfig,
    /// By key; all callers without a good key have one together, so that they
    /// cannot suppress the refusals of a key.
    refusals: Cache<Option<String>, Arc<Mutex<Refusals>>>,
}

/// Number of keys whose refusals are counted at a time. A forgotten one may
/// write a burst again.
const COUNTED: usize = 10_000;

#[derive(Debug)]
struct Refusals {
    left: f64,
    since: Instant,
    /// Not written since the last that was.
    suppressed: u64,
}

impl Refusals {
    fn full() -> Mutex<Self> {
        Mutex::new(Self {
            left: BURST.into(),
            since: clock::instant(),
            suppressed: 0,
        })
    }
}

/// What is told of something that was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) event: &'static str,
    pub(crate) level: Level,
    /// What it is about: `sandbox_id` and the like.
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

/// Whose key it was.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    tenant: String,
    key: String,
    agent: Option<String>,
}

impl From<&Principal> for Asker {
    fn from(who: &Principal) -> Self {
        Self {
            tenant: who.tenant.to_string(),
            key: who.key.clone(),
            agent: who.agent.clone(),
        }
    }
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
            // Nobody has proved to be somebody.
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

    /// Refuses what would not be written down. The record of a request by which a
    /// full disk is left may wait in memory for a while.
    pub(crate) fn can_record(&self, may_wait: bool) -> Result<()> {
        if !self.log.is_failing() || (may_wait && self.log.can_wait()) {
            return Ok(());
        }
        let message = "the audit log cannot be written, so nothing is done";
        let failure = Failure::new(ErrorCode::StorageFailed, message).retry_after(5);
        Err(failure.remediation(
            "Make room on the disk of the data directory; the server tries again each second.",
        ))
    }

    pub(crate) async fn add(&self, entry: Entry) -> Ticket {
        self.log.add(entry.record()).await
    }

    /// Writes something down, and says so in the server's log if that fails.
    pub(crate) async fn tell(&self, entry: Entry) {
        let event = entry.event;
        settle(self.add(entry).await, event).await;
    }

    /// The same of something that anybody can cause, as often as they like.
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

    /// How many were not told since the last that was; none if this one is not
    /// told either.
    fn may_tell(&self, key: &Option<String>) -> Option<u64> {
        let make = || -> std::result::Result<_, Infallible> { Ok(Arc::new(Refusals::full())) };
        let Ok(refusals) = self.refusals.get_or_insert_with(key, make);
        let mut refusals = refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::instant();
        let since = now.duration_since(refusals.since).as_secs_f64();
        refusals.left = f64::min(BURST.into(), refusals.left + since * f64::from(REFUSALS));
        refusals.since = now;
        // Records that wait in memory are few, and not for those.
        if refusals.left < 1.0 || self.log.is_failing() {
            refusals.suppressed += 1;
            return None;
        }
        refusals.left -= 1.0;
        Some(std::mem::take(&mut refusals.suppressed))
    }

    /// How a command is written down.
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

    /// Removes what is older than the settings say at `now`.
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

    /// The newest record.
    pub(crate) fn head(&self) -> Head {
        self.log.head()
    }

    pub(crate) async fn close(&self) {
        self.log.close().await;
        let records = self.log.waiting();
        if records > 0 {
            tracing::error!(records, "not in the audit log");
        }
    }
}

/// Waits for a record; what cannot be written is at least in the server's log.
pub(crate) async fn settle(ticket: Ticket, event: &str) {
    match ticket.written().await {
        Ok(()) => {}
        Err(elevo_audit::Error::Waiting(cause)) => {
            tracing::warn!(event, cause, "waits in memory for the audit log");
        }
        Err(error) => {
            crate::metrics::audit_failed();
            let cause = crate::failure::chain(&error);
            tracing::error!(event, cause, "not in the audit log");
        }
    }
}

/// A text at a length that fits into a record.
pub(crate) fn cut(text: &str) -> Value {
    match text.len() > MAX_TEXT {
        false => text.into(),
        true => {
            let end = text.floor_char_boundary(MAX_TEXT);
            format!("{}… ({} bytes)", &text[..end], text.len()).into()
        }
    }
}

/// What a request tells of itself while it is carried out.
#[derive(Debug, Default)]
pub(crate) struct Note {
    pub(crate) request_id: String,
    pub(crate) who: Option<Asker>,
    pub(crate) about: Vec<(&'static str, Value)>,
    pub(crate) details: Map<String, Value>,
    /// Of a record that was written at its beginning: there is no other.
    pub(crate) ticket: Option<Ticket>,
}

tokio::task_local! {
    pub(crate) static NOTE: Arc<Mutex<Note>>;
}

fn with(change: impl FnOnce(&mut Note)) {
    // Outside of a request there is nobody to tell.
    let _ = NOTE.try_with(|note| change(&mut note.lock().unwrap_or_else(PoisonError::into_inner)));
}

/// The id of this request.
pub(crate) fn request_id() -> String {
    let mut id = String::new();
    with(|note| id.clone_from(&note.request_id));
    id
}

/// Whose request this is.
pub(crate) fn asked_by(who: &Principal) {
    with(|note| note.who = Some(who.into()));
}

/// What this request is about.
pub(crate) fn about(name: &'static str, value: impl Into<Value>) {
    with(|note| note.about.push((name, value.into())));
}

/// More about it.
pub(crate) fn detail(name: &'static str, value: impl Into<Value>) {
    with(|note| drop(note.details.insert(name.into(), value.into())));
}

/// This request is in the log already.
pub(crate) fn is_written(ticket: Ticket) {
    with(|note| note.ticket = Some(ticket));
}
