//! Paths of a workspace that a policy excludes from merges.

use elevo_core::{RESERVED_NAME, TreePath};

use crate::ignores::List;
use crate::view::names_of;

/// The local paths of a policy: those that match its patterns, and `.git` and
/// `.elevo` in every directory.
#[derive(Clone, Debug, Default)]
pub struct Local(List);

/// Names that are never merged.
const NEVER: [&[u8]; 2] = [b".git", RESERVED_NAME];

impl Local {
    pub(crate) fn new(list: List) -> Self {
        Self(list)
    }

    /// Returns whether a path is never merged, regardless of `.gitignore` files.
    pub fn always(&self, path: &TreePath, is_directory: bool) -> bool {
        let names = names_of(path);
        if names.iter().any(|name| NEVER.contains(name)) {
            return true;
        }
        (1..=names.len()).any(|length| {
            let is_directory = is_directory || length < names.len();
            self.0.ignores(&names[..length], is_directory) == Some(true)
        })
    }
}
