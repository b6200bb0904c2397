//! Records requests in the audit log.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;

use crate::http::answer::ApiError;
use crate::http::layers;
use crate::http::route_rules::Disk;
use crate::http::shared::Shared;
use crate::platform::audit::{Audit, Entry, Level, NOTE, Note, cut, settle};
use crate::platform::clock;
use crate::platform::listen::Peer;

/// Records a request and its outcome in the audit log before the response is
/// sent.
pub(super) async fn record(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let Some(path) = path else {
        return next.run(request).await;
    };
    let rules = shared.rules.of(request.method(), path.as_str());
    let event = rules.audit.as_deref();
    let audit = &shared.app.audit;
    let may_wait = rules.disk == Disk::Frees;
    if event.is_some()
        && let Err(failure) = audit.can_record(may_wait)
    {
        return ApiError::from(failure).into_response();
    }
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    let mut asked = Asked {
        audit: audit.clone(),
        event,
        needs_room: rules.disk == Disk::Needed,
        route: format!("{} {}", request.method(), path.as_str()),
        about: names(path.as_str(), request.uri().path()),
        address: peer.map(|peer| peer.0.address.to_string()),
        began: clock::instant(),
        note: Arc::new(Mutex::new(Note {
            request_id: layers::request_id(),
            ..Note::default()
        })),
        is_done: false,
    };
    let note = asked.note.clone();
    let response = NOTE.scope(note, next.run(request)).await;
    asked.answered(response.status().as_u16()).await;
    response
}

/// A request in progress. It is also recorded if the client disconnects,
/// because its operation may continue.
struct Asked {
    audit: Arc<Audit>,
    event: Option<&'static str>,
    /// Whether the server rejects the request on a full disk, before the
    /// request has any effect.
    needs_room: bool,
    route: String,
    about: Vec<(&'static str, serde_json::Value)>,
    address: Option<String>,
    began: Instant,
    note: Arc<Mutex<Note>>,
    is_done: bool,
}

/// The status that nginx logs when the client closed the connection.
const WENT_AWAY: u16 = 499;

impl Asked {
    async fn answered(&mut self, status: u16) {
        self.is_done = true;
        if let Some(ticket) = self.take_ticket() {
            return settle(ticket, self.event.unwrap_or_default()).await;
        }
        let Some(entry) = self.entry(status) else {
            return;
        };
        let (audit, needs_room) = (self.audit.clone(), self.needs_room);
        // The record is written even if the client disconnects now.
        let telling = tokio::spawn(async move {
            match status {
                401 | 403 | 429 => audit.tell_refusal(entry).await,
                507 if needs_room => audit.tell_refusal(entry).await,
                _ => audit.tell(entry).await,
            }
        });
        // Fails only if the task panics or the runtime shuts down.
        let _ = telling.await;
    }

    fn take_ticket(&self) -> Option<elevo_audit::Ticket> {
        let mut note = self.note.lock();
        note.ticket.take()
    }

    fn entry(&mut self, status: u16) -> Option<Entry> {
        let event = match (self.event, status) {
            (_, 401) => "auth.failed",
            (Some(event), _) => event,
            (None, 403) => "access.refused",
            (None, _) => return None,
        };
        let note = std::mem::take(&mut *self.note.lock());
        let mut about = std::mem::take(&mut self.about);
        about.extend(note.about);
        let mut details = note.details;
        details.insert("route".into(), std::mem::take(&mut self.route).into());
        Some(Entry {
            event,
            level: match status {
                ..400 => Level::Info,
                400..500 => Level::Warn,
                _ => Level::Error,
            },
            about,
            who: note.who,
            request_id: note.request_id,
            status: Some(status),
            elapsed: Some(self.began.elapsed()),
            address: self.address.take(),
            details,
        })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // A ticket means that the request's entry is already in the log.
        if self.is_done || self.event.is_none() || self.take_ticket().is_some() {
            return;
        }
        if let Some(entry) = self.entry(WENT_AWAY) {
            let audit = self.audit.clone();
            tokio::spawn(async move { audit.tell(entry).await });
        }
    }
}

/// Returns the ids in a path with their names in the audit log. The segment
/// before an id determines its name.
fn names(pattern: &str, path: &str) -> Vec<(&'static str, serde_json::Value)> {
    let mut before = "";
    let mut found = Vec::new();
    for (part, text) in pattern.split('/').zip(path.split('/')) {
        if part.starts_with('{') {
            let name = match before {
                "sandboxes" => "sandbox_id",
                "process" => "command_id",
                "pty" => "terminal_id",
                "projects" => "project_id",
                "workspaces" => "workspace_id",
                "reviews" => "review_id",
                "keys" => "key_id",
                "tenants" => "tenant_id",
                "agents" => "agent_id",
                "webhooks" => "webhook_id",
                "templates" => "template",
                "tags" => "tag",
                _ => "of",
            };
            found.push((name, cut(text)));
        }
        before = part;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_ids_in_a_path() {
        let found = names(
            "/api/v1/sandboxes/{id}/process/{cmdId}/kill",
            "/api/v1/sandboxes/sbx-1/process/cmd-2/kill",
        );
        assert_eq!(
            found,
            [
                ("sandbox_id", "sbx-1".into()),
                ("command_id", "cmd-2".into())
            ]
        );
    }
}
