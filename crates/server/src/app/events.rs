//! Events of a tenant: lists and streams for clients, and the deletion of old
//! events.

pub(crate) mod webhooks;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_catalog::{Event, EventKind, EventQuery, NewEvent, NodeId, Sandbox, SandboxChange};
use elevo_core::{ErrorCode, SandboxId};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::sync::watch;

use crate::app::access::principal::Principal;
use crate::app::projects::Projects;
use crate::app::projects::history::Rows;
use crate::app::resources::Resources;
use crate::app::timekeeping::Timekeeper;
use crate::config::Config;
use crate::failure::{Failure, Result, short};
use crate::platform::clock;

/// Interval at which the server checks whether there are subscribers, and pause
/// after a failure.
const PULSE: Duration = Duration::from_millis(100);
/// Maximum time of one call that waits for an event.
const WAIT: Duration = Duration::from_secs(1);
/// Time before the expiry of a sandbox at which the event `sandbox.expiring` is
/// recorded.
const EXPIRING: Duration = Duration::from_secs(300);
/// Maximum connections to the catalog that all streams of events use at a time.
pub(crate) const READERS: usize = 2;
/// Maximum events that a stream reads at a time, and the default for a list.
const PAGE: u32 = 100;

/// The filters of a list of events.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventsQuery {
    pub(crate) kinds: Option<String>,
    pub(crate) subject: Option<String>,
    /// Only events with a greater number than this.
    pub(crate) cursor: Option<u64>,
    pub(crate) limit: Option<u32>,
}

/// The next part of a stream.
pub(crate) enum Followed {
    /// Events, in order.
    Events(Vec<api::Event>),
    /// Events that the stream has not sent yet were deleted.
    Gap(api::EventGap),
}

/// A stream of the events that a principal may see.
pub(crate) struct Following {
    events: Arc<Events>,
    who: Principal,
    query: EventQuery,
    /// The newest deleted event that the stream has reported.
    reported: u64,
    /// Events that were read, and follow the gap that was returned last.
    held: Option<Looked>,
    pulse: watch::Receiver<u64>,
}

impl Following {
    /// Returns the id of the event that the next events come after.
    pub(crate) fn after(&self) -> u64 {
        self.query.after
    }

    /// Waits until there are new events that the principal may see, and returns
    /// them, or the gap before them.
    pub(crate) async fn next(&mut self) -> Result<Followed> {
        loop {
            // The pulse is read before the catalog. An event that is recorded
            // in between changes the pulse, so the next iteration finds it.
            let newest = *self.pulse.borrow_and_update();
            let looked = match self.held.take() {
                Some(held) => Some(held),
                None => {
                    let (looked, forgotten) = self.look().await?;
                    if forgotten > self.query.after.max(self.reported) {
                        (self.reported, self.held) = (forgotten, looked);
                        return Ok(Followed::Gap(gap(forgotten)));
                    }
                    looked
                }
            };
            if let Some(looked) = looked {
                self.query.after = looked.last;
                if looked.shown.is_empty() {
                    continue;
                }
                let events = looked.shown.into_iter().map(out);
                return Ok(Followed::Events(events.collect()));
            }
            self.query.after = self.query.after.max(newest);
            // Fails only without a sender, and `self.events` holds the sender.
            if self.pulse.changed().await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Reads the events after the cursor, `None` if there are none, and the
    /// number of the newest deleted event.
    async fn look(&self) -> Result<(Option<Looked>, u64)> {
        // However many streams are open, some connections to the catalog stay
        // free for requests.
        let _turn = self.events.following.acquire().await;
        let found = self.events.catalog.events(&self.query).await?;
        // Read after the events: an event that is deleted before they are read
        // is then in the number.
        let catalog = &self.events.catalog;
        let forgotten = catalog.forgotten_events(self.who.tenant).await?;
        let looked = self.events.without_hidden(&self.who, found).await?;
        Ok((looked, forgotten))
    }
}

/// The result of reading one page of events.
struct Looked {
    /// The events that the principal may see.
    shown: Vec<Event>,
    /// Sequence number of the last event that was read.
    last: u64,
}

/// Lists, streams and records the events of tenants.
pub(crate) struct Events {
    catalog: Arc<dyn Catalog>,
    node: NodeId,
    config: Arc<Config>,
    time: Arc<Timekeeper>,
    projects: Arc<Projects>,
    /// Sequence number of the newest event. A change notifies the streams and
    /// the deliveries to webhooks.
    pulse: watch::Sender<u64>,
    /// Limits the streams that read from the catalog at the same time.
    following: Semaphore,
}

impl Events {
    pub(crate) fn new(resources: &Resources, projects: &Arc<Projects>) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            node: resources.node.id,
            config: resources.config.clone(),
            projects: projects.clone(),
            time: resources.time.clone(),
            pulse: watch::Sender::new(0),
            following: Semaphore::new(READERS),
        }
    }

