//! The types of a server's admin socket, which serves the server's own user on
//! the same machine. They are not part of the REST API.

use serde::{Deserialize, Serialize};

/// A workspace that no row of the catalog has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quarantined {
    /// Its id.
    pub id: String,
    /// The tenant whose workspace it was.
    pub tenant: String,
    /// When the server first found it.
    pub found_at: String,
    /// When the server deletes it.
    pub deleted_at: String,
}

/// All workspaces in quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineList {
    /// The oldest first.
    pub items: Vec<Quarantined>,
}

/// A wish for a backup of the whole server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MakeBackup {
    /// The directory with backups: an absolute path on the server's machine.
    pub directory: String,
    /// Removes the oldest backups until so many are left.
    #[serde(default)]
    pub keep: Option<u32>,
}

/// A backup of the whole server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupMade {
    /// Its directory.
    pub backup: String,
    /// When it began. Everything acknowledged before is in it.
    pub begun_at: String,
    /// When it ended.
    pub ended_at: String,
    /// Its size.
    pub bytes: u64,
    /// The bytes that it does not share with the backup before.
    pub new_bytes: u64,
    /// The number of workspaces in it.
    pub workspaces: u64,
    /// Workspaces of which it has only the last snapshot.
    pub unread: Vec<UnreadWorkspace>,
    /// Earlier backups that were removed.
    pub removed: Vec<String>,
}

/// A workspace whose files could not be read for a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadWorkspace {
    /// Its id.
    pub id: String,
    /// Why.
    pub cause: String,
}
