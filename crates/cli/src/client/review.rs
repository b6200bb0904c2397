//! Reviews on a server: their states, their projects and decisions on them.

use std::collections::HashMap;

use elevo_api as api;

use crate::client::call::Call;
use crate::client::paths::{project_path, review_path};
use crate::errors::Exit;
use crate::output::format::first_line;
use crate::output::json;

pub(crate) fn decision(
    take: api::Take,
    message: String,
    content: Option<Vec<u8>>,
) -> api::ResolveReview {
    let (content, base64) = match content.map(String::from_utf8) {
        Some(Ok(text)) => (Some(text), None),
        Some(Err(bytes)) => (None, Some(json::base64(bytes.as_bytes()))),
        None => (None, None),
    };
    api::ResolveReview {
        take,
        content,
        base64,
        message,
    }
}

pub(crate) fn send_decision(
    call: &mut Call,
    id: &str,
    wish: api::ResolveReview,
) -> anyhow::Result<Exit> {
    let path = review_path(id, &["resolve"]);
    let asking = call.client.create(&path, &wish);
    let review: api::Review = call.watch("merging", asking)?;
    let is_open = review.state == api::ReviewState::Open;
    let (id, path) = (first_line(&review.id), first_line(&review.conflict.path));
    if call.output.is_json() {
        call.output.value(&review)?;
    } else if is_open {
        call.note(&format!(
            "{path} conflicts again, because the project has changed; `elevo review show {id}` \
             shows the new conflict"
        ));
    } else {
        let state = review_state(review.state);
        call.output.line(format!("{id} is {state}: {path}"))?;
    }
    Ok(match is_open {
        true => Exit::Held,
        false => Exit::Done,
    })
}

/// The name of a state.
pub(crate) fn review_state(state: api::ReviewState) -> &'static str {
    match state {
        api::ReviewState::Open => "open",
        api::ReviewState::Resolved => "resolved",
        api::ReviewState::Rejected => "rejected",
        api::ReviewState::Superseded => "superseded",
        api::ReviewState::Expired => "expired",
    }
}

/// Names of projects by id, each requested once.
#[derive(Default)]
pub(crate) struct ProjectNames(HashMap<String, String>);

impl ProjectNames {
    /// Returns the name of a project, or its id if the request fails.
    pub(crate) fn of(&mut self, call: &Call, id: &str) -> String {
        if let Some(name) = self.0.get(id) {
            return name.clone();
        }
        let found = call.wait(call.client.get::<api::Project>(&project_path(id, &[])));
        let name = found.map_or_else(|_| id.to_owned(), |project| project.name);
        self.0.insert(id.to_owned(), name.clone());
        name
    }
}
