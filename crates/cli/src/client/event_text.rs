//! Describes events for people, with names of projects and agents.

use std::collections::HashMap;

use elevo_api as api;
use serde_json::Value;

use crate::client::call::Call;
use crate::client::names::AgentNames;
use crate::client::pages::{PAGE, page};
use crate::client::paths::{project_path, review_path};
use crate::client::review::ProjectNames;
use crate::output::format::{count, first_line, short_id};

/// Requests the names that the events need, each once.
pub(crate) struct EventTexts {
    projects: ProjectNames,
    agents: AgentNames,
    /// By id; `None` if the key may not see the review.
    reviews: HashMap<String, Option<api::Review>>,
    /// By the id of the project and the number of the step.
    steps: HashMap<(String, u64), api::Step>,
}

impl EventTexts {
    pub(crate) fn new(call: &Call) -> Self {
        Self {
            projects: ProjectNames::default(),
            agents: AgentNames::request(call),
            reviews: HashMap::new(),
            steps: HashMap::new(),
        }
    }

    /// Describes the subject of an event: a sandbox, a step, a review or a
    /// workspace, with the agent.
    pub(crate) fn of(&mut self, call: &Call, event: &api::Event) -> String {
        let data = &event.data;
        let text = |name: &str| data.get(name).and_then(Value::as_str);
        let mut words = Vec::new();
        if let Some(project) = text("project") {
            words.push(self.projects.of(call, project));
        }
        match (text("project"), text("review")) {
            (_, Some(review)) => words.extend(self.review(call, review, text("state"))),
            (Some(project), None) if event.kind == "project.landed" => {
                let step = data.get("step").and_then(Value::as_u64);
                words.extend(step.map(|step| self.step(call, project, step)));
            }
            _ => {
                let ids = [text("sandboxId"), text("workspace")];
                words.extend(ids.into_iter().flatten().map(short_id));
                words.extend(text("name").map(str::to_owned));
                words.extend(text("reason").map(str::to_owned));
                words.extend(refused(data));
            }
        }
        let words = words.iter().map(|word| first_line(word));
        words.collect::<Vec<_>>().join(" ")
    }

    fn review(&mut self, call: &Call, id: &str, state: Option<&str>) -> Vec<String> {
        let mut words = vec![short_id(id)];
        if !self.reviews.contains_key(id) {
            let found = call.wait(call.client.get(&review_path(id, &[])));
            self.reviews.insert(id.to_owned(), found.ok());
        }
        if let Some(Some(review)) = self.reviews.get(id) {
            words.push(review.conflict.path.clone());
            words.extend(self.by(review.agent.as_deref()));
        }
        words.extend(
            state
                .filter(|state| *state != "open")
                .map(|it| format!("({it})")),
        );
        words
    }

    fn step(&mut self, call: &Call, project: &str, number: u64) -> String {
        let key = (project.to_owned(), number);
        if !self.steps.contains_key(&key) {
            // Requests this step and the steps after it: events are listed from
            // old to new, so the next events are about later steps.
            let until = number + u64::from(PAGE) - 1;
            let path = project_path(project, &["steps"]);
            let query = [("until", until.to_string())];
            let page = call.wait(page::<api::Step>(&call.client, &path, &query, None, PAGE));
            let items = page.map(|page| page.items).unwrap_or_default();
            let items = items.into_iter();
            self.steps
                .extend(items.map(|step| ((project.to_owned(), step.number), step)));
        }
        let mut text = format!("step {number}");
        if let Some(step) = self.steps.get(&key) {
            if !step.message.is_empty() {
                text += &format!(" \"{}\"", first_line(&step.message));
            }
            if let Some(by) = self.by(step.agent.as_deref()) {
                text += &format!(" {by}");
            }
        }
        text
    }

    fn by(&self, agent: Option<&str>) -> Option<String> {
        agent.map(|agent| format!("by {}", self.agents.of(agent)))
    }
}

/// The paths that a workspace could not merge.
fn refused(data: &Value) -> Option<String> {
    let all = data.get("refusedCount").and_then(Value::as_u64)?;
    let listed = data.get("refused").and_then(Value::as_array);
    let first = listed.and_then(|listed| listed.first()?.get("path")?.as_str());
    Some(match (first, all) {
        (Some(path), 1) => path.to_owned(),
        (Some(path), _) => format!("{path} and {} more", all - 1),
        (None, _) => count(all, "path", "paths"),
    })
}
