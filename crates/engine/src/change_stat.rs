//! The extent of a change: the lines added and removed, whether the files are
//! text, and their sizes. A [`Diff`](crate::Diff) does not count lines, because
//! that requires reading the files.

use elevo_objects::{Content, Entry};
use gix_imara_diff::sources::byte_lines;

use crate::diff::{Change, ChangeKind};
use crate::error::Result;
use crate::lines::{LineBudget, TwoTexts};
use crate::repository::Repository;
use crate::text::Side;

/// A change and its extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeStat {
    /// The change itself.
    pub change: Change,
    /// Whether the lines were counted: every file involved is text, and no
    /// larger than the limit. A link counts as one line, its target. `false`
    /// where only directories are involved.
    pub text: bool,
    /// Lines that only the second tree has; 0 unless [`Self::text`].
    pub lines_added: u64,
    /// Lines that only the first tree has; 0 unless [`Self::text`].
    pub lines_removed: u64,
    /// Size of the file or of the link's target in the first tree.
    pub bytes_before: u64,
    /// Size of the file or of the link's target in the second tree.
    pub bytes_after: u64,
}

/// Sums over the changes of a diff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeStatTotals {
    /// Entries that only the second tree has.
    pub added: u64,
    /// Entries that only the first tree has.
    pub removed: u64,
    /// Files and links with other content.
    pub modified: u64,
    /// Entries of which only the permission bits differ.
    pub mode_changed: u64,
    /// Entries that became another kind of entry.
    pub type_changed: u64,
    /// Changes of files whose lines were not counted.
    pub binary: u64,
    /// Lines that only the second tree has.
    pub lines_added: u64,
    /// Lines that only the first tree has.
    pub lines_removed: u64,
    /// Bytes of the changed entries in the first tree.
    pub bytes_before: u64,
    /// Bytes of the changed entries in the second tree.
    pub bytes_after: u64,
}

impl ChangeStat {
    /// Reads both sides of `change`. A file of more than `max_text_bytes` is
    /// not read and counts as binary, which bounds memory; `budget` bounds the
    /// time for all changes that share it.
    pub async fn of(
        repository: &Repository,
        change: Change,
        max_text_bytes: u64,
        budget: &mut LineBudget,
    ) -> Result<Self> {
        let kind = &change.kind;
        let (before, after) = match kind {
            // Both sides have the same content.
            ChangeKind::ModeChanged { before, .. } => {
                let side = Side::read(repository, Some(before), max_text_bytes, budget).await?;
                (side.clone(), side)
            }
            _ => (
                Side::read(repository, kind.before(), max_text_bytes, budget).await?,
                Side::read(repository, kind.after(), max_text_bytes, budget).await?,
            ),
        };
        let counts = match (before.lines(), after.lines()) {
            _ if before == Side::Nothing && after == Side::Nothing => None,
            (Some(before), Some(after)) => Some(count_lines(before, after, budget)?),
            _ => None,
        };
        let (lines_added, lines_removed) = counts.unwrap_or_default();
        Ok(Self {
            text: counts.is_some(),
            lines_added,
            lines_removed,
            bytes_before: kind.before().map_or(0, bytes_of),
            bytes_after: kind.after().map_or(0, bytes_of),
            change,
        })
    }

    /// Whether the change involves a file whose lines were not counted.
    pub fn is_binary(&self) -> bool {
        let kind = &self.change.kind;
        let sides = [kind.before(), kind.after()];
        !self.text
            && sides
                .into_iter()
                .flatten()
                .any(|entry| matches!(entry, Entry::File { .. }))
    }
}

impl ChangeStatTotals {
    /// Adds one change to the sums.
    pub fn add(&mut self, change_stat: &ChangeStat) {
        let counter = match change_stat.change.kind {
            ChangeKind::Added(_) => &mut self.added,
            ChangeKind::Removed(_) => &mut self.removed,
            ChangeKind::Modified { .. } => &mut self.modified,
            ChangeKind::ModeChanged { .. } => &mut self.mode_changed,
            ChangeKind::TypeChanged { .. } => &mut self.type_changed,
        };
        *counter += 1;
        self.binary += u64::from(change_stat.is_binary());
        self.lines_added += change_stat.lines_added;
        self.lines_removed += change_stat.lines_removed;
        self.bytes_before += change_stat.bytes_before;
        self.bytes_after += change_stat.bytes_after;
    }

    /// Number of changes of all kinds.
    pub fn changes(&self) -> u64 {
        self.added + self.removed + self.modified + self.mode_changed + self.type_changed
    }
}

fn bytes_of(entry: &Entry) -> u64 {
    match entry {
        Entry::File { content, .. } => Content::size(content),
        Entry::Link(link) => link.size,
        Entry::Directory { .. } => 0,
    }
}

