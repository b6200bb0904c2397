//! Resolves names and prefixes of ids to ids, and ids of agents to names.

use std::collections::HashMap;

use elevo_api as api;
use elevo_core::ErrorCode;
use serde::Deserialize;

use crate::client::call::Call;
use crate::client::error::Result;
use crate::client::http::Client;
use crate::client::pages::items;
use crate::client::paths::{AGENTS, KEYS, PROJECTS, REVIEWS, SANDBOXES, WEBHOOKS, WORKSPACES};
use crate::errors::{Exit, NameProblem};
use crate::output::format::first_line;

/// Letters of an id after its prefix.
const LETTERS: usize = 16;

/// Minimum letters of an abbreviated id without its prefix.
const LEAST: usize = 4;

/// Maximum number of resources that a name is looked up in.
const MOST: usize = 10_000;

/// A kind of resource that has ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noun {
    Agent,
    Key,
    Project,
    Review,
    Sandbox,
    /// A webhook, whose name is its URL.
    Webhook,
    Workspace,
}

impl Noun {
    /// The word for the resource in messages.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Key => "key",
            Self::Project => "project",
            Self::Review => "review",
            Self::Sandbox => "sandbox",
            Self::Webhook => "webhook",
            Self::Workspace => "workspace",
        }
    }

    const fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Agent => &["agt-"],
            Self::Key => &["key-"],
            Self::Project => &["prj-"],
            Self::Review => &["rev-"],
            Self::Sandbox => &["sbx-"],
            Self::Webhook => &["wh-"],
            // The workspace of a sandbox has the id of the sandbox.
            Self::Workspace => &["ws-", "sbx-"],
        }
    }

    /// The letters of an id, or of the beginning of one.
    fn letters(self, text: &str) -> Option<&str> {
        let mut prefixes = self.prefixes().iter();
        prefixes.find_map(|prefix| text.strip_prefix(prefix))
    }

    fn is_id(self, text: &str) -> bool {
        self.letters(text)
            .is_some_and(|letters| letters.len() == LETTERS)
    }

    /// Whether `text` abbreviates `id`.
    fn abbreviates(self, text: &str, id: &str) -> bool {
        match self.letters(text) {
            Some(letters) => !letters.is_empty() && id.starts_with(text),
            None => {
                let letters = self.letters(id).unwrap_or(id);
                text.len() >= LEAST && letters.starts_with(text)
            }
        }
    }
}

/// A resource that a text may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    id: String,
    name: Option<String>,
}

