//! What happened, for whoever wants to know.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{Event, EventKind, EventQuery, NewEvent, Sandbox, SandboxChange};
use elevo_core::ErrorCode;
use serde_json::Value;
use tokio::sync::watch;

use crate::app::{App, Principal};
use crate::clock;
use crate::failure::{Failure, Result, short};

/// How long it takes at most until something is known to have happened.
const PULSE: Duration = Duration::from_millis(100);
/// How long before its end a sandbox is about to expire.
const EXPIRING: Duration = Duration::from_secs(300);
/// Of the catalog's readers, as many read events for followers at a time.
pub(super) const READERS: usize = 2;
/// Events that are read at a time.
const PAGE: u32 = 100;

/// Which events are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventsQuery {
    pub(crate) kinds: Option<String>,
    pub(crate) subject: Option<String>,
    pub(crate) after: Option<u64>,
    pub(crate) limit: Option<u32>,
}

/// Events as they happen.
pub(crate) struct Following {
    app: Arc<App>,
    who: Principal,
    query: EventQuery,
    pulse: watch::Receiver<u64>,
}

impl Following {
    /// What happened next: waits until there is something.
    pub(crate) async fn next(&mut self) -> Result<Vec<api::Event>> {
        loop {
            // Before it is looked: what happens meanwhile is seen next time.
            let newest = *self.pulse.borrow_and_update();
            let found = {
                // However many follow, they leave readers of the catalog to others.
                let _turn = self.app.following.acquire().await;
                self.app.catalog.events(&self.query).await?
            };
            if let Some(last) = found.last() {
                self.query.after = last.id;
                let shown = self.app.without_hidden(&self.who, found).await?;
                if shown.is_empty() {
                    continue;
                }
                return Ok(shown.into_iter().map(out).collect());
            }
            self.query.after = self.query.after.max(newest);
            // An error is that the server is about to end.
            if self.pulse.changed().await.is_err() {
                std::future::pending().await
            }
        }
    }
}

impl App {
    /// What happened, as far as it is kept.
    pub(crate) async fn events(
        &self,
        who: &Principal,
        query: &EventsQuery,
    ) -> Result<api::EventPage> {
        let limit = query.limit.unwrap_or(PAGE);
        if !(1..=1000).contains(&limit) {
            return Err(Failure::invalid("`limit` must be 1 to 1000"));
        }
        let query = EventQuery {
            after: query.after.unwrap_or_default(),
            limit,
            ..visible(who, query)?
        };
        let found = self.catalog.events(&query).await?;
        let last = found.last().map_or(query.after, |event| event.id);
        let shown = self.without_hidden(who, found).await?;
        Ok(api::EventPage {
            last,
            items: shown.into_iter().map(out).collect(),
        })
    }

    /// Leaves out the landings in which an agent may see nothing.
    async fn without_hidden(&self, who: &Principal, found: Vec<Event>) -> Result<Vec<Event>> {
        let mut shown = Vec::with_capacity(found.len());
        for event in found {
            let NewEvent {
                kind, agent, data, ..
            } = &event.event;
            let is_own = who.agent.is_none() || who.agent == *agent;
            let sequence = data["sequence"].as_u64();
            let is_shown = match sequence.filter(|_| *kind == EventKind::ProjectLanded) {
                Some(sequence) if !is_own => {
                    let project = &event.event.subject;
                    self.shows_step(who, project, sequence).await?
                }
                _ => true,
            };
            if is_shown {
                shown.push(event);
            }
        }
        Ok(shown)
    }

    /// What happens from now on, or after an event.
    pub(crate) async fn follow_events(
        self: &Arc<Self>,
        who: &Principal,
        query: &EventsQuery,
    ) -> Result<Following> {
        let pulse = self.pulse.subscribe();
        let after = match query.after {
            Some(after) => after,
            None => self.catalog.last_event().await?,
        };
        Ok(Following {
            app: self.clone(),
            who: who.clone(),
            query: EventQuery {
                after,
                limit: PAGE,
                ..visible(who, query)?
            },
            pulse,
        })
    }

    /// Looks whether something has happened, for as long as somebody wants to
    /// know.
    pub(crate) async fn watch_events(&self) {
        loop {
            tokio::time::sleep(PULSE).await;
            if self.pulse.receiver_count() == 0 {
                continue;
            }
            match self.catalog.last_event().await {
                Ok(last) => {
                    self.pulse.send_if_modified(|known| {
                        let is_new = last > *known;
                        *known = last.max(*known);
                        is_new
                    });
                }
                Err(error) => {
                    let cause = crate::failure::chain(&error);
                    tracing::warn!(cause, "events cannot be read");
                }
            }
        }
    }

    /// Tells of a sandbox something that changes nothing in it.
    pub(crate) async fn tell(&self, id: &str, kind: EventKind) -> Result<()> {
        let change = SandboxChange {
            tells: vec![kind],
            ..SandboxChange::default()
        };
        let told = self.catalog.change_sandbox(id, &change, clock::now()).await;
        match told {
            // Gone, or never more than warm.
            Ok(_) | Err(elevo_catalog::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells of sandboxes that end soon: once, unless they are extended.
    pub(crate) async fn tell_expiring(&self, told: &mut HashSet<(String, i64)>) -> Result<()> {
        let soon = clock::after(self.time().await?, EXPIRING);
        let ending = self.catalog.expired(soon, 1000).await?;
        let name = |row: &Sandbox| (row.id.clone(), row.expires.seconds());
        let now: HashSet<_> = ending.iter().map(name).collect();
        told.retain(|known| now.contains(known));
        for row in ending {
            // One that was never to live longer has been told so.
            let is_short = clock::after(row.created, EXPIRING) >= row.expires;
            if !is_short && !row.removing && told.insert(name(&row)) && !self.was_told(&row).await?
            {
                self.tell(&row.id, EventKind::SandboxExpiring).await?;
            }
        }
        Ok(())
    }

    /// Whether an earlier server has told of it.
    async fn was_told(&self, row: &Sandbox) -> Result<bool> {
        let query = EventQuery {
            tenant: Some(row.tenant),
            kinds: vec![EventKind::SandboxExpiring],
            subject: Some(row.id.clone()),
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

    /// Forgets what happened long ago.
    pub(crate) async fn forget_events(&self) -> Result<()> {
        let before = clock::before(self.settled_time().await?, self.config.events_keep);
        while self.catalog.forget_events(before).await? > 0 {}
        Ok(())
    }
}

/// What somebody may know of what they ask for.
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

/// Kinds by their names, each once, if all of them are allowed.
pub(super) fn wanted_kinds<'a>(
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

/// Events of sandboxes are for those who may see sandboxes, and so on.
pub(super) fn allowed_kinds(who: &Principal) -> Result<Vec<EventKind>> {
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

/// An event as the API shows it.
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
        event: event.kind.name().into(),
        timestamp: clock::text(event.at),
        data,
    }
}
