//! The types of a server's admin socket, which serves the server's own user on
//! the same machine. They are not part of the REST API.

use serde::{Deserialize, Serialize};

/// A workspace without a row in the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quarantined {
    /// Id of the workspace.
    pub id: String,
    /// The tenant that owned the workspace.
    pub tenant: String,
    /// When the server first found the workspace without a row.
    pub found_at: String,
    /// When the server will delete the workspace.
    pub deleted_at: String,
}

/// All workspaces in quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineList {
    /// The workspaces, oldest first.
    pub items: Vec<Quarantined>,
}

/// Request for a backup of the whole server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MakeBackup {
    /// Absolute path, on the server's machine, of the directory that holds
    /// backups.
    pub directory: String,
    /// Number of backups to keep; the oldest others are deleted. If absent, all
    /// backups are kept.
    #[serde(default)]
    pub keep: Option<u32>,
}

/// A backup of the whole server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupMade {
    /// Directory of the backup.
    pub backup: String,
    /// When the backup began. The backup contains every change that was
    /// acknowledged before this time.
    pub begun_at: String,
    /// When the backup ended.
    pub ended_at: String,
    /// Size of the backup in bytes.
    pub bytes: u64,
    /// Bytes that the backup does not share with the previous backup.
    pub new_bytes: u64,
    /// Number of workspaces in the backup.
    pub workspaces: u64,
    /// Workspaces whose files could not be read; the backup has their last
    /// snapshot.
    pub unread: Vec<UnreadWorkspace>,
    /// Earlier backups that were deleted.
    pub removed: Vec<String>,
    /// Position in the log of the catalog's database to which the backup
    /// belongs; absent if the backup contains the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
}

/// A workspace whose files could not be read for a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadWorkspace {
    /// Id of the workspace.
    pub id: String,
    /// Why the files could not be read.
    pub cause: String,
}
