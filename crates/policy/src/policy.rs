//! A policy as it is stored and sent.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The access of an agent to a path: `none` (the path is hidden), `r` (read),
/// `ra` (read and create), `rw-` (read, create and change) or `rw` (read,
/// create, change and remove).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Access {
    /// No access: the path is hidden from the agent.
    #[serde(rename = "none")]
    None,
    /// Read.
    #[serde(rename = "r")]
    Read,
    /// Read, and create paths that do not exist yet.
    #[serde(rename = "ra")]
    Append,
    /// Read, create and change, but not remove.
    #[serde(rename = "rw-")]
    Write,
    /// Everything.
    #[default]
    #[serde(rename = "rw")]
    Full,
}

impl Access {
    /// Returns the value as it is written in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "r",
            Self::Append => "ra",
            Self::Write => "rw-",
            Self::Full => "rw",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The way to merge two changes to one file. `auto` chooses by the name and
/// content of the file. `last-writer` and `priority` merge like `auto`, and let
/// the later change or the agent with the higher priority win where both
/// changed the same part. `review` holds every change for review.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Chosen by the file's name and content.
    #[default]
    Auto,
    /// Line by line; lines that both changed are held for review.
    Text,
    /// Key by key, as JSON.
    Json,
    /// Key by key, as YAML.
    Yaml,
    /// Key by key, as TOML.
    Toml,
    /// By rules that never conflict: counters add up, lists are united.
    Crdt,
    /// As [`Strategy::Auto`]; where both changed the same part, the later change
    /// wins.
    LastWriter,
    /// As [`Strategy::Auto`]; where both changed the same part, the change of the
    /// agent with the higher priority wins.
    Priority,
    /// Every change is held for review, even if nothing else changed the file.
    Review,
}

impl Strategy {
    /// All strategies, the most careful first: first the one that always asks,
    /// then those that ask if necessary, then those that discard a change.
    pub(crate) const CAREFUL_FIRST: [Self; 9] = [
        Self::Review,
        Self::Auto,
        Self::Text,
        Self::Json,
        Self::Yaml,
        Self::Toml,
        Self::Crdt,
        Self::Priority,
        Self::LastWriter,
    ];

    /// Returns the name as it is written in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Toml => "toml",
            Self::Crdt => "crdt",
            Self::LastWriter => "last-writer",
            Self::Priority => "priority",
            Self::Review => "review",
        }
    }

    /// Returns a rank: the smaller, the more careful.
    pub(crate) fn carelessness(self) -> usize {
        let place = Self::CAREFUL_FIRST.iter().position(|other| *other == self);
        place.unwrap_or_else(|| unreachable!("all strategies are listed"))
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rule for the paths of one pattern.
///
/// A rule with neither `agents` nor `roles` applies to everyone. A rule with
/// both applies to every agent that is in `agents` or has one of the `roles`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// A glob for paths; it covers everything below a match.
    pub pattern: String,
    /// Agents that the rule applies to, by id or name. A policy with an unknown
    /// agent or an empty list is rejected, and names are stored as ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
    /// Roles that the rule applies to: every agent with at least one of them.
    /// An empty list is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,
    /// Access to the paths. A rule without `access` has no effect on access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Strategy for conflicts at the paths. A rule without `merge` has no
    /// effect on conflicts. A rule with `merge` must have neither `agents` nor
    /// `roles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Strategy>,
}

impl Rule {
    /// Returns whether the rule applies to everyone.
    pub fn is_for_everyone(&self) -> bool {
        self.agents.is_none() && self.roles.is_none()
    }
}

/// Roles and priority of an agent in a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Member {
    /// Roles of the agent. A rule can apply to all agents with a role.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Where the strategy is `priority`, the change of the agent with the
    /// higher priority wins.
    #[serde(default)]
    pub priority: i32,
}

/// Access of agents to the paths of a project, and how their changes are merged.
///
/// The default policy gives everyone full access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policy {
    /// Rules, in any order. Of the rules that cover a path, the rule with the
    /// most specific pattern applies.
    pub rules: Vec<Rule>,
    /// Access where no rule applies.
    pub default: Access,
    /// Roles and priorities of agents, by the agent's id or name. A policy with
    /// an unknown agent is rejected, and names are stored as ids. An agent that
    /// is not listed has no roles and priority 0.
    pub members: BTreeMap<String, Member>,
    /// Paths that are never merged: patterns as in a `.gitignore`.
    pub local: Vec<String>,
    /// Whether merges also leave out new paths that `.gitignore` files name.
    pub gitignore: bool,
    /// Strategies that the caller of a merge may choose instead of the policy's
    /// strategy.
    pub overrides: Vec<Strategy>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            default: Access::Full,
            members: BTreeMap::new(),
            local: Vec::new(),
            gitignore: true,
            overrides: Vec::new(),
        }
    }
}
