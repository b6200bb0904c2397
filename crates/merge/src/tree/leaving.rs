//! Conflicts that are left to our side, the target of the merge.
//!
//! Our side has the files at hand, so it resolves such a conflict by editing
//! them: a text gets conflict markers, and their version becomes the base of
//! our next changes.

use elevo_core::TreePath;
use elevo_engine::{Attributes, StateTree};
use elevo_objects::{Entry, Mode};

use super::files::{file, merged_mode};
use super::{Conflict, ConflictKind, TreeMerge, agree_at};
use crate::driver::Versions;
use crate::error::Result;
use crate::text::{Labels, MarkerStyle, has_markers, marked};

/// The labels of markers that are written into a workspace.
pub const WORKSPACE_LABELS: Labels<'static> = Labels {
    ours: "this workspace",
    base: "base",
    theirs: "the project",
};

/// A conflict that was left to our side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftConflict {
    /// The path of the conflict.
    pub path: TreePath,
    /// Their version, which is now the base at this path (see
    /// [`TreeMerge::agreed`]); `None` if they have no entry there.
    pub seen: Option<Entry>,
    /// The entry that our side has at the path: its own version, or a text with
    /// markers.
    pub left: Option<Entry>,
    /// Whether the text has markers.
    pub marked: bool,
}

/// Whether a file still has markers that [`TreeMerge::leave`] wrote.
pub fn has_workspace_markers(content: &[u8]) -> bool {
    has_markers(content, &WORKSPACE_LABELS)
}

impl Conflict {
    /// Whether the conflict can be left to one side: a conflict of single files
    /// or links that did not move. A directory has too much in it for one
    /// decision.
    pub fn can_be_left(&self) -> bool {
        let is_directory = |entry: &Option<Entry>| matches!(entry, Some(Entry::Directory { .. }));
        let entries = [&self.base, &self.ours, &self.theirs];
        let kind = matches!(
            self.kind,
            ConflictKind::Content
                | ConflictKind::BothAdded
                | ConflictKind::RemovedByUs
                | ConflictKind::RemovedByThem
                | ConflictKind::Kind
                | ConflictKind::TooLarge
        );
        kind && self.from.is_none() && !entries.into_iter().any(is_directory)
    }
}

impl TreeMerge {
    /// Leaves a conflict of this merge to our side: a text of at most `limit`
    /// bytes gets markers, everything else keeps our version. Their version
    /// becomes the agreed version, so the caller must record that the conflict
    /// is unresolved, as long as our side has the entry that this call leaves.
    pub async fn leave(
        &mut self,
        conflict: &Conflict,
        theirs: &StateTree,
        limit: u64,
    ) -> Result<LeftConflict> {
        let path = &conflict.path;
        let marked = match self.mergeable(conflict, limit) {
            Some(mode) => self.write_markers(conflict, mode).await?,
            None => false,
        };
        self.adopt(conflict, theirs).await?;
        Ok(LeftConflict {
            path: path.clone(),
            seen: conflict.theirs.clone(),
            left: self.tree.entry(path).await?,
            marked,
        })
    }

    /// Makes their version of a conflict the agreed version.
    pub async fn adopt(&mut self, conflict: &Conflict, theirs: &StateTree) -> Result<()> {
        let entry = conflict.theirs.as_ref();
        agree_at(&self.agreed, theirs, &conflict.path, entry).await
    }

    /// Returns the merged mode of two conflicting files; `None` if a side is
    /// not a file, or a version exceeds `limit` bytes.
    fn mergeable(&self, conflict: &Conflict, limit: u64) -> Option<Mode> {
        let (ours, our_mode) = file(&conflict.ours)?;
        let (theirs, their_mode) = file(&conflict.theirs)?;
        let base = file(&conflict.base);
        let sizes = [Some(ours), Some(theirs), base.map(|(content, _)| content)];
        let largest = sizes.into_iter().flatten().map(|content| content.size());
        let fits = largest.max() <= Some(limit);
        fits.then(|| merged_mode(base.map(|(_, mode)| mode), our_mode, their_mode))
    }

    /// Writes a text with markers. Returns false if no markers were written:
    /// because a version is binary, because a side already has such markers, or
    /// because the sides do not conflict line by line.
    async fn write_markers(&mut self, conflict: &Conflict, mode: Mode) -> Result<bool> {
        let path = &conflict.path;
        let repository = self.tree.repository().clone();
        let base = match &conflict.base {
            Some(entry @ Entry::File { .. }) => Some(repository.bytes(entry).await?),
            _ => None,
        };
        let ours = self.tree.read(path).await?;
        let theirs = match &conflict.theirs {
            Some(entry) => repository.bytes(entry).await?,
            None => return Ok(false),
        };
        let versions = Versions {
            base: base.as_deref(),
            ours: &ours,
            theirs: &theirs,
        };
        self.tree.set_mode(path, mode).await?;
        if has_workspace_markers(&ours) || has_workspace_markers(&theirs) {
            return Ok(false);
        }
        let Some(text) = marked(&versions, &WORKSPACE_LABELS, MarkerStyle::Zdiff3) else {
            return Ok(false);
        };
        if !has_workspace_markers(&text) {
            return Ok(false);
        }
        let attributes = Attributes {
            mode: Some(mode),
            modified: None,
        };
        self.tree.write(path, text.into(), attributes).await?;
        Ok(true)
    }
}
