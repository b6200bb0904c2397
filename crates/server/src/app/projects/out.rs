//! Converts merges, conflicts and file versions to their forms in the API and in
//! the catalog.

use elevo_api as api;
use elevo_catalog::{PathChange, Project, Review, VersionKind};
use elevo_core::{ErrorCode, TreePath};
use elevo_merge::{Conflict, Hunk, Landed, Place, Refused, Suggestion, TreeMerge};
use elevo_objects::{Content, Entry, SnapshotId};
use elevo_policy::View;
use serde_json::{Value, json};

use crate::app::files::diff::readable;
use crate::app::projects::landing::job::Done;
use crate::failure::Failure;

/// Maximum entries of each kind in a response.
const LISTED: usize = 1000;

/// Maximum hunks of a file in a response.
const HUNKS: usize = 100;

/// Maximum bytes of each side of a hunk in a response.
const HUNK_BYTES: usize = 4 << 10;

/// Maximum bytes of all hunks that a review stores, as JSON.
const DETAIL_BYTES: usize = 12 << 10;

/// Maximum bytes of all hunks in a response, as JSON.
const ANSWER_BYTES: usize = 512 << 10;

pub(crate) fn merge_result(
    project: &Project,
    view: &View,
    done: &Done,
    theirs: SnapshotId,
    dry_run: bool,
) -> api::MergeResult {
    let mut out = nothing(project, done.head);
    out.step = done.sequence;
    out.snapshot = theirs.to_string();
    out.dry_run = dry_run;
    let Some(merge) = &done.merge else {
        return out;
    };
    out.landed = merge.landed.iter().take(LISTED).map(landed).collect();
    out.landed_count = merge.landed.len() as u64;
    out.conflicts = conflicts(view, merge, LISTED);
    for (shown, found) in out.conflicts.iter_mut().zip(&merge.conflicts) {
        shown.review_id = done.reviews.get(&found.path).map(ToString::to_string);
    }
    out.conflict_count = merge.conflicts.len() as u64;
    out.refused = merge.refused.iter().take(LISTED).map(refused).collect();
    out.refused_count = merge.refused.len() as u64;
    let overruled = merge.overruled.iter().take(LISTED);
    out.overruled = overruled
        .map(|lost| readable(lost.path.as_bytes()))
        .collect();
    (out.same, out.local) = (merge.same, merge.local);
    out
}

/// Returns the result of a merge without changes.
pub(crate) fn nothing(project: &Project, head: SnapshotId) -> api::MergeResult {
    api::MergeResult {
        project: project.id.to_string(),
        head: head.to_string(),
        step: None,
        snapshot: head.to_string(),
        dry_run: false,
        landed: Vec::new(),
        landed_count: 0,
        conflicts: Vec::new(),
        conflict_count: 0,
        refused: Vec::new(),
        refused_count: 0,
        overruled: Vec::new(),
        same: 0,
        local: 0,
        may_decide: false,
    }
}

/// Returns the failure of an atomic merge that cannot land completely.
pub(crate) fn not_atomic(
    view: &View,
    merge: &TreeMerge,
    head: SnapshotId,
    theirs: &SnapshotId,
) -> Failure {
    let message = format!(
        "{} conflicts and {} refused changes prevent the atomic merge",
        merge.conflicts.len(),
        merge.refused.len()
    );
    let conflicts = conflicts(view, merge, 100);
    let refused: Vec<_> = merge.refused.iter().take(100).map(refused).collect();
    Failure::new(ErrorCode::MergeConflict, message)
        .about("head", head.to_string())
        .about("snapshot", theirs.to_string())
        .about("conflicts", json!(conflicts))
        .about("refused", json!(refused))
}

/// Returns the failure of a last merge whose files have conflict markers. These
/// files would be lost with the workspace.
pub(crate) fn unfinished(merge: &TreeMerge) -> Failure {
    let refused: Vec<_> = merge.refused.iter().take(100).map(refused).collect();
    let message = "files of the workspace still have conflict markers from a refresh";
    Failure::new(ErrorCode::MergeConflict, message)
        .about("refused", json!(refused))
        .remediation(
            "Nothing has landed, and the workspace was not deleted. Resolve the conflicts in the \
             files that `details` names, and complete the workspace again.",
        )
}

fn landed(landed: &Landed) -> api::LandedFile {
    api::LandedFile {
        path: readable(landed.path.as_bytes()),
        from: landed.from.as_ref().map(|from| readable(from.as_bytes())),
        kind: kind(landed).to_string(),
        entries: landed.entries,
        algorithm: landed.algorithm.to_owned(),
    }
}

/// Converts a change that the history stores to a landed change.
pub(crate) fn changed(change: &PathChange) -> api::LandedFile {
    api::LandedFile {
        path: readable(change.path.as_bytes()),
        from: change.from.as_ref().map(|from| readable(from.as_bytes())),
        kind: change.kind.to_string(),
        // A change of a directory without its entries counts as one entry; the
        // catalog stores 0 for it.
        entries: change.files.max(1),
        algorithm: change.algorithm.clone(),
    }
}

fn refused(refused: &Refused) -> api::FileRefused {
    api::FileRefused {
        path: readable(refused.path.as_bytes()),
        reason: format!("{}. {}", refused.why, refused.why.remedy()),
    }
}

/// Returns the first `count` conflicts of a merge, with hunks up to the size
/// limit of a response.
pub(crate) fn conflicts(view: &View, merge: &TreeMerge, count: usize) -> Vec<api::Conflict> {
    let mut room = ANSWER_BYTES;
    let found = merge.conflicts.iter().take(count);
    found
        .map(|found| conflict(view, found, &mut room))
        .collect()
}

