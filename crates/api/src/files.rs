//! Single files of sandboxes, workspaces, projects and snapshots.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

/// A file, a directory or a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileInfo {
    /// The path: of a file in a workspace, a project or a snapshot relative to
    /// its root, of any other file absolute.
    pub path: String,
    /// The last part of the path; empty for the root.
    pub name: String,
    /// Kind of the file.
    pub kind: FileKind,
    /// Size in bytes; of a symbolic link the length of its target. Absent for
    /// directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Permission bits in octal, such as `0644`.
    pub mode: String,
    /// Time of the last change of the content. Absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub modified_at: Option<String>,
    /// The `ETag` of the file. Absent for directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// The target of a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// A page of the entries of a directory, ordered by name.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilePage {
    /// The snapshot that contains the directory. Absent for the files of a
    /// sandbox or a workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The entries.
    pub items: Vec<FileInfo>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A request to move a file or a directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveFile {
    /// The path of the file.
    pub from: String,
    /// Its new path.
    pub to: String,
    /// Whether a file at the new path is replaced; false by default.
    #[serde(default)]
    pub overwrite: bool,
}

/// A request to create a directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MakeDirectory {
    /// The path of the directory.
    pub path: String,
    /// Permission bits in octal; `0755` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Whether missing directories on the way are created; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parents: Option<bool>,
}
