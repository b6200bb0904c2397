//! Failures of requests that name a record that does not exist.

use elevo_catalog::Workspace;
use elevo_core::ErrorCode;

use crate::failure::{Failure, short};

pub(crate) fn no_agent(id: &str) -> Failure {
    let message = format!("there is no agent `{}`", short(id));
    Failure::new(ErrorCode::AgentNotFound, message)
}

pub(crate) fn no_project(name: &str) -> Failure {
    let message = format!("there is no project `{}`", short(name));
    Failure::new(ErrorCode::ProjectNotFound, message).about("project", short(name))
}

pub(crate) fn no_review(id: &str) -> Failure {
    let message = format!("there is no review `{}`", short(id));
    Failure::new(ErrorCode::ReviewNotFound, message).about("review", short(id))
}

pub(crate) fn no_webhook(id: &str) -> Failure {
    let message = format!("there is no webhook `{}`", short(id));
    Failure::new(ErrorCode::WebhookNotFound, message).about("webhook", short(id))
}

pub(crate) fn no_key() -> Failure {
    Failure::new(ErrorCode::KeyNotFound, "there is no key with this id")
}

pub(crate) fn on_no_project(row: &Workspace) -> Failure {
    let message = format!("workspace `{}` does not belong to a project", row.id);
    Failure::invalid(message)
        .about("workspace", row.id.as_str())
        .remediation("Resume the workspace in a sandbox with `elevo sandbox create --workspace`.")
}

pub(crate) fn no_workspace(id: &str) -> Failure {
    let message = format!("there is no workspace `{}`", short(id));
    Failure::new(ErrorCode::WorkspaceNotFound, message).about("workspace", short(id))
}

pub(crate) fn no_template(name: &str) -> Failure {
    let name = short(name);
    let message = format!("there is no template `{name}`");
    Failure::new(ErrorCode::TemplateNotFound, message)
        .about("template", name.as_str())
        .remediation(format!(
            "List templates with `elevo template ls`; create one with `elevo template create {name}`."
        ))
}