fn conflict(view: &View, found: &Conflict, room: &mut usize) -> api::Conflict {
    let version = |entry: &Option<Entry>| Some(version(view, &found.path, entry.as_ref()?));
    api::Conflict {
        path: readable(found.path.as_bytes()),
        from: found.from.as_ref().map(path_text),
        kind: found.kind.name().to_owned(),
        review_id: None,
        base_version: version(&found.base),
        project_version: version(&found.ours),
        workspace_version: version(&found.theirs),
        hunks: hunks(&found.hunks, room),
        suggestion: suggestion(&found.suggestion).to_owned(),
        reason: found.reason.to_owned(),
    }
}

pub(crate) const fn suggestion(suggestion: &Suggestion) -> &'static str {
    match suggestion {
        Suggestion::Ours => "project",
        Suggestion::Theirs => "workspace",
        Suggestion::Content(_) => "merged",
    }
}

/// Returns the details of a conflict that a review stores as JSON.
pub(crate) fn detail(
    from: Option<&TreePath>,
    found: &[Hunk],
    suggestion: &str,
    reason: &str,
) -> Value {
    json!({
        // A path that is not UTF-8 is left out, because JSON cannot hold it. A
        // decision then does not cover the old path, and the next merge opens
        // another review.
        "from": from.and_then(|path| std::str::from_utf8(path.as_bytes()).ok()),
        "hunks": hunks(found, &mut { DETAIL_BYTES }),
        "suggestion": suggestion,
        "reason": reason,
    })
}

/// Adds the message of a merge to the details of a conflict.
pub(crate) fn with_message(mut detail: Value, message: &str) -> Value {
    if !message.is_empty() {
        detail["message"] = message.into();
    }
    detail
}

/// Returns the message of the merge that a review comes from.
pub(crate) fn message_of(review: &Review) -> &str {
    review.detail["message"].as_str().unwrap_or_default()
}

/// Returns the path that the file of a review had in the base, if one side moved
/// the file.
pub(crate) fn moved_from(review: &Review) -> Option<TreePath> {
    TreePath::new(review.detail["from"].as_str()?).ok()
}

/// Returns the first hunks of a conflict that fit into `room` bytes of JSON, and
/// subtracts their size.
fn hunks(found: &[Hunk], room: &mut usize) -> Vec<api::ConflictHunk> {
    let mut shown = Vec::new();
    for found in found.iter().take(HUNKS).map(hunk) {
        let size = serde_json::to_string(&found).map_or(usize::MAX, |text| text.len());
        if size > *room {
            break;
        }
        *room -= size;
        shown.push(found);
    }
    shown
}

fn hunk(hunk: &Hunk) -> api::ConflictHunk {
    let text = |bytes: &Option<Vec<u8>>| {
        let bytes = bytes.as_ref()?;
        let shown = &bytes[..bytes.len().min(HUNK_BYTES)];
        Some(String::from_utf8_lossy(shown).into_owned())
    };
    let range = |range: &std::ops::Range<u32>| api::LineRange {
        start: range.start + 1,
        count: range.end.saturating_sub(range.start),
    };
    api::ConflictHunk {
        place: match &hunk.place {
            Place::Key(pointer) => api::HunkPlace::Key(pointer.clone()),
            Place::Lines(lines) => api::HunkPlace::Lines(api::HunkLines {
                base: range(&lines.base),
                project: range(&lines.ours),
                workspace: range(&lines.theirs),
            }),
        },
        base: text(&hunk.base),
        project: text(&hunk.ours),
        workspace: text(&hunk.theirs),
    }
}

/// Describes an entry without its content. The id and the size of a directory
/// depend on all its entries, so they are left out if the view hides some of
/// them.
pub(crate) fn version(view: &View, path: &TreePath, entry: &Entry) -> api::Version {
    let (kind, id, size, mode) = match entry {
        Entry::File { mode, content } => {
            let id = match content {
                Content::Empty => None,
                Content::Chunk { hash, .. } | Content::List { hash, .. } => Some(hash.to_string()),
            };
            ("file", id, Some(content.size()), mode.bits())
        }
        Entry::Directory { mode, .. } if view.hides_below(path) => {
            ("directory", None, None, mode.bits())
        }
        Entry::Directory { mode, tree } => {
            let id = tree.root.map(|root| root.to_string());
            ("directory", id, Some(tree.bytes), mode.bits())
        }
        Entry::Link(link) => {
            let id = Some(link.hash.to_string());
            ("symlink", id, Some(link.size), 0o777)
        }
    };
    api::Version {
        kind: kind.to_owned(),
        id,
        size,
        mode: format!("{mode:o}"),
    }
}

fn kind(landed: &Landed) -> VersionKind {
    match (&landed.before, &landed.after) {
        _ if landed.from.is_some() => VersionKind::Renamed,
        (None, _) => VersionKind::Added,
        (_, None) => VersionKind::Removed,
        _ if landed.algorithm == "mode" => VersionKind::Mode,
        _ => VersionKind::Modified,
    }
}

/// Returns the record of a change for the catalog.
pub(crate) fn path_change(landed: &Landed) -> PathChange {
    let is_directory = |entry: &Option<Entry>| matches!(entry, Some(Entry::Directory { .. }));
    let alone =
        landed.entries == 1 && (is_directory(&landed.before) || is_directory(&landed.after));
    PathChange {
        path: landed.path.clone(),
        kind: kind(landed),
        from: landed.from.clone(),
        before: landed.before.clone(),
        after: landed.after.clone(),
        // 0 marks a change of the directory itself, without its entries.
        files: if alone { 0 } else { landed.entries },
        algorithm: landed.algorithm.to_owned(),
    }
}

/// Returns a path as text for the API.
pub(crate) fn path_text(path: &TreePath) -> String {
    readable(path.as_bytes())
}
