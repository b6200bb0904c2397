//! The changes of a sandbox's workspace, as a list and as a patch.

use elevo_api as api;
use elevo_api::Scope;
use elevo_core::{ErrorCode, SandboxId};
use elevo_engine::{LineBudget, PatchOptions, Progress, Repository};
use elevo_objects::{Entry, SnapshotId};
use elevo_workspace::Changes;
use futures::executor::block_on;

use crate::app::access::principal::Principal;
use crate::app::files::Files;
use crate::failure::{Failure, Result};

/// The options of a diff.
#[derive(Clone, Debug)]
pub(crate) struct DiffQuery {
    /// The snapshot to compare with, instead of the base of the workspace.
    pub(crate) from: Option<String>,
    pub(crate) limit: usize,
}

/// A patch in the format of `git diff`.
#[derive(Debug)]
pub(crate) struct Patch {
    pub(crate) bytes: Vec<u8>,
}

impl Files {
    /// Calls `read` with the changes of a sandbox's workspace and the snapshot
    /// that it was compared with. If `contents` is set, the content of the
    /// changed files is stored first, so that `read` can read it for a patch.
    async fn with_changes<T: Send + 'static>(
        &self,
        who: &Principal,
        id: &SandboxId,
        query: &DiffQuery,
        contents: bool,
        read: impl FnOnce(elevo_engine::Diff, &Repository, SnapshotId) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        who.needs(Scope::SandboxesRead)?;
        let sandbox = self.sandboxes.visible(who, id).await?;
        let from = match &query.from {
            Some(from) => Some(self.snapshots.snapshot_id(who, from).await?),
            None => None,
        };
        let workspace = sandbox.workspace.clone();
        let repository = self.stores.repository(who.tenant);
        let looked = self.stores.with(sandbox.tenant, move |workspaces| {
            let progress = Progress::new();
            let changes: Changes = match contents {
                true => workspaces.contents(&workspace, &progress)?,
                false => workspaces.changes(&workspace, &progress)?,
            };
            let (base, before) = match &from {
                Some(from) => (from.id, block_on(repository.snapshot(from.id))?.tree),
                None => (changes.base, changes.before()),
            };
            let diff = elevo_engine::Diff::new(changes.repository(), before, changes.tree);
            read(diff, changes.repository(), base)
        });
        looked.await
    }

    pub(crate) async fn diff(
        &self,
        who: &Principal,
        id: &SandboxId,
        query: DiffQuery,
    ) -> Result<api::Diff> {
        let limit = query.limit;
        self.with_changes(who, id, &query, false, move |mut diff, _, base| {
            let mut out = api::Diff {
                base: base.to_string(),
                changes: Vec::new(),
                totals: api::DiffTotals::default(),
                truncated: false,
            };
            while let Some(change) = block_on(diff.next())? {
                let change = change_out(&change);
                count(&mut out.totals, change.kind);
                match out.changes.len() < limit {
                    true => out.changes.push(change),
                    false => out.truncated = true,
                }
            }
            Ok(out)
        })
        .await
    }

    /// Returns the changes of a workspace as a patch for `git apply`.
    pub(crate) async fn patch(
        &self,
        who: &Principal,
        id: &SandboxId,
        query: DiffQuery,
    ) -> Result<Patch> {
        const LARGEST: usize = 16 << 20;
        self.with_changes(who, id, &query, true, move |mut diff, repository, _| {
            let (mut bytes, options) = (Vec::new(), PatchOptions::default());
            let mut budget = LineBudget::of_one_answer();
            while let Some(change) = block_on(diff.next())? {
                bytes.extend(block_on(elevo_engine::patch(
                    repository,
                    &change,
                    &options,
                    &mut budget,
                ))?);
                if bytes.len() > LARGEST {
                    let message = "the patch has more than 16 MiB; download an archive instead";
                    return Err(Failure::new(ErrorCode::PayloadTooLarge, message));
                }
            }
            Ok(Patch { bytes })
        })
        .await
    }
}

pub(crate) fn count(totals: &mut api::DiffTotals, kind: api::ChangeKind) {
    *match kind {
        api::ChangeKind::Added => &mut totals.added,
        api::ChangeKind::Removed => &mut totals.removed,
        api::ChangeKind::Changed => &mut totals.changed,
    } += 1;
}

pub(crate) fn change_out(change: &elevo_engine::Change) -> api::Change {
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