/// Returns the numbers of lines added and removed.
fn count_lines(before: &[u8], after: &[u8], budget: &mut LineBudget) -> Result<(u64, u64)> {
    if before == after {
        return Ok((0, 0));
    }
    if before.is_empty() || after.is_empty() {
        let count = |text| byte_lines(text).count() as u64;
        return Ok((count(after), count(before)));
    }
    budget.compare(before, after, |work| {
        TwoTexts::new(before, after).count(work)
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use elevo_core::TreePath;
    use elevo_objects::Mode;
    use futures::executor::block_on;

    use super::*;
    use crate::memory::MemoryStore;
    use crate::state::{Attributes, StateTree};
    use crate::text::DEFAULT_MAX_TEXT_BYTES;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    fn repository() -> Repository {
        let store = std::sync::Arc::new(MemoryStore::default());
        Repository::new(store, elevo_core::TenantId::LOCAL, 1 << 20)
    }

    async fn write(tree: &StateTree, at: &str, data: &'static [u8]) {
        let data = Bytes::from_static(data);
        tree.write(&path(at), data, Attributes::default())
            .await
            .unwrap();
    }

    async fn stats(before: &StateTree, after: &StateTree, limit: u64) -> Vec<ChangeStat> {
        let mut diff = before.diff(after).await.unwrap();
        let repository = diff.repository().clone();
        let mut found = Vec::new();
        let mut budget = LineBudget::of_one_answer();
        while let Some(change) = diff.next().await.unwrap() {
            let change_stat = ChangeStat::of(&repository, change, limit, &mut budget);
            found.push(change_stat.await.unwrap());
        }
        found
    }

    /// `path lines_added lines_removed bytes_before bytes_after`, `-` for lines
    /// that were not counted.
    fn summary(stats: &[ChangeStat]) -> Vec<String> {
        let line = |change_stat: &ChangeStat| {
            let lines = if change_stat.text {
                format!("{} {}", change_stat.lines_added, change_stat.lines_removed)
            } else {
                "- -".into()
            };
            let (path, bytes) = (&change_stat.change.path, change_stat.bytes_before);
            format!("{path} {lines} {bytes} {}", change_stat.bytes_after)
        };
        stats.iter().map(line).collect()
    }

    #[test]
    fn lines_and_bytes_of_every_kind_of_change_are_counted() {
        block_on(async {
            let before = StateTree::empty(&repository());
            write(&before, "edited", b"one\ntwo\nthree\n").await;
            write(&before, "gone", b"a\nb").await;
            write(&before, "image", b"\0png").await;
            write(&before, "mode", b"x\n").await;
            write(&before, "was-file", b"1\n2\n").await;
            let after = before.clone();
            write(&after, "edited", b"one\n2\nthree\nfour").await;
            after.remove(&path("gone")).await.unwrap();
            write(&after, "image", b"\0png2").await;
            let mode = Mode::EXECUTABLE;
            after.set_mode(&path("mode"), mode).await.unwrap();
            after.remove(&path("was-file")).await.unwrap();
            write(&after, "was-file/inside", b"1\n").await;
            let target = Bytes::from_static(b"edited");
            after.symlink(&path("link"), target).await.unwrap();

            let found = stats(&before, &after, DEFAULT_MAX_TEXT_BYTES).await;

            assert_eq!(
                summary(&found),
                [
                    "edited 2 1 14 16",
                    "gone 0 2 3 0",
                    "image - - 4 5",
                    "link 1 0 0 6",
                    "mode 0 0 2 2",
                    "was-file 0 2 4 0",
                    "was-file/inside 1 0 0 2",
                ]
            );
            let mut totals = ChangeStatTotals::default();
            found.iter().for_each(|change_stat| totals.add(change_stat));
            assert_eq!((totals.lines_added, totals.lines_removed), (4, 5));
            assert_eq!((totals.bytes_before, totals.bytes_after), (27, 31));
            assert_eq!((totals.changes(), totals.binary), (7, 1));
        });
    }

    #[test]
    fn directories_have_no_lines_and_are_not_binary() {
        block_on(async {
            let before = StateTree::empty(&repository());
            let after = before.clone();
            after
                .make_directory(&path("empty"), Mode::EXECUTABLE)
                .await
                .unwrap();

            let found = stats(&before, &after, DEFAULT_MAX_TEXT_BYTES).await;

            assert_eq!(summary(&found), ["empty - - 0 0"]);
            assert!(!found[0].is_binary());
        });
    }

    #[test]
    fn a_file_over_the_limit_counts_as_binary() {
        block_on(async {
            let before = StateTree::empty(&repository());
            write(&before, "file", b"12345678\n").await;
            let after = before.clone();
            write(&after, "file", b"1\n").await;

            assert_eq!(summary(&stats(&before, &after, 9).await), ["file 1 1 9 2"]);
            assert_eq!(summary(&stats(&before, &after, 8).await), ["file - - 9 2"]);
        });
    }

    #[test]
    fn a_text_larger_than_one_chunk_is_read_whole() {
        block_on(async {
            let before = StateTree::empty(&repository());
            let lines: String = (0..100_000).map(|n| format!("line {n}\n")).collect();
            let edited = lines.replace("line 99999\n", "another\nand one\n");
            let attributes = Attributes::default;
            let write = |tree: StateTree, text: String| async move {
                tree.write(&path("long"), text.into(), attributes())
                    .await
                    .unwrap();
                tree
            };
            let before = write(before, lines).await;
            let after = write(before.clone(), edited).await;

            let found = stats(&before, &after, DEFAULT_MAX_TEXT_BYTES).await;

            assert_eq!((found[0].lines_added, found[0].lines_removed), (2, 1));
        });
    }
}
