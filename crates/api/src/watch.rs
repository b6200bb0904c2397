use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Kind of an event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WatchKind {
    /// All directories are watched. A client that lists the files now misses no
    /// change.
    Watching,
    /// There is a new file at the path: it was created or moved there, maybe in
    /// place of another one.
    Created,
    /// The content or the mode of a file has changed.
    Changed,
    /// The file at the path was deleted or moved away. If it was a directory,
    /// its entries have no separate events.
    Deleted,
    /// Events may be missing. The client lists the files again; later changes
    /// have events.
    Gap,
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchEvent {
    /// Number of the event in its stream, from 1 on.
    pub id: u64,
    /// Kind of the event.
    pub kind: WatchKind,
    /// The path of the file: relative to the workspace, or absolute in the home.
    /// Absent in `watching` and `gap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether the file is a directory. Absent in `watching` and `gap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_directory: Option<bool>,
}
