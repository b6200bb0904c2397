use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use elevo_policy::Strategy;

/// Options of a merge.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Merge {
    /// Whether to report the result without moving the head.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether to land all changes or none: a conflict or a change that is not
    /// allowed then fails the merge.
    #[serde(default)]
    pub atomic: bool,
    /// Message for the history.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub message: String,
    /// How to settle conflicts, if the policy lets the caller choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Whether to follow files that were moved without other changes, so that a
    /// change of the other side reaches the new path.
    #[serde(default)]
    pub renames: bool,
}

/// Request to merge several workspaces into their project.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MergeWorkspaces {
    /// The workspaces, by id or name, in the order in which they are merged.
    #[schema(min_items = 1, max_items = 50)]
    pub workspaces: Vec<String>,
    /// Whether to land the changes of all workspaces or none: a conflict, also
    /// between two of the workspaces, or a change that is not allowed then fails
    /// the request.
    #[serde(default)]
    pub atomic: bool,
    /// Message for the history, the same for each workspace.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub message: String,
    /// Whether to report the results without moving the head.
    #[serde(default)]
    pub dry_run: bool,
    /// How to settle conflicts, if the policy lets the caller choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Whether to follow files that were moved without other changes, so that a
    /// change of the other side reaches the new path.
    #[serde(default)]
    pub renames: bool,
}

/// Result of a request to merge several workspaces.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct WorkspacesMerged {
    /// Workspaces that were merged, in order.
    pub succeeded: Vec<WorkspaceMerged>,
    /// Workspaces that were not merged. Empty if the request is atomic.
    pub failed: Vec<crate::Failed>,
}

/// A workspace that was merged.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceMerged {
    /// Id of the workspace.
    pub workspace: String,
    /// Result of its merge.
    pub result: MergeResult,
}

/// Result of a merge.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MergeResult {
    /// Id of the project.
    pub project: String,
    /// Head of the project after the merge.
    pub head: String,
    /// Number of the step that the merge added to the history of the
    /// project; absent if the head did not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The snapshot that was merged.
    pub snapshot: String,
    /// Whether this was a dry run, which does not move the head.
    pub dry_run: bool,
    /// Changes that landed; at most 1000 are listed.
    pub landed: Vec<LandedFile>,
    /// Number of changes that landed.
    pub landed_count: u64,
    /// Changes that need a decision; at most 1000 are listed.
    pub conflicts: Vec<Conflict>,
    /// Number of conflicts.
    pub conflict_count: u64,
    /// Changes that the policy does not allow, and files with conflict markers;
    /// at most 1000 are listed.
    pub refused: Vec<FileRefused>,
    /// Number of changes that did not land because of the policy or of conflict
    /// markers.
    pub refused_count: u64,
    /// Paths at which a change of this merge lost against a change of an agent
    /// with higher priority; at most 1000 are listed. Changes to other parts of
    /// such a file may have landed.
    pub overruled: Vec<String>,
    /// Number of changes that the head already had.
    pub same: u64,
    /// Number of changes to paths that the policy or a `.gitignore` excludes
    /// from merges.
    pub local: u64,
    /// Whether the caller's key may decide the reviews of this merge.
    #[serde(default)]
    pub may_decide: bool,
}

/// A change that landed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LandedFile {
    /// The path.
    pub path: String,
    /// The earlier path, if the change moved the file; or the path at which the
    /// author made the change, if it landed at another path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Kind of the change: `added`, `modified`, `removed`, `renamed` or `mode`.
    pub kind: String,
    /// Number of entries this change covers.
    pub entries: u64,
    /// Name of the merge algorithm that combined the change with the head.
    pub algorithm: String,
}

/// A change that needs a decision.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// The path.
    pub path: String,
    /// Path in the base, if one side moved the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Kind of the conflict: `content`, `both-added`, `removed-in-project`,
    /// `removed-in-workspace`, `file-against-directory`, `kind`, `renamed`, `protected` or `too-large`.
    pub kind: String,
    /// Id of the review that holds the change; absent if no review was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_id: Option<String>,
    /// The entry in the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_version: Option<Version>,
    /// The entry in the head of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_version: Option<Version>,
    /// The entry in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_version: Option<Version>,
    /// The first conflicting places in the file: at most 100, and fewer or none if
    /// the response reaches its size limit. Clients can compute all of them from
    /// the three versions.
    pub hunks: Vec<ConflictHunk>,
    /// Suggested version: `project`, `workspace` or `merged`.
    pub suggestion: String,
    /// Reason for the suggestion.
    pub reason: String,
}

