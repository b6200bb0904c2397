//! Finds workspaces of projects on a server.

use std::path::{Path, PathBuf};

use elevo_api as api;

use crate::client::call::{self, Call, pages};
use crate::client::find::{Reach, Where};
use crate::client::paths::WORKSPACES;
use crate::errors::{Exit, WorkspaceProblem};
use crate::global::Global;

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

/// Returns the id of the workspace: the given one, or that of the workspace that
/// contains the current directory.
pub(crate) fn id_or_here(call: &mut Call, id: Option<String>) -> anyhow::Result<String> {
    match id {
        Some(id) => Ok(id),
        None => around(call, &std::env::current_dir()?),
    }
}

/// Finds the workspace that contains a directory.
fn around(call: &mut Call, here: &Path) -> anyhow::Result<String> {
    let mut found = None;
    pages(call, &WORKSPACES, &[], |_, page: api::WorkspacePage| {
        let is_here = |workspace: &&api::Workspace| {
            let path = workspace.path.as_deref().map(PathBuf::from);
            let path = path.map(|path| path.canonicalize().unwrap_or(path));
            path.is_some_and(|path| here.starts_with(path))
        };
        let around = page.items.iter().find(is_here);
        found = found
            .take()
            .or(around.map(|workspace| workspace.id.clone()));
        let next = page.next.filter(|_| found.is_none());
        Ok((page.items.len(), next))
    })?;
    found.ok_or_else(|| WorkspaceProblem::NoWorkspaceHere(here.into()).into())
}
