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

pub(crate) const SNAPSHOTS: [&str; 3] = ["api", "v1", "snapshots"];

/// The path of a snapshot, by id or name.
pub(crate) fn snapshot_path(id: &str) -> Vec<&str> {
    [&SNAPSHOTS, &[id][..]].concat()
}

/// The path of the files of a sandbox or workspace.
pub(crate) fn archive_path(id: &str) -> Vec<&str> {
    match is_workspace(id) {
        true => workspace_path(id, &["archive"]),
        false => sandbox_path(id, &["archive"]),
    }
}

/// Whether an id, or the beginning of one, is that of a workspace that was not
/// created for a sandbox.
pub(crate) fn is_workspace(id: &str) -> bool {
    id.starts_with("ws-")
}

pub(crate) const SANDBOXES: [&str; 3] = ["api", "v1", "sandboxes"];
