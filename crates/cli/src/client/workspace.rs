//! Finds workspaces of projects on a server.

use std::path::{Path, PathBuf};

use elevo_api as api;
use serde_json::Value;

use crate::client::call::{self, Call};
use crate::client::error::Result;
use crate::client::find::{Reach, Where};
use crate::client::http::Client;
use crate::client::names::{Noun, find};
use crate::client::pages::{PAGE, page};
use crate::client::paths::WORKSPACES;
use crate::errors::{Exit, WorkspaceProblem};
use crate::global::Global;
use crate::output::IDENTITY;
use crate::output::format::{first_line, short_id};
use crate::output::relative_time::relative;

/// Runs a command against a server.
pub(crate) fn run_with_global(
    at: &Where,
    global: &Global,
    work: impl FnOnce(&mut Call) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let reach = Reach {
        at: at.clone(),
        json: global.json,
        quiet: global.quiet,
    };
    call::run_on_server(&reach, work)
}

/// Returns the id of a workspace: of the one that the given id, name or prefix
/// means, or of the one that contains the current directory.
pub(crate) fn id_or_here(call: &Call, id: Option<String>) -> anyhow::Result<String> {
    match id {
        Some(text) => find(call, Noun::Workspace, &text),
        None => Ok(workspace_here(call)?.id),
    }
}

/// A workspace as JSON. Like a workspace of a store it has `base`, the snapshot
/// that it was last updated to.
pub(crate) fn workspace_shape(workspace: &api::Workspace) -> serde_json::Result<Value> {
    let mut shape = serde_json::to_value(workspace)?;
    shape["base"] = workspace.synced.as_str().into();
    Ok(shape)
}

/// The name of a workspace's state.
pub(crate) fn workspace_state(workspace: &api::Workspace) -> String {
    match (workspace.state, &workspace.sandbox, &workspace.expires_at) {
        (_, Some(sandbox), _) => format!("in {}", short_id(sandbox)),
        (api::WorkspaceState::Parked, _, Some(at)) => format!("parked, expires {}", relative(at)),
        (api::WorkspaceState::Parked, ..) => "parked".into(),
        (api::WorkspaceState::Live, ..) if workspace.read_only => "read-only".into(),
        (api::WorkspaceState::Live, ..) => "live".into(),
    }
}

/// Returns the workspace that contains the current directory.
pub(crate) fn workspace_here(call: &Call) -> anyhow::Result<api::Workspace> {
    let here = std::env::current_dir()?;
    let found = call.wait(around(&call.client, &here))?;
    found.ok_or_else(|| WorkspaceProblem::NoWorkspaceHere(here).into())
}

/// Finds the workspace that contains a directory.
async fn around(client: &Client, here: &Path) -> Result<Option<api::Workspace>> {
    let is_here = |workspace: &api::Workspace| {
        let path = workspace.path.as_deref().map(PathBuf::from);
        let path = path.map(|path| path.canonicalize().unwrap_or(path));
        path.is_some_and(|path| here.starts_with(path))
    };
    let mut cursor = None::<String>;
    loop {
        let page = page(client, &WORKSPACES, &[], cursor.as_deref(), PAGE).await?;
        if let Some(found) = page.items.into_iter().find(is_here) {
            return Ok(Some(found));
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(None);
        }
    }
}

/// Prints the id of a snapshot that was taken.
pub(crate) fn print_taken(call: &mut Call, taken: &api::SnapshotTaken) -> anyhow::Result<()> {
    if call.output.is_json() {
        return Ok(call.output.value(taken)?);
    }
    if !taken.is_new {
        call.note("nothing has changed since the previous snapshot");
    }
    if !taken.not_kept.is_empty() {
        let not_kept = taken.not_kept.join(", ");
        call.note(&format!("not kept: {}", first_line(&not_kept)));
    }
    let id = call.output.styled(IDENTITY, &taken.id);
    Ok(call.output.line(id)?)
}

/// Prints the directory of a workspace, or its id if it has none.
pub(crate) fn print_workspace(call: &mut Call, workspace: &api::Workspace) -> anyhow::Result<()> {
    if call.output.is_json() {
        return Ok(call.output.value(&workspace_shape(workspace)?)?);
    }
    let shown = workspace.path.as_deref().unwrap_or(&workspace.id);
    Ok(call.output.line(shown)?)
}
