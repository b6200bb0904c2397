//! Differences between two states of a file tree: the changes of a workspace, and
//! their three forms.

use elevo_api as api;
use elevo_api::DiffFormat;
use elevo_core::ErrorCode;
use elevo_engine::{
    Change, ChangeStat, DEFAULT_MAX_TEXT_BYTES, Diff, LineBudget, PatchOptions, Progress,
    Repository,
};
use elevo_objects::{Entry, SnapshotId};
use elevo_workspace::Changes;
use futures::executor::block_on;

use crate::app::access::principal::Principal;
use crate::app::files::Files;
use crate::app::files::target::{Need, Target, WorkspaceRef};
use crate::app::snapshots::Kept;
use crate::failure::{Failure, Result};

/// The words for the two snapshots of a workspace that a diff can start from. No
/// snapshot can have one of them as its name.
pub(crate) const START: &str = "start";
pub(crate) const LAST: &str = "last";

/// Maximum size of a patch in bytes.
const PATCH: usize = 16 << 20;

/// The options of a diff.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiffOptions {
    pub(crate) format: DiffFormat,
    /// Maximum number of listed changes.
    pub(crate) limit: usize,
}

/// The result of a diff.
#[derive(Debug)]
pub(crate) enum Compared {
    Changes(api::Diff),
    Stat(api::DiffStat),
    Patch(Vec<u8>),
}

/// The state that a workspace is compared with.
enum Against {
    /// The snapshot that its work started from.
    Start,
    /// Its last snapshot.
    Last,
    Snapshot(Kept),
}

impl Files {
    /// Compares a workspace with the snapshot that its work started from, or with
    /// another one.
    pub(crate) async fn diff(
        &self,
        who: &Principal,
        of: WorkspaceRef,
        from: Option<&str>,
        options: DiffOptions,
    ) -> Result<Compared> {
        let target = self.target(who, &of, Need::Read).await?;
        let from = self.compared_with(who, &target, from).await?;
        let id = target.id.clone();
        let compared = self.stores.with(target.tenant, move |workspaces| {
            let progress = Progress::new();
            // Lines can be compared only if the contents of the files are stored.
            let changes: Changes = match options.format {
                DiffFormat::Json => workspaces.changes(&id, &progress)?,
                DiffFormat::Patch | DiffFormat::Stat => workspaces.contents(&id, &progress)?,
            };
            let (base, before) = match &from {
                Against::Start => (workspaces.get(&id)?.start, changes.start()),
                Against::Last => (changes.base, changes.before()),
                Against::Snapshot(from) => (from.id, from.snapshot.tree),
            };
            let diff = Diff::new(changes.repository(), before, changes.tree);
            block_on(compared(diff, base, options))
        });
        compared.await
    }

    async fn compared_with(
        &self,
        who: &Principal,
        target: &Target,
        from: Option<&str>,
    ) -> Result<Against> {
        match from {
            Some(LAST) => Ok(Against::Last),
            None | Some(START) => match target.row.as_ref().filter(|row| row.project.is_some()) {
                // The base of its next merge: the version that it was created
                // from or last refreshed to, or its last merge.
                Some(row) => {
                    let base = self.snapshots.keep(row.tenant, row.base).await?;
                    Ok(Against::Snapshot(base))
                }
                None => Ok(Against::Start),
            },
            Some(from) => {
                let from = self.snapshots.snapshot_id(who, from).await?;
                Ok(Against::Snapshot(from))
            }
        }
    }
}

/// Writes a difference in the requested form. `base` is the snapshot that it is
/// relative to.
pub(crate) async fn compared(
    mut diff: Diff,
    base: SnapshotId,
    options: DiffOptions,
) -> Result<Compared> {
    let repository = diff.repository().clone();
    match options.format {
        DiffFormat::Json => {
            let mut list = ChangeList::new(base, options.limit);
            while let Some(change) = diff.next().await? {
                list.add(&change);
            }
            Ok(Compared::Changes(list.0))
        }
        DiffFormat::Stat => {
            let mut stat = StatList::new(base, options.limit);
            while let Some(change) = diff.next().await? {
                stat.add(&repository, change).await?;
            }
            Ok(Compared::Stat(stat.out))
        }
        DiffFormat::Patch => {
            let mut patch = PatchText::default();
            while let Some(change) = diff.next().await? {
                patch.add(&repository, &change).await?;
            }
            Ok(Compared::Patch(patch.bytes))
        }
    }
}