    /// Returns a page of the retained events that the principal may see.
    pub(crate) async fn list(
        &self,
        who: &Principal,
        query: &EventsQuery,
    ) -> Result<api::EventPage> {
        let limit = query.limit.unwrap_or(PAGE);
        if !(1..=1000).contains(&limit) {
            return Err(Failure::invalid("`limit` must be 1 to 1000"));
        }
        let cursor = query.cursor;
        let query = EventQuery {
            after: cursor.unwrap_or_default(),
            limit,
            ..visible(who, query)?
        };
        let found = self.catalog.events(&query).await?;
        // Read after the events, as in a stream.
        let forgotten = self.catalog.forgotten_events(who.tenant).await?;
        let looked = self.without_hidden(who, found).await?.unwrap_or(Looked {
            shown: Vec::new(),
            // Without a cursor, the deleted events were not asked for.
            last: cursor.unwrap_or(forgotten),
        });
        let has_gap = cursor.is_some_and(|cursor| cursor < forgotten);
        Ok(api::EventPage {
            items: looked.shown.into_iter().map(out).collect(),
            next: looked.last.to_string(),
            gap: has_gap.then(|| gap(forgotten)),
        })
    }

    /// Removes the events of landings that changed only paths hidden from the
    /// principal. Each check reads changes from the catalog; after too many
    /// rows, the result has only the events checked so far. Returns `None` if
    /// `found` is empty.
    async fn without_hidden(&self, who: &Principal, found: Vec<Event>) -> Result<Option<Looked>> {
        let (mut shown, mut last) = (Vec::with_capacity(found.len()), None);
        let mut rows = Rows::of_one_answer();
        for event in found {
            if rows.are_used_up() {
                break;
            }
            last = Some(event.id);
            let NewEvent {
                kind, agent, data, ..
            } = &event.event;
            let is_own = who.agent.is_none() || who.agent == *agent;
            let sequence = data["step"].as_u64();
            let is_shown = match sequence.filter(|_| *kind == EventKind::ProjectLanded) {
                Some(sequence) if !is_own => {
                    let step = (&*event.event.subject, sequence);
                    self.projects.shows_step(who, step, &mut rows).await?
                }
                _ => true,
            };
            if is_shown {
                shown.push(event);
            }
        }
        Ok(last.map(|last| Looked { shown, last }))
    }

    /// Returns a stream of the events after `query.cursor`, or after the newest
    /// event.
    pub(crate) async fn follow(
        self: &Arc<Self>,
        who: &Principal,
        query: &EventsQuery,
    ) -> Result<Following> {
        let pulse = self.pulse.subscribe();
        let after = match query.cursor {
            Some(after) => after,
            None => self.catalog.last_event().await?,
        };
        Ok(Following {
            events: self.clone(),
            who: who.clone(),
            query: EventQuery {
                after,
                limit: PAGE,
                ..visible(who, query)?
            },
            reported: 0,
            held: None,
            pulse,
        })
    }

    /// Waits for new events while there are subscribers of the pulse, and
    /// notifies them.
    pub(crate) async fn watch(&self) {
        loop {
            if self.pulse.receiver_count() == 0 {
                tokio::time::sleep(PULSE).await;
                continue;
            }
            let known = *self.pulse.borrow();
            match self.catalog.wait_for_event(known, WAIT).await {
                Ok(newest) => {
                    self.pulse.send_if_modified(|known| {
                        let is_new = newest > *known;
                        *known = newest.max(*known);
                        is_new
                    });
                }
                Err(error) => {
                    let cause = crate::failure::chain(&error);
                    tracing::warn!(cause, "cannot check for new events");
                    tokio::time::sleep(PULSE).await;
                }
            }
        }
    }

    /// Records an event for the sandbox with this id, which may belong to any
    /// tenant. A sandbox in a warm pool has no row and gets no event.
    pub(crate) async fn announce_by_id(&self, id: &SandboxId, kind: EventKind) -> Result<()> {
        match self.catalog.sandbox_of_any_tenant(id).await? {
            Some(sandbox) => self.announce(&sandbox, kind).await,
            None => Ok(()),
        }
    }

