use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use elevo_policy::Strategy;

/// How a workspace is merged.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Merge {
    /// Only say what would happen.
    #[serde(default)]
    pub dry_run: bool,
    /// All or nothing: what cannot land by itself keeps all else from landing.
    #[serde(default)]
    pub atomic: bool,
    /// What is said of it.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub message: String,
    /// How conflicts are settled, where the policy lets the caller choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Whether what moved unchanged is followed to where it is.
    #[serde(default)]
    pub renames: bool,
}

/// What became of a merge.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MergeResult {
    /// The project.
    pub project: String,
    /// Its head now.
    pub head: String,
    /// The number of the step; none if the head did not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The snapshot that was merged.
    pub snapshot: String,
    /// Whether this only says what would happen.
    pub dry_run: bool,
    /// What is in the head now; at most a thousand of them.
    pub landed: Vec<LandedFile>,
    /// How many landed in all.
    pub landed_count: u64,
    /// What somebody must decide on; at most a thousand of them.
    pub conflicts: Vec<Conflict>,
    /// How many conflicts in all.
    pub conflict_count: u64,
    /// Changes that the agent may not make, and files with conflict markers; at
    /// most a thousand of them.
    pub refused: Vec<FileRefused>,
    /// How many were refused in all.
    pub refused_count: u64,
    /// Paths where an agent of higher priority changed the same before, which
    /// stays; at most a thousand of them. The rest of such a file has landed.
    pub overruled: Vec<String>,
    /// Changes that the head had already.
    pub same: u64,
    /// Changes that are never merged.
    pub local: u64,
    /// Whether the key that asked may decide on what was held.
    #[serde(default)]
    pub may_decide: bool,
}

/// A change that is in the head now.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LandedFile {
    /// Where.
    pub path: String,
    /// What its maker called it, or where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What happened: `added`, `modified`, `removed`, `renamed` or `mode`.
    pub kind: String,
    /// Entries that this stands for.
    pub entries: u64,
    /// How it was merged.
    pub algorithm: String,
}

/// A change that somebody must decide on.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// Where.
    pub path: String,
    /// Where both began with it, if one of them moved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Why: `content`, `both-added`, `removed-by-us`, `removed-by-them`,
    /// `file-against-directory`, `kind`, `renamed`, `protected` or `too-large`.
    pub kind: String,
    /// The review that it waits in; none if nothing was held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<String>,
    /// What both began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Version>,
    /// What the head has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<Version>,
    /// What the workspace has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theirs: Option<Version>,
    /// The places in the file: at most a hundred, fewer if there are many
    /// conflicts. All can be computed from the three versions.
    pub hunks: Vec<ConflictHunk>,
    /// What could be done: `ours`, `theirs` or `merged`.
    pub suggestion: String,
    /// Why that.
    pub reason: String,
}

/// What something is, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// `file`, `directory` or `symlink`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Identifies the content: equal content has equal ids. Left out for a
    /// directory if the caller may not see all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Bytes, of a directory of all that is in it. Left out for a directory if
    /// the caller may not see all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Permission bits, such as `644`.
    pub mode: String,
}

/// A place where two sides disagree.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConflictHunk {
    /// Where.
    pub place: HunkPlace,
    /// What was there. Bytes that are no text are replaced; cut at 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// What the head has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<String>,
    /// What the workspace has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theirs: Option<String>,
}

/// Where in a file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum HunkPlace {
    /// A value, as a JSON pointer.
    Key(String),
    /// Lines of each version.
    Lines {
        /// In the base.
        base: LineRange,
        /// In the head.
        ours: LineRange,
        /// In the workspace.
        theirs: LineRange,
    },
}

/// Lines of a file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineRange {
    /// The first, from 1.
    pub start: u32,
    /// How many.
    pub count: u32,
}

/// A change that does not land: its agent may not make it, or the file still has
/// conflict markers from a refresh.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileRefused {
    /// Where.
    pub path: String,
    /// Why not, and what to do.
    pub reason: String,
}

/// Changes for a project from somebody without a workspace: a patch, or files.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Apply {
    /// The snapshot that the changes were made to; the head by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// A patch as `git diff` writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// The same as base64, for a patch that is not all UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_base64: Option<String>,
    /// Files as they shall be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ApplyFile>,
    /// How it is merged.
    #[serde(default)]
    pub merge: Merge,
}

/// A file as it shall be.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplyFile {
    /// Where.
    pub path: String,
    /// What is in it, as text. Without content, link and `remove` only
    /// `executable` changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// What is in it, as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Where it leads, if it is a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symlink: Option<String>,
    /// Whether it is to be removed; a directory with all that is in it.
    #[serde(default)]
    pub remove: bool,
    /// Whether it can be run; as it is by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<bool>,
}

/// A step to undo.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Revert {
    /// The head that the step made.
    pub snapshot: String,
    /// Undo what the step changed at this file or directory only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How it is merged.
    #[serde(default)]
    pub merge: Merge,
}

/// A path to bring back.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestorePath {
    /// The file or directory.
    pub path: String,
    /// A head of the project, whose version of `path` is taken. If it has none,
    /// `path` is removed.
    pub snapshot: String,
    /// How it is merged.
    #[serde(default)]
    pub merge: Merge,
}

/// Where files for a project come from.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportSource {
    /// A directory of the server's machine; needs the scope `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// A git repository on the server's machine; needs the scope `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// What of the git repository; `HEAD` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Whether each commit of the first-parent history becomes a step.
    #[serde(default)]
    pub history: bool,
    /// A snapshot of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The directory of the project that it replaces; all of it by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What is said of it.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub message: String,
    /// Whether only to say what would happen; of a history, what all its
    /// commits together would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// What became of an import.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportResult {
    /// What landed; of all steps together, if there were several.
    #[serde(flatten)]
    pub merge: MergeResult,
    /// Steps that the log has now for it.
    pub steps: u64,
    /// What a project does not keep, such as sockets or submodules.
    pub not_kept: Vec<String>,
}
