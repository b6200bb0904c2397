//! A policy as it is stored and as it goes over the wire.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What an agent may do with a path; each allows all that those before it do.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Access {
    /// Nothing: the path is not there for the agent.
    #[serde(rename = "none")]
    None,
    /// Read.
    #[serde(rename = "r")]
    Read,
    /// Read, and create what is not there yet.
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
    /// As it is written in a policy.
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

/// How two changes of one file become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// By the file's name and content.
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
    /// As [`Strategy::Auto`]; where both changed the same, the later change
    /// wins.
    LastWriter,
    /// As [`Strategy::Auto`]; where both changed the same, the change of the
    /// agent with the higher priority wins.
    Priority,
    /// Every change is held for review, even if nothing else touched the file.
    Review,
}

impl Strategy {
    /// All there are, the most careful first: those that ask, those that ask
    /// when they must, those that give up a change.
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

    /// As it is written in a policy.
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

    /// The smaller, the more careful.
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

/// What holds for the paths of one pattern.
///
/// With neither `agents` nor `roles` it is for everyone; with both, for each
/// that one of them names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// Which paths: a glob; what it matches is covered with all that is below.
    pub pattern: String,
    /// Only for these agents, by id or name; an agent that does not exist is
    /// refused, and names are stored as ids. An empty list is refused, so that
    /// a rule does not become everyone's by losing its last agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
    /// Only for agents with one of these roles. An empty list is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,
    /// What may be done there; without it, the rule takes no part in that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// How conflicts there are settled, the same for everyone; without it, the
    /// rule takes no part in that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Strategy>,
}

impl Rule {
    /// Whether it names nobody, and so is for all.
    pub fn is_for_everyone(&self) -> bool {
        self.agents.is_none() && self.roles.is_none()
    }
}

/// What a policy knows of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Member {
    /// Names that rules can be for.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Whose change wins where the strategy is [`Strategy::Priority`]: the higher.
    #[serde(default)]
    pub priority: i32,
}

/// Who may do what in a project, and how what they did is merged.
///
/// The default allows everything to everyone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policy {
    /// Their order does not matter: the most specific pattern holds.
    pub rules: Vec<Rule>,
    /// Access where no rule holds.
    pub default: Access,
    /// Roles and priorities, by the agent's id or name; an agent that does not
    /// exist is refused, and names are stored as ids. An agent that is not here
    /// has no role and the priority 0.
    pub members: BTreeMap<String, Member>,
    /// What is never merged: patterns as in a `.gitignore`.
    pub local: Vec<String>,
    /// Whether what `.gitignore` files name is never merged either.
    pub gitignore: bool,
    /// Strategies that somebody who asks for a merge may choose instead of the
    /// policy's own.
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