    /// Records an event for a sandbox without changing the sandbox.
    async fn announce(&self, sandbox: &Sandbox, kind: EventKind) -> Result<()> {
        let Sandbox { tenant, id, .. } = sandbox;
        let change = SandboxChange {
            tells: vec![kind],
            ..SandboxChange::default()
        };
        let told = self
            .catalog
            .change_sandbox(*tenant, id, &change, clock::now());
        match told.await {
            // The sandbox was deleted.
            Ok(_) | Err(elevo_catalog::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Records an event for each sandbox that expires soon: one event for each
    /// expiry time, so a sandbox that is extended gets another event later.
    /// `told` holds the sandboxes and expiry times that have their event.
    pub(crate) async fn announce_expiring(
        &self,
        told: &mut HashSet<(SandboxId, i64)>,
    ) -> Result<()> {
        let soon = clock::after(self.time.now().await?, EXPIRING);
        let ending = self
            .catalog
            .expired_sandboxes_of_all_tenants(self.node, soon, 1000)
            .await?;
        let name = |row: &Sandbox| (row.id.clone(), row.expires.seconds());
        let now: HashSet<_> = ending.iter().map(name).collect();
        told.retain(|known| now.contains(known));
        for row in ending {
            // A sandbox whose whole lifetime is at most `EXPIRING` needs no
            // warning.
            let is_short = clock::after(row.created, EXPIRING) >= row.expires;
            if !is_short && !row.removing && told.insert(name(&row)) && !self.was_told(&row).await?
            {
                self.announce(&row, EventKind::SandboxExpiring).await?;
            }
        }
        Ok(())
    }

    /// Returns true if an earlier server process has recorded the event for this
    /// expiry time.
    async fn was_told(&self, row: &Sandbox) -> Result<bool> {
        let query = EventQuery {
            tenant: Some(row.tenant),
            kinds: vec![EventKind::SandboxExpiring],
            subject: Some(row.id.to_string()),
            limit: 1000,
            ..EventQuery::default()
        };
        let found = self.catalog.events(&query).await?;
        let expires = row.expires.seconds();
        let is_it = |event: &Event| {
            event.event.data["expiresAt"]
                .as_i64()
                .map(|at| at / 1_000_000)
                == Some(expires)
        };
        Ok(found.iter().any(is_it))
    }

    /// Deletes events older than the retention time.
    pub(crate) async fn delete_old(&self) -> Result<()> {
        let before = clock::before(self.time.settled().await?, self.config.events_keep);
        while self.catalog.forget_events(before).await? > 0 {}
        Ok(())
    }

    /// Subscribes to the sequence number of the newest event.
    pub(crate) fn pulse(&self) -> watch::Receiver<u64> {
        self.pulse.subscribe()
    }
}

/// Returns the query for the requested events that the principal may see.
fn visible(who: &Principal, query: &EventsQuery) -> Result<EventQuery> {
    let allowed = allowed_kinds(who)?;
    let kinds = match &query.kinds {
        None => allowed,
        Some(names) => wanted_kinds(names.split(',').map(str::trim), &allowed)?,
    };
    Ok(EventQuery {
        tenant: Some(who.tenant),
        agent: who.agent.clone(),
        kinds,
        subject: query.subject.clone(),
        ..EventQuery::default()
    })
}

/// Parses the names of kinds and removes duplicates. Fails if a kind is not in
/// `allowed`.
pub(crate) fn wanted_kinds<'a>(
    names: impl Iterator<Item = &'a str>,
    allowed: &[EventKind],
) -> Result<Vec<EventKind>> {
    let mut kinds = Vec::new();
    for name in names {
        let kind = name.parse::<EventKind>();
        let kind = kind.map_err(|why| Failure::invalid(short(&why)))?;
        if !allowed.contains(&kind) {
            let message = format!("this key lacks the scope for events `{kind}`");
            return Err(Failure::new(ErrorCode::Forbidden, message));
        }
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Ok(kinds)
}

/// Returns the kinds of events that the principal's scopes allow.
pub(crate) fn allowed_kinds(who: &Principal) -> Result<Vec<EventKind>> {
    let needed = |kind: &EventKind| match kind {
        EventKind::ProjectLanded
        | EventKind::ReviewOpened
        | EventKind::ReviewClosed
        | EventKind::WorkspaceRefused => Scope::ProjectsRead,
        _ => Scope::SandboxesRead,
    };
    let kinds = EventKind::ALL.into_iter();
    let kinds: Vec<_> = kinds
        .filter(|kind| who.scopes.contains(&needed(kind)))
        .collect();
    if kinds.is_empty() {
        who.needs(Scope::SandboxesRead)?;
    }
    Ok(kinds)
}

/// Returns the gap that ends with the newest deleted event.
fn gap(forgotten: u64) -> api::EventGap {
    api::EventGap {
        oldest: forgotten + 1,
    }
}

/// Converts an event to its form in the API.
pub(crate) fn out(event: Event) -> api::Event {
    let Event { id, event } = event;
    let mut data = event.data;
    for name in ["createdAt", "expiresAt"] {
        if let Some(micros) = data.get(name).and_then(Value::as_i64) {
            data[name] = clock::text_of_micros(micros).into();
        }
    }
    api::Event {
        id,
        kind: event.kind.name().into(),
        timestamp: clock::text(event.at),
        data,
    }
}

#[cfg(test)]
mod tests;
