//! Paths that are never merged: those that the policy declares local or that
//! `.gitignore` files name.

use std::collections::HashSet;

use elevo_core::TreePath;
use elevo_engine::StateTree;
use elevo_objects::Entry;
use elevo_policy::{Ignores, MAX_IGNORE_BYTES};

use super::{Rules, Three, is_directory};
use crate::error::Result;

/// Maximum number of directories to remember; beyond it, some are read again.
const MAX_READ: usize = 50_000;

pub(super) struct Locals<'a> {
    rules: &'a Rules<'a>,
    theirs: StateTree,
    ignores: Ignores,
    /// Directories whose `.gitignore` has been read.
    read: HashSet<TreePath>,
}

impl<'a> Locals<'a> {
    pub(super) fn new(rules: &'a Rules<'a>, theirs: StateTree) -> Self {
        Self {
            rules,
            theirs,
            ignores: Ignores::new(),
            read: HashSet::new(),
        }
    }

    /// Whether a change is never merged. As in git, existing files are not
    /// ignored.
    pub(super) async fn is_local(&mut self, path: &TreePath, three: &Three) -> Result<bool> {
        let is_directory = is_directory(&three.theirs) || is_directory(&three.base);
        if self.rules.is_local(path, is_directory) {
            return Ok(true);
        }
        if !self.rules.follows_gitignore() || three.base.is_some() || three.ours.is_some() {
            return Ok(false);
        }
        self.ignored(path, is_directory).await
    }

    pub(super) async fn ignored(&mut self, path: &TreePath, is_directory: bool) -> Result<bool> {
        self.read_above(path).await?;
        Ok(self.ignores.ignores(path, is_directory))
    }

    /// Reads the `.gitignore` of every directory above `path`, outermost first.
    async fn read_above(&mut self, path: &TreePath) -> Result<()> {
        if self.read.len() > MAX_READ {
            self.read.clear();
        }
        let mut above = Vec::new();
        let mut at = path.clone();
        while let Some((parent, _)) = at.split_last() {
            if self.read.contains(&parent) {
                break;
            }
            above.push(parent.clone());
            at = parent;
        }
        for directory in above.into_iter().rev() {
            let file = ignore_file(&directory)?;
            if let Some(Entry::File { content, .. }) = self.theirs.entry(&file).await?
                && content.size() <= MAX_IGNORE_BYTES as u64
            {
                let content = self.theirs.read(&file).await?;
                // Rules beyond the total limit have no effect.
                let _ = self.ignores.add(&directory, &content);
            }
            self.read.insert(directory);
        }
        Ok(())
    }
}

fn ignore_file(directory: &TreePath) -> Result<TreePath> {
    let mut path = directory.as_bytes().to_vec();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(b".gitignore");
    Ok(TreePath::new(path).map_err(elevo_engine::Error::from)?)
}
