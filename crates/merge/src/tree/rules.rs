//! The permissions of a merge, and its resolution of conflicts.

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;
use elevo_core::TreePath;
use elevo_objects::Entry;
use elevo_policy::{Access, Compiled, Doing, Refusal, Strategy, View};

use crate::error::Result;

/// The rules of one merge.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The rights of their agent.
    pub view: &'a View,
    /// The policy that resolves conflicts.
    pub policy: &'a Compiled,
    /// Whether a decision was made to land the changes. If so, no path is
    /// protected or local.
    pub decided: bool,
    /// Whether a file that no driver can merge is a conflict. If not, the later
    /// version wins.
    pub careful: bool,
    /// Strategy that replaces the policy's strategy for paths that are not
    /// protected.
    pub instead: Option<Strategy>,
    /// The priority of agents.
    pub precedence: &'a dyn Precedence,
    /// Paths where theirs has not resolved a conflict yet. At such a path, a
    /// change of theirs that differs from ours is a conflict, independent of
    /// the base.
    pub unsettled: &'a BTreeSet<TreePath>,
}

impl Rules<'_> {
    pub(super) fn strategy(&self, path: &TreePath) -> Strategy {
        match self.policy.strategy(path) {
            Strategy::Review | Strategy::Priority | Strategy::LastWriter if self.decided => {
                Strategy::Auto
            }
            Strategy::Review => Strategy::Review,
            strategy => self.instead.unwrap_or(strategy),
        }
    }

    /// Whether their agent sees neither a directory nor anything that could be
    /// in it.
    pub(super) fn hides_all_of(&self, directory: &TreePath) -> bool {
        self.view.access(directory) == Access::None
            && self.view.uniform(directory) == Some(Access::None)
    }

    /// Whether the policy excludes a path from merges.
    pub(super) fn is_local(&self, path: &TreePath, is_directory: bool) -> bool {
        !self.decided && self.policy.local().always(path, is_directory)
    }

    /// Whether `.gitignore` files exclude paths from merges.
    pub(super) fn follows_gitignore(&self) -> bool {
        !self.decided && self.policy.follows_gitignore()
    }

    pub(super) fn check(
        &self,
        path: &TreePath,
        base: Option<&Entry>,
        theirs: Option<&Entry>,
    ) -> std::result::Result<(), Refusal> {
        let doing = match (base, theirs) {
            (None, _) => Doing::Create,
            (Some(_), None) => Doing::Remove,
            (Some(base), Some(theirs)) if is_same_kind(base, theirs) => Doing::Change,
            (Some(_), Some(_)) => Doing::Remove,
        };
        self.view.check(path, doing)
    }
}

fn is_same_kind(one: &Entry, other: &Entry) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

/// Compares the priorities of agents.
#[async_trait]
pub trait Precedence: fmt::Debug + Send + Sync {
    /// Whether the agent of theirs has priority over the agent that made ours
    /// at `path`; `None` if neither agent has priority.
    async fn theirs_first(&self, path: &TreePath) -> Result<Option<bool>>;
}

/// A precedence in which no agent has priority.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaterFirst;

#[async_trait]
impl Precedence for LaterFirst {
    async fn theirs_first(&self, _: &TreePath) -> Result<Option<bool>> {
        Ok(None)
    }
}

/// Limits of a merge.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of changes that are merged one by one.
    pub changes: u64,
    /// Maximum size in bytes of a file that is merged by content.
    pub file_bytes: u64,
    /// A new or removed directory with more entries than this limit is taken as
    /// a whole, if no entry in it needs a separate check or decision.
    pub whole: u64,
    /// Whether renames of unchanged files are followed.
    pub renames: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            changes: 500_000,
            file_bytes: elevo_engine::DEFAULT_MAX_TEXT_BYTES,
            whole: 1000,
            renames: false,
        }
    }
}
