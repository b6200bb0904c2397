//! The requests that are audited, and their events in the audit log.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::http::answer::ApiError;
use crate::http::shared::Shared;
use crate::http::{growth, layers};
use crate::platform::audit::{Audit, Entry, Level, NOTE, Note, cut, settle};
use crate::platform::clock;
use crate::platform::listen::Peer;

/// Method, route and event of every audited request: requests that change
/// something, exports of files, and connections to terminals. A test compares
/// this table with the OpenAPI description.
const EVENTS: &[(&str, &str, &str)] = &[
    ("POST", "/api/v1/sandboxes", "sandbox.created"),
    ("DELETE", "/api/v1/sandboxes/{id}", "sandbox.deleted"),
    ("POST", "/api/v1/sandboxes/batch-delete", "sandbox.deleted"),
    ("POST", "/api/v1/sandboxes/{id}/stop", "sandbox.stopped"),
    ("POST", "/api/v1/sandboxes/{id}/start", "sandbox.started"),
    ("POST", "/api/v1/sandboxes/{id}/extend", "sandbox.extended"),
    ("POST", "/api/v1/sandboxes/{id}/fork", "sandbox.forked"),
    (
        "POST",
        "/api/v1/sandboxes/{id}/snapshot",
        "sandbox.snapshot",
    ),
    ("POST", "/api/v1/sandboxes/{id}/restore", "sandbox.restored"),
    ("GET", "/api/v1/sandboxes/{id}/archive", "files.exported"),
    ("PUT", "/api/v1/sandboxes/{id}/archive", "files.imported"),
    ("POST", "/api/v1/snapshots", "files.imported"),
    ("POST", "/api/v1/sandboxes/{id}/process/run", "command.run"),
    (
        "POST",
        "/api/v1/sandboxes/{id}/process/{cmdId}/input",
        "command.input",
    ),
    (
        "POST",
        "/api/v1/sandboxes/{id}/process/{cmdId}/kill",
        "command.killed",
    ),
    ("POST", "/api/v1/sandboxes/{id}/pty", "terminal.opened"),
    (
        "GET",
        "/api/v1/sandboxes/{id}/pty/{ptyId}/ws",
        "terminal.connected",
    ),
    (
        "POST",
        "/api/v1/sandboxes/{id}/pty/{ptyId}/resize",
        "terminal.resized",
    ),
    (
        "DELETE",
        "/api/v1/sandboxes/{id}/pty/{ptyId}",
        "terminal.closed",
    ),
    ("POST", "/api/v1/projects", "project.created"),
    ("PATCH", "/api/v1/projects/{id}", "project.changed"),
    ("DELETE", "/api/v1/projects/{id}", "project.deleted"),
    ("PUT", "/api/v1/projects/{id}/policy", "project.policy"),
    ("POST", "/api/v1/projects/{id}/apply", "project.applied"),
    ("POST", "/api/v1/projects/{id}/import", "project.imported"),
    ("PUT", "/api/v1/projects/{id}/archive", "project.imported"),
    ("GET", "/api/v1/projects/{id}/archive", "project.exported"),
    ("POST", "/api/v1/projects/{id}/revert", "project.reverted"),
    ("POST", "/api/v1/projects/{id}/restore", "project.restored"),
    ("POST", "/api/v1/projects/{id}/tags", "project.tagged"),
    (
        "DELETE",
        "/api/v1/projects/{id}/tags/{name}",
        "project.untagged",
    ),
    ("POST", "/api/v1/reviews/{id}/resolve", "review.resolved"),
    ("POST", "/api/v1/workspaces", "workspace.created"),
    ("DELETE", "/api/v1/workspaces/{id}", "workspace.deleted"),
    ("POST", "/api/v1/workspaces/{id}/merge", "workspace.merged"),
    (
        "POST",
        "/api/v1/workspaces/{id}/complete",
        "workspace.completed",
    ),
    (
        "POST",
        "/api/v1/workspaces/{id}/refresh",
        "workspace.refreshed",
    ),
    ("POST", "/api/v1/templates", "template.added"),
    ("DELETE", "/api/v1/templates/{name}", "template.removed"),
    ("POST", "/api/v1/keys", "key.created"),
    ("DELETE", "/api/v1/keys/{id}", "key.revoked"),
    ("POST", "/api/v1/agents", "agent.added"),
    ("DELETE", "/api/v1/agents/{id}", "agent.ended"),
    ("POST", "/api/v1/tenants", "tenant.added"),
    ("PATCH", "/api/v1/tenants/{id}", "tenant.changed"),
    ("DELETE", "/api/v1/tenants/{id}", "tenant.erased"),
    ("POST", "/api/v1/webhooks", "webhook.added"),
    ("DELETE", "/api/v1/webhooks/{id}", "webhook.removed"),
    (
        "POST",
        "/api/v1/webhooks/{id}/deliveries/{event}/replay",
        "webhook.replayed",
    ),
    ("POST", "/api/v1/gc", "garbage.collected"),
];

fn event_of(method: &str, path: &str) -> Option<&'static str> {
    let found = EVENTS.iter().find(|(m, p, _)| *m == method && *p == path);
    found.map(|(_, _, event)| *event)
}

/// Records a request and its outcome in the audit log before the response is
/// sent.
pub(super) async fn record(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let Some(path) = path else {
        return next.run(request).await;
    };
    let event = event_of(request.method().as_str(), path.as_str());
    let audit = &shared.app.audit;
    let may_wait = growth::gives_back(request.method(), path.as_str());
    if event.is_some()
        && let Err(failure) = audit.can_record(may_wait)
    {
        return ApiError::from(failure).into_response();
    }
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    let mut asked = Asked {
        audit: audit.clone(),
        event,
        needs_room: growth::needs_room(request.method(), path.as_str()),
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
        let mut note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
        note.ticket.take()
    }

    fn entry(&mut self, status: u16) -> Option<Entry> {
        let event = match (self.event, status) {
            (_, 401) => "auth.failed",
            (Some(event), _) => event,
            (None, 403) => "access.refused",
            (None, _) => return None,
        };
        let note = std::mem::take(&mut *self.note.lock().unwrap_or_else(PoisonError::into_inner));
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
    fn every_request_that_changes_something_is_audited() {
        let api: serde_json::Value = serde_json::from_str(&crate::http::openapi_json()).unwrap();
        let mut routes = Vec::new();
        for (path, methods) in api["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys() {
                routes.push((method.to_uppercase(), path.clone()));
            }
        }
        for (method, path) in &routes {
            let is_change = method != "GET";
            let is_audited = event_of(method, path).is_some();
            assert!(is_audited || !is_change, "{method} {path}");
        }
        for (method, path, _) in EVENTS {
            let known = (method.to_string(), path.to_string());
            assert!(routes.contains(&known), "{method} {path} is not a route");
        }
    }

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
