//! Bounds on projects and their records.

use std::collections::HashSet;

use elevo_core::Timestamp;
use serde_json::Value;

use super::values::{json, micros, name, nul, number, refuse, text};
use crate::error::Result;
use crate::limits::{
    MAX_CHANGES, MAX_DETAIL_BYTES, MAX_MESSAGE_BYTES, MAX_POLICY_BYTES, MAX_REVIEWS, MAX_STEPS,
    MAX_UNSETTLED,
};
use crate::records::{
    ClientSnapshot, Landing, PathChange, Project, Retention, Review, ReviewState, Step, Tag,
    Unsettled, Workspace,
};

pub(crate) fn project(project: &Project) -> Result<()> {
    name("the name of a project", &project.name)?;
    if let Some(description) = &project.description {
        text("the description of a project", description)?;
    }
    number("the version of a policy", project.policy_version)?;
    if let Retention::Last(0) | Retention::Daily(0) = project.retention {
        return refuse("retention must keep at least 1 version or day");
    }
    times([Some(project.created), Some(project.updated)])
}

/// Returns the stored form of a policy.
pub(crate) fn policy(policy: &Value) -> Result<String> {
    json("a policy", policy, MAX_POLICY_BYTES)
}

pub(crate) fn tag(tag: &Tag) -> Result<()> {
    name("the name of a tag", &tag.name)?;
    text("the message of a tag", &tag.message)?;
    times([Some(tag.created)])
}

pub(crate) fn snapshot(snapshot: &ClientSnapshot) -> Result<()> {
    optional_name("the name of a snapshot", &snapshot.name)?;
    let what = "the message of a snapshot";
    if snapshot.message.len() > MAX_MESSAGE_BYTES {
        return refuse(format!("{what} can have at most {MAX_MESSAGE_BYTES} bytes"));
    }
    nul(what, &snapshot.message)?;
    times([Some(snapshot.created)])
}

pub(crate) fn workspace(workspace: &Workspace) -> Result<()> {
    optional_name("the name of a workspace", &workspace.name)?;
    number("the number of merges", workspace.merges)?;
    number("a generation", workspace.generation)?;
    number(
        "the limit of a workspace",
        workspace.files.limit.unwrap_or_default(),
    )?;
    times([
        Some(workspace.created),
        Some(workspace.updated),
        workspace.last_merge,
        workspace.expires,
    ])
}

pub(crate) fn unsettled(all: &[Unsettled]) -> Result<()> {
    if all.len() > MAX_UNSETTLED {
        let message = format!("a workspace can have at most {MAX_UNSETTLED} unresolved conflicts");
        return refuse(message);
    }
    let mut paths = HashSet::new();
    if !all.iter().all(|one| paths.insert(&one.path)) {
        return refuse("two unresolved conflicts have the same path");
    }
    Ok(())
}

pub(crate) fn landing(landing: &Landing) -> Result<()> {
    if landing.steps.is_empty() || landing.steps.len() > MAX_STEPS {
        return refuse(format!("a landing must have 1 to {MAX_STEPS} steps"));
    }
    let changes = landing.steps.iter().map(|step| step.changes.len());
    if changes.sum::<usize>() > MAX_CHANGES {
        return refuse(format!("a landing can change at most {MAX_CHANGES} paths"));
    }
    let reviews = landing.steps.iter();
    let reviews = reviews.map(|step| step.reviews.len() + step.opens.len());
    if reviews.sum::<usize>() > MAX_REVIEWS {
        return refuse(format!(
            "a landing can change at most {MAX_REVIEWS} reviews"
        ));
    }
    micros(landing.now)?;
    let mut requests = HashSet::new();
    let mut parent = landing.expected_head;
    for one in &landing.steps {
        if one.request.as_ref().is_some_and(|it| !requests.insert(it)) {
            return refuse("two steps have the same request");
        }
        if one.snapshot == parent && !one.changes.is_empty() {
            return refuse("a step that does not move the head cannot change a path");
        }
        parent = one.snapshot;
        step(landing, one)?;
    }
    Ok(())
}

fn step(landing: &Landing, step: &Step) -> Result<()> {
    text("the message of a step", &step.message)?;
    optional_name("the request of a step", &step.request)?;
    if step.base.is_some() && step.workspace.is_none() {
        return refuse("a step that moves the base of a workspace must name the workspace");
    }
    let mut paths = HashSet::new();
    for change in &step.changes {
        path_change(change)?;
        if !paths.insert(&change.path) {
            return refuse("a step cannot change a path twice");
        }
    }
    for opened in &step.opens {
        review(opened)?;
        if (opened.tenant, &opened.project) != (landing.tenant, &landing.project) {
            return refuse("a step can only open reviews of the same project");
        }
        if opened.state != ReviewState::Open {
            return refuse("a new review must be open");
        }
    }
    Ok(())
}

fn path_change(change: &PathChange) -> Result<()> {
    number("the number of files", change.files)?;
    name("an algorithm", &change.algorithm)
}

pub(crate) fn review(review: &Review) -> Result<()> {
    name("the kind of a review", &review.kind)?;
    name("an algorithm", &review.algorithm)?;
    optional_name("the principal that closed a review", &review.closed_by)?;
    times([Some(review.created), review.expires, review.closed])
}

/// Returns the stored form of the detail and the resolution of a review.
pub(crate) fn review_texts(review: &Review) -> Result<(String, Option<String>)> {
    let detail = json("the detail of a review", &review.detail, MAX_DETAIL_BYTES)?;
    let resolution = review.resolution.as_ref();
    let resolution = resolution.map(|it| json("a resolution", it, MAX_DETAIL_BYTES));
    Ok((detail, resolution.transpose()?))
}

fn optional_name(what: &str, text: &Option<String>) -> Result<()> {
    text.as_ref().map_or(Ok(()), |text| name(what, text))
}

fn times(times: impl IntoIterator<Item = Option<Timestamp>>) -> Result<()> {
    times
        .into_iter()
        .flatten()
        .try_for_each(|time| micros(time).map(drop))
}
