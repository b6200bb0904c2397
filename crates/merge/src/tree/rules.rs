//! What a merge may do, and how it settles what both sides changed.

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
    /// What their agent may do.
    pub view: &'a View,
    /// How conflicts are settled.
    pub policy: &'a Compiled,
    /// Whether somebody has decided that the changes land: then paths are not
    /// protected, and nothing is local.
    pub decided: bool,
    /// Whether what no driver can merge is a conflict, instead of the later one
    /// winning.
    pub careful: bool,
    /// How conflicts are settled instead, where no path is protected.
    pub instead: Option<Strategy>,
    /// Who goes before whom.
    pub precedence: &'a dyn Precedence,
    /// Paths where theirs has not settled a conflict yet: a change of one is a
    /// conflict, with any base.
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

    /// Whether the policy says that a path is never merged.
    pub(super) fn is_local(&self, path: &TreePath, is_directory: bool) -> bool {
        !self.decided && self.policy.local().always(path, is_directory)
    }

    /// Whether what `.gitignore` files name is not merged.
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

/// Knows who goes before whom.
#[async_trait]
pub trait Precedence: fmt::Debug + Send + Sync {
    /// Whether theirs goes before whoever made what ours has at `path`; `None`
    /// if neither goes before the other.
    async fn theirs_first(&self, path: &TreePath) -> Result<Option<bool>>;
}

/// Nobody goes before anybody: the later one wins.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaterFirst;

#[async_trait]
impl Precedence for LaterFirst {
    async fn theirs_first(&self, _: &TreePath) -> Result<Option<bool>> {
        Ok(None)
    }
}

/// How much a merge may take on.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Changes that are looked at one by one.
    pub changes: u64,
    /// Bytes of a file that is merged by content.
    pub file_bytes: u64,
    /// A new or removed directory with more entries is taken whole, where
    /// nothing in it needs a look.
    pub whole: u64,
    /// Whether what moved without being changed is followed.
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
