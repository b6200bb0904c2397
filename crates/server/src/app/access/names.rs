//! Names of agents, sandboxes and workspaces: checks new names, and finds the
//! record that an id or a name in a request means.
//!
//! A name is never shaped like an id, so an id always means the record with
//! that id. A record that the principal may not see is not found by its name
//! either.

use std::sync::Arc;

use elevo_catalog::{Agent, Catalog, Sandbox};
use elevo_core::{AgentId, ErrorCode, Id, ProjectId, SandboxId, WorkspaceId, is_id_text};

use crate::app::access::principal::Principal;
use crate::app::missing::{no_agent, no_workspace};
use crate::failure::{Failure, Result, short};

/// The prefixes of all ids.
const PREFIXES: [&str; 9] = [
    "agt-", "cmd-", "key-", "prj-", "pty-", "rev-", "sbx-", "wh-", "ws-",
];

/// Words that stand in place of an id or a name in a route.
const ROUTE_WORDS: [&str; 14] = [
    "batch",
    "batch-delete",
    "diff",
    "events",
    "export",
    "files",
    "head",
    "import",
    "last",
    "merge",
    "resolve",
    "search",
    "start",
    "watch",
];

/// Checks the name of a new record.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let good = !name.trim().is_empty() && name.chars().count() <= 100;
    if !good || name.chars().any(char::is_control) {
        return Err(Failure::invalid(
            "`name` must have 1 to 100 characters, none of them a control character",
        ));
    }
    let is_hash = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let why = if is_hash || PREFIXES.iter().any(|prefix| is_id_text(prefix, name)) {
        "it has the form of an id"
    } else if ROUTE_WORDS.contains(&name) || name == "." || name == ".." {
        "it is part of a path of the API"
    } else {
        return Ok(());
    };
    let message = format!("`{}` is not a valid name: {why}", short(name));
    Err(Failure::invalid(message).remediation("Choose another name."))
}

/// Minimum digits of an abbreviated snapshot id.
const DIGITS: usize = 6;

/// Returns why a text cannot be a tag or the name of a snapshot: both stand in
/// the place of a snapshot id.
pub(crate) fn problem_of_version(name: &str) -> Option<&'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > 100 {
        Some("it must have 1 to 100 characters")
    } else if !name.bytes().all(is_plain) {
        Some("it may have only letters, digits, `.`, `_` and `-`")
    } else if !name.as_bytes()[0].is_ascii_alphanumeric() {
        Some("it must begin with a letter or a digit")
    } else if name.len() >= DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Some("it could be the first digits of a snapshot id")
    } else {
        None
    }
}

/// Finds records by id or name.
pub(crate) struct Names {
    catalog: Arc<dyn Catalog>,
}

impl Names {
    pub(crate) fn new(catalog: Arc<dyn Catalog>) -> Self {
        Self { catalog }
    }

    /// Returns the id of the sandbox that a text means. Does not check whether
    /// there is a sandbox with an id.
    pub(crate) async fn sandbox(&self, who: &Principal, text: &str) -> Result<SandboxId> {
        if let Some(id) = complete::<SandboxId>(text) {
            return Ok(id);
        }
        let found = self.catalog.sandbox_by_name(who.tenant, text).await?;
        match found.filter(|sandbox| who.sees_agent(sandbox.agent.as_ref())) {
            Some(Sandbox { id, .. }) => Ok(id),
            None => text.parse().map_err(|_| Failure::no_sandbox(text)),
        }
    }

    /// Returns the id of the workspace that a text means: an id, the name of a
    /// workspace, or the name of the sandbox that the workspace is in. Does not
    /// check whether there is a workspace with an id.
    pub(crate) async fn workspace(&self, who: &Principal, text: &str) -> Result<WorkspaceId> {
        self.find_workspace(who, None, text).await
    }

    /// Like [`workspace`](Self::workspace), but a name means a workspace of this
    /// project.
    pub(crate) async fn workspace_on(
        &self,
        who: &Principal,
        project: &ProjectId,
        text: &str,
    ) -> Result<WorkspaceId> {
        self.find_workspace(who, Some(project), text).await
    }

    async fn find_workspace(
        &self,
        who: &Principal,
        project: Option<&ProjectId>,
        text: &str,
    ) -> Result<WorkspaceId> {
        let is_id = complete::<WorkspaceId>(text).or_else(|| {
            // The workspace of a sandbox can have the id of the sandbox.
            let id = complete::<SandboxId>(text)?;
            id.parse().ok()
        });
        if let Some(id) = is_id {
            return Ok(id);
        }
        let found = self.catalog.workspaces_by_name(who.tenant, text).await?;
        let found = found
            .into_iter()
            .filter(|workspace| who.sees_agent(workspace.agent.as_ref()))
            .filter(|workspace| project.is_none() || workspace.project.as_ref() == project);
        // The workspace of the sandbox with this name may have another name, or
        // none.
        let sandbox = self.catalog.sandbox_by_name(who.tenant, text).await?;
        let sandbox = sandbox.filter(|sandbox| who.sees_agent(sandbox.agent.as_ref()));
        let mut ids: Vec<WorkspaceId> = found.map(|it| it.id).collect();
        if let Some(sandbox) = sandbox {
            let row = self
                .catalog
                .workspace(who.tenant, &sandbox.workspace)
                .await?;
            let on = row.and_then(|row| row.project);
            if project.is_none() || on.as_ref() == project {
                ids.push(sandbox.workspace);
            }
        }
        ids.sort();
        ids.dedup();
        if ids.len() > 1 {
            let message = format!("`{}` is the name of {} workspaces", short(text), ids.len());
            let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
            return Err(Failure::new(ErrorCode::NameAmbiguous, message).about("workspaces", ids));
        }
        match ids.pop() {
            Some(only) => Ok(only),
            None => text.parse().map_err(|_| no_workspace(text)),
        }
    }

    /// Returns the agent that a text means.
    pub(crate) async fn agent(&self, who: &Principal, text: &str) -> Result<Agent> {
        let mut found = match text.parse::<AgentId>() {
            Ok(id) => self.catalog.agent(who.tenant, &id).await?,
            Err(_) => None,
        };
        if found.is_none() {
            found = self.catalog.agent_by_name(who.tenant, text).await?;
        }
        let found = found.filter(|agent| who.sees_agent(Some(&agent.id)));
        found.ok_or_else(|| no_agent(text))
    }
}

/// Parses a complete id, which no name has the form of.
fn complete<I: Id>(text: &str) -> Option<I> {
    match is_id_text(I::PREFIX, text) {
        true => text.parse().ok(),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_neither_the_form_of_an_id_nor_of_a_route() {
        for good in ["site", "sbx-1", "rev-notes", "ada lovelace", "añb", "a/b"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let hash = "0".repeat(64);
        for bad in [
            "",
            " ",
            "a\nb",
            "sbx-abcdefghijkmnpqr",
            "batch-delete",
            "..",
            &hash,
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
