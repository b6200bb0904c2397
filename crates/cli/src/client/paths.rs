//! Paths of the resources of the API.

/// The path of a project, or of a resource below it.
pub(crate) fn project_path<'a>(name: &'a str, below: &[&'a str]) -> Vec<&'a str> {
    [&["api", "v1", "projects", name], below].concat()
}

/// The path of a sandbox, or of a resource below it.
pub(crate) fn sandbox_path<'a>(id: &'a str, below: &[&'a str]) -> Vec<&'a str> {
    [&["api", "v1", "sandboxes", id], below].concat()
}

/// The path of a review, or of a resource below it.
pub(crate) fn review_path<'a>(id: &'a str, below: &[&'a str]) -> Vec<&'a str> {
    [&["api", "v1", "reviews", id], below].concat()
}

pub(crate) const PROJECTS: [&str; 3] = ["api", "v1", "projects"];

pub(crate) const WORKSPACES: [&str; 3] = ["api", "v1", "workspaces"];

pub(crate) fn workspace_path<'a>(id: &'a str, below: &[&'a str]) -> Vec<&'a str> {
    [&WORKSPACES, &[id][..], below].concat()
}

pub(crate) const KEYS: [&str; 3] = ["api", "v1", "keys"];

pub(crate) const AGENTS: [&str; 3] = ["api", "v1", "agents"];

pub(crate) const TEMPLATES: [&str; 3] = ["api", "v1", "templates"];

pub(crate) const WEBHOOKS: [&str; 3] = ["api", "v1", "webhooks"];

pub(crate) const REVIEWS: [&str; 3] = ["api", "v1", "reviews"];

pub(crate) const SANDBOXES: [&str; 3] = ["api", "v1", "sandboxes"];