/// Collects changes as a list. The second value is the maximum length of the
/// list.
pub(crate) struct ChangeList(pub(crate) api::Diff, usize);

impl ChangeList {
    pub(crate) fn new(base: SnapshotId, limit: usize) -> Self {
        let out = api::Diff {
            base: base.to_string(),
            changes: Vec::new(),
            totals: api::DiffTotals::default(),
            truncated: false,
        };
        Self(out, limit)
    }

    pub(crate) fn add(&mut self, change: &Change) {
        let Self(out, limit) = self;
        let change = change_out(change);
        count(&mut out.totals, change.kind);
        match out.changes.len() < *limit {
            true => out.changes.push(change),
            false => out.truncated = true,
        }
    }
}

/// Counts the changed lines of each path.
pub(crate) struct StatList {
    pub(crate) out: api::DiffStat,
    limit: usize,
    budget: LineBudget,
}

impl StatList {
    pub(crate) fn new(base: SnapshotId, limit: usize) -> Self {
        Self {
            out: api::DiffStat {
                base: base.to_string(),
                ..api::DiffStat::default()
            },
            limit,
            budget: LineBudget::of_one_answer(),
        }
    }

    pub(crate) async fn add(&mut self, repository: &Repository, change: Change) -> Result<()> {
        let Self { out, limit, budget } = self;
        let (path, kind) = (readable(change.path.as_bytes()), change_out(&change).kind);
        let stat = ChangeStat::of(repository, change, DEFAULT_MAX_TEXT_BYTES, budget).await?;
        out.files += 1;
        out.added += stat.lines_added;
        out.removed += stat.lines_removed;
        if out.changes.len() >= *limit {
            out.truncated = true;
            return Ok(());
        }
        out.changes.push(api::FileStat {
            path,
            kind,
            added: stat.text.then_some(stat.lines_added),
            removed: stat.text.then_some(stat.lines_removed),
        });
        Ok(())
    }
}

/// Collects changes as a patch for `git apply`.
pub(crate) struct PatchText {
    pub(crate) bytes: Vec<u8>,
    budget: LineBudget,
}

impl Default for PatchText {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            budget: LineBudget::of_one_answer(),
        }
    }
}

impl PatchText {
    pub(crate) async fn add(&mut self, repository: &Repository, change: &Change) -> Result<()> {
        let options = PatchOptions::default();
        let patch = elevo_engine::patch(repository, change, &options, &mut self.budget);
        self.bytes.extend(patch.await?);
        match self.bytes.len() > PATCH {
            true => Err(Failure::new(
                ErrorCode::PayloadTooLarge,
                "the patch has more than 16 MiB; download an archive instead",
            )),
            false => Ok(()),
        }
    }
}

fn count(totals: &mut api::DiffTotals, kind: api::ChangeKind) {
    *match kind {
        api::ChangeKind::Added => &mut totals.added,
        api::ChangeKind::Removed => &mut totals.removed,
        api::ChangeKind::Changed => &mut totals.changed,
    } += 1;
}

fn change_out(change: &Change) -> api::Change {
    let (before, after) = (change.kind.before(), change.kind.after());
    let path = readable(change.path.as_bytes());
    api::Change {
        kind: match (before, after) {
            (None, _) => api::ChangeKind::Added,
            (_, None) => api::ChangeKind::Removed,
            _ => api::ChangeKind::Changed,
        },
        path,
        before: before.map(|entry| kind_of(entry).into()),
        after: after.map(|entry| kind_of(entry).into()),
    }
}

fn kind_of(entry: &Entry) -> &'static str {
    match entry {
        Entry::Directory { .. } => "directory",
        Entry::Link(_) => "symlink",
        Entry::File { .. } => "file",
    }
}

/// Returns text unchanged, and other bytes as `\xNN`.
pub(crate) fn readable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text += &format!("\\x{byte:02x}");
        }
    }
    text
}