/// Returns the id of the resource that `text` means: an id, a name, or a unique
/// prefix of an id. Returns `text` if there is no such resource, because the
/// server's error describes that best.
pub(crate) fn find(call: &Call, noun: Noun, text: &str) -> anyhow::Result<String> {
    // The API accepts names of projects.
    let is_known = noun == Noun::Project && noun.letters(text).is_none();
    if is_known || noun.is_id(text) {
        return Ok(text.to_owned());
    }
    let found = match call.wait(matching(&call.client, noun, text)) {
        Ok(found) => found,
        // The key may use resources of this kind, but not list them.
        Err(error) if error.code() == Some(ErrorCode::Forbidden) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    Ok(choose(noun, text, found)?.unwrap_or_else(|| text.to_owned()))
}

/// Like [`find`], for a request that does not fail if there is no such resource.
/// A complete id is not checked: the resource may have been deleted.
pub(crate) fn find_known(call: &Call, noun: Noun, text: &str) -> anyhow::Result<String> {
    if noun.is_id(text) {
        return Ok(text.to_owned());
    }
    let found = call.wait(matching(&call.client, noun, text))?;
    let chosen = choose(noun, text, found)?;
    chosen.ok_or_else(|| {
        let (noun, text) = (noun.word(), text.to_owned());
        NameProblem::Unknown { noun, text }.into()
    })
}

/// Like [`find`], for an optional text.
pub(crate) fn find_some(
    call: &Call,
    noun: Noun,
    text: Option<&String>,
) -> anyhow::Result<Option<String>> {
    text.map(|text| find(call, noun, text)).transpose()
}

/// Deletes the resources that the texts mean, and prints the result of each.
/// Returns the exit code of [`Call::each`].
pub(crate) fn delete_found(
    call: &mut Call,
    noun: Noun,
    texts: &[String],
    done: &str,
) -> anyhow::Result<Exit> {
    let kind = format!("{}s", noun.word());
    call.each(texts, |call, text| {
        let id = find(call, noun, text)?;
        call.delete(&kind, &id, done)
    })
}

/// Chooses among the resources whose name or id matches. A name takes precedence.
fn choose(
    noun: Noun,
    text: &str,
    found: Vec<Candidate>,
) -> std::result::Result<Option<String>, NameProblem> {
    let is_named = |it: &Candidate| it.name.as_deref() == Some(text);
    let (named, abbreviated): (Vec<_>, Vec<_>) = found.into_iter().partition(is_named);
    let mut found = match named.is_empty() {
        true => abbreviated,
        false => named,
    };
    match found.len() {
        0 | 1 => Ok(found.pop().map(|only| only.id)),
        _ => Err(NameProblem::Ambiguous {
            noun: noun.word(),
            text: text.to_owned(),
            candidates: found.into_iter().map(described).collect(),
        }),
    }
}

/// The id and name of a candidate.
fn described(candidate: Candidate) -> (String, Option<String>) {
    let name = candidate.name;
    let name = name.map(|name| first_line(&name).into_owned());
    (first_line(&candidate.id).into_owned(), name)
}

/// Returns the resources whose name is `text`, or whose id begins with it.
async fn matching(client: &Client, noun: Noun, text: &str) -> Result<Vec<Candidate>> {
    let mut found = all(client, noun).await?;
    found.retain(|it| it.name.as_deref() == Some(text) || noun.abbreviates(text, &it.id));
    Ok(found)
}

async fn all(client: &Client, noun: Noun) -> Result<Vec<Candidate>> {
    let path: &[&str] = match noun {
        Noun::Agent => &AGENTS,
        Noun::Key => &KEYS,
        Noun::Project => &PROJECTS,
        Noun::Review => &REVIEWS,
        Noun::Sandbox => &SANDBOXES,
        Noun::Webhook => &WEBHOOKS,
        Noun::Workspace => &WORKSPACES,
    };
    let found: Vec<Listed> = items(client, path, &[], MOST).await?;
    let valid = found.into_iter().filter(|it| it.revoked_at.is_none());
    let candidates = valid.map(|it| Candidate {
        id: it.id,
        name: it.name.or(it.url),
    });
    Ok(candidates.collect())
}

/// The fields of a resource that name it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    id: String,
    name: Option<String>,
    /// The URL of a webhook, which is its name.
    url: Option<String>,
    /// When a key was revoked.
    revoked_at: Option<String>,
}

/// Names of agents by id.
#[derive(Debug, Default)]
pub(crate) struct AgentNames(HashMap<String, String>);

impl AgentNames {
    /// Requests the names. Without the scope `keys` there are none, and ids are
    /// shown.
    pub(crate) fn request(call: &Call) -> Self {
        let listed = call.wait(items::<api::Agent>(&call.client, &AGENTS, &[], MOST));
        let agents = listed.unwrap_or_default().into_iter();
        Self(agents.map(|it| (it.id, it.name)).collect())
    }

    /// Returns the name of an agent, or its id if the name is unknown.
    pub(crate) fn of(&self, id: &str) -> String {
        self.0.get(id).cloned().unwrap_or_else(|| id.to_owned())
    }

    /// Like [`of`](Self::of), with `-` for no agent.
    pub(crate) fn or_dash(&self, id: Option<&str>) -> String {
        id.map_or_else(|| "-".into(), |id| self.of(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: &str, name: &str) -> Candidate {
        Candidate {
            id: id.into(),
            name: Some(name.into()),
        }
    }

    #[test]
    fn a_name_takes_precedence_over_an_abbreviated_id() {
        let found = vec![candidate("ws-site1", "x"), candidate("ws-abcd", "site")];
        let chosen = choose(Noun::Workspace, "site", found).unwrap();
        assert_eq!(chosen.as_deref(), Some("ws-abcd"));
    }

    #[test]
    fn an_ambiguous_name_lists_the_candidates() {
        let found = vec![candidate("ws-1", "try"), candidate("ws-2", "try")];
        let error = choose(Noun::Workspace, "try", found).unwrap_err();
        let text = error.to_string();
        assert_eq!(text, "`try` is ambiguous: it names 2 workspaces");
    }

    #[test]
    fn an_id_is_abbreviated_with_and_without_its_prefix() {
        let noun = Noun::Review;
        let id = "rev-6smieyru3jc5zy2e";
        assert!(noun.is_id(id) && !noun.is_id("rev-6smi"));
        for text in ["rev-6", "rev-6smieyru", "6smi"] {
            assert!(noun.abbreviates(text, id), "{text}");
        }
        for text in ["rev-", "6sm", "rev-7", "smie", ""] {
            assert!(!noun.abbreviates(text, id), "{text}");
        }
    }
}