/// An entry of a tree, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Type of the entry: `file`, `directory` or `symlink`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Hash of the content: equal content has equal ids. Absent for an empty
    /// file or directory, and for a directory with paths that are hidden from
    /// the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Size in bytes; for a directory, of everything in it. Absent for a
    /// directory with paths that are hidden from the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Permission bits, such as `644`.
    pub mode: String,
}

/// A place in a file where the two sides conflict.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConflictHunk {
    /// Position in the file.
    pub place: HunkPlace,
    /// Text in the base, at most 4 KiB. Bytes that are not UTF-8 are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Text in the head of the project.
    // The catalog has reviews that an earlier version stored with `ours` and
    // `theirs`.
    #[serde(default, alias = "ours", skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Text in the workspace.
    #[serde(default, alias = "theirs", skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// A position in a file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum HunkPlace {
    /// A value, as a JSON pointer.
    Key(String),
    /// Lines of each side.
    Lines(HunkLines),
}

/// The lines of a hunk on each side.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HunkLines {
    /// Lines in the base.
    pub base: LineRange,
    /// Lines in the head of the project.
    #[serde(alias = "ours")]
    pub project: LineRange,
    /// Lines in the workspace.
    #[serde(alias = "theirs")]
    pub workspace: LineRange,
}

/// A range of lines in a file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineRange {
    /// Number of the first line, starting at 1.
    pub start: u32,
    /// Number of lines.
    pub count: u32,
}

/// A change that did not land, because the policy does not allow it or the file
/// still has conflict markers from a refresh.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileRefused {
    /// The path.
    pub path: String,
    /// Why the change did not land, and what to do.
    pub reason: String,
}

/// Changes to a project that do not come from a workspace: a patch, or files.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Apply {
    /// The snapshot that the changes are based on; the head by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// A patch in the format of `git diff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// A patch in base64, for a patch that is not valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_base64: Option<String>,
    /// New states of files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ApplyFile>,
    /// Options of the merge.
    #[serde(default)]
    pub merge: Merge,
}

/// New state of a file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplyFile {
    /// The path.
    pub path: String,
    /// Content as text. If `content`, `base64`, `symlink` and `remove` are all
    /// absent, only `executable` changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Content in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Target of a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symlink: Option<String>,
    /// Whether to remove the path; a directory is removed with its entries.
    #[serde(default)]
    pub remove: bool,
    /// Whether the file is executable; unchanged by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<bool>,
}

/// Request to revert a step.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Revert {
    /// The step to revert: the id of the head after the step.
    pub snapshot: String,
    /// Reverts only changes to this file or directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Options of the merge.
    #[serde(default)]
    pub merge: Merge,
}

/// Request to restore a path from an older version.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestorePath {
    /// The file or directory.
    pub path: String,
    /// The version to restore `path` from. If the version does not have the
    /// path, `path` is removed.
    pub snapshot: String,
    /// Options of the merge.
    #[serde(default)]
    pub merge: Merge,
}

/// Source of an import into a project.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportSource {
    /// A directory on the server's machine; needs the scope `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// A git repository on the server's machine; needs the scope `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// Revision of the git repository; `HEAD` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Whether to import each commit of the first-parent history as a step.
    #[serde(default)]
    pub history: bool,
    /// A snapshot of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Directory of the project to replace; the whole project by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Message for the history.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub message: String,
    /// Whether to report the result without moving the head. For a history, the
    /// report combines the changes of all commits.
    #[serde(default)]
    pub dry_run: bool,
}

/// Result of an import.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportResult {
    /// Result of the merge; for an import with `history`, the combined result
    /// of all steps.
    #[serde(flatten)]
    pub merge: MergeResult,
    /// Number of steps that the import added to the log.
    pub steps: u64,
    /// Entries and attributes that the import did not keep, such as sockets,
    /// submodules or paths that `.gitignore` files name.
    pub not_kept: Vec<String>,
}
