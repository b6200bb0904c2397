//! Exit codes, names and advice for errors of the libraries.

use std::error::Error;

use elevo_engine::StoreError;
use elevo_server::RestoreError;
use elevo_store_local::{BackupError, OpenError};
use serde_json::json;

use crate::errors::{Exit, Known, lossy};

/// Returns the exit code, name and advice of an error of a library.
pub(super) fn known(error: &(dyn Error + 'static)) -> Option<Known> {
    if let Some(error) = error.downcast_ref() {
        Some(of_engine(error))
    } else if let Some(error) = error.downcast_ref() {
        Some(of_store(error))
    } else if let Some(error) = error.downcast_ref() {
        Some(of_workspace(error))
    } else if let Some(error) = error.downcast_ref() {
        Some(of_archive(error))
    } else if let Some(error) = error.downcast_ref() {
        Some(of_backup(error))
    } else if let Some(error) = error.downcast_ref() {
        Some(of_restore(error))
    } else {
        error.downcast_ref().map(of_open)
    }
}

fn of_engine(error: &elevo_engine::Error) -> Known {
    use elevo_engine::Error;
    let path_of = |path: &elevo_core::TreePath| json!({ "path": path.to_string() });
    match error {
        Error::NotFound(path) => Known::new(Exit::NotFound, "path_not_found")
            .with(path_of(path))
            .advice("`elevo state ls REV` lists the paths of a snapshot"),
        Error::NotADirectory(path) | Error::NotAFile(path) | Error::NotALink(path) => {
            Known::new(Exit::NotFound, "wrong_kind").with(path_of(path))
        }
        Error::Path(_) => Known::new(Exit::Usage, "path_invalid"),
        Error::Snapshot(_) => Known::new(Exit::Usage, "snapshot_invalid")
            .advice("shorten the author, the message or the labels"),
        Error::NoSuchSnapshot(id) => Known::new(Exit::NotFound, "snapshot_not_found")
            .with(json!({ "snapshot": id.to_string() })),
        Error::MissingObject(_) | Error::Damaged { .. } => damaged(),
        Error::Store(error) => of_store(error),
        Error::Io { path, .. } => Known::new(Exit::Failed, "io").with(path_of(path)),
        Error::InTheWay { first, count } => Known::new(Exit::Conflict, "in_the_way")
            .with(json!({ "path": first.to_string(), "count": count }))
            .advice(
                "nothing was changed; save the files with `elevo state commit`, move them away, \
                 or discard them with --force",
            ),
        _ => Known::new(Exit::Failed, "failed"),
    }
}

fn of_store(error: &StoreError) -> Known {
    match error {
        StoreError::ReferenceMoved { name, current } => {
            Known::new(Exit::Conflict, "reference_moved")
                .with(json!({
                    "reference": name,
                    "snapshot": current.map(|id| id.to_string()),
                }))
                .advice("another process has moved it; check where it points and retry")
        }
        StoreError::Refused(_) => Known::new(Exit::Failed, "refused"),
        StoreError::Damaged(_) => damaged(),
        StoreError::ReadOnly => Known::new(Exit::Failed, "read_only"),
        StoreError::Full => Known::new(Exit::Failed, "disk_full").advice(
            "free space on the disk of the store: `elevo state gc` collects unreachable objects",
        ),
        StoreError::Storage(_) => Known::new(Exit::Failed, "storage_failed")
            .advice("check that the disk is not full and that the files of the store are writable"),
    }
}

fn of_workspace(error: &elevo_workspace::Error) -> Known {
    use elevo_workspace::Error;
    let workspace = |id: &elevo_workspace::WorkspaceId| json!({ "workspace": id.as_str() });
    match error {
        Error::NotFound(id) => Known::new(Exit::NotFound, "workspace_not_found")
            .with(workspace(id))
            .advice("`elevo ws ls` lists workspaces"),
        Error::Exists(id) => Known::new(Exit::Conflict, "workspace_exists").with(workspace(id)),
        Error::Parked(id) => Known::new(Exit::Conflict, "workspace_parked")
            .with(workspace(id))
            .advice(format!("`elevo ws resume {id}`")),
        Error::NotParked(id) => Known::new(Exit::Conflict, "workspace_not_parked")
            .with(workspace(id))
            .advice(format!("`elevo ws path {id}` prints its directory")),
        Error::Busy(id) => Known::new(Exit::Busy, "workspace_busy").with(workspace(id)),
        Error::Private(id) => Known::new(Exit::Conflict, "workspace_private").with(workspace(id)),
        Error::InUse { id, pids } => Known::new(Exit::Busy, "workspace_in_use")
            .with(json!({ "workspace": id.as_str(), "pids": pids })),
        Error::Registry { path, line } => Known::new(Exit::Damaged, "registry_damaged")
            .with(json!({ "path": lossy(path), "line": line })),
        Error::NoRegistry(path) => {
            Known::new(Exit::Damaged, "registry_missing").with(json!({ "path": lossy(path) }))
        }
        Error::NoOverlays => Known::new(Exit::Usage, "overlay_unsupported")
            .advice("`elevo doctor` shows which providers work here"),
        Error::NoLimit => Known::new(Exit::Usage, "limit_unsupported")
            .advice("leave out --limit, or run as root with --provider overlay"),
        Error::Engine(error) => of_engine(error),
        Error::Io { path, .. } => Known::new(Exit::Failed, "io")
            .with(json!({ "path": lossy(path) }))
            .advice("`elevo doctor` shows which providers work here"),
        _ => Known::new(Exit::Failed, "failed"),
    }
}

fn of_archive(error: &elevo_archive::Error) -> Known {
    use elevo_archive::Error;
    let refused = |name| Known::new(Exit::Failed, name);
    match error {
        Error::Refused { name, .. } => refused("archive_refused")
            .with(json!({ "entry": name }))
            .advice("nothing was imported; create the archive without this entry"),
        Error::TooLarge(limit) => refused("archive_too_large")
            .with(json!({ "limit": limit }))
            .advice("nothing was imported; if you trust the archive, raise the limit with --max-size SIZE"),
        Error::TooMany(limit) => refused("archive_too_large")
            .with(json!({ "limit": limit }))
            .advice("nothing was imported; if you trust the archive, raise the limit with --max-entries N"),
        Error::CutOff => refused("archive_cut_off")
            .advice("nothing was imported; check whether the program that wrote the archive failed, or get it again"),
        Error::Malformed(_) | Error::Read(_) => refused("archive_unreadable").advice(
            "nothing was imported; use a tar archive that `tar t` can list, plain or compressed \
             with gzip or zstd (without --long)",
        ),
        Error::Engine(error) => of_engine(error),
        Error::Write(_) => Known::new(Exit::Failed, "io").advice("check that the disk is not full"),
        _ => Known::new(Exit::Failed, "failed"),
    }
}

fn of_open(error: &OpenError) -> Known {
    match error {
        OpenError::Busy { path, holder } => Known::new(Exit::Busy, "store_busy")
            .with(json!({ "store": lossy(path), "holder": holder }))
            .advice("--wait SECONDS waits longer"),
        OpenError::NewerFormat {
            path,
            found,
            supported,
        } => Known::new(Exit::Damaged, "newer_format")
            .with(json!({ "store": lossy(path), "found": found, "supported": supported })),
        OpenError::NotAStore { path } => Known::new(Exit::NotFound, "store_not_found")
            .with(json!({ "store": lossy(path) }))
            .advice("create one with `elevo state init`, or name another with --store PATH"),
        OpenError::Backup { path } => Known::new(Exit::Conflict, "is_a_backup")
            .with(json!({ "store": lossy(path) }))
            .advice("`elevo state restore BACKUP DIRECTORY` creates a store from it"),
        OpenError::AlreadyAStore { path } => {
            Known::new(Exit::Conflict, "store_exists").with(json!({ "store": lossy(path) }))
        }
        OpenError::NotEmpty { path, .. } => {
            Known::new(Exit::Conflict, "not_empty").with(json!({ "store": lossy(path) }))
        }
        OpenError::Io { path, .. } => Known::new(Exit::Failed, "io")
            .with(json!({ "store": lossy(path) }))
            .advice("check that you may read and write there"),
        OpenError::Database { path, .. } => Known::new(Exit::Damaged, "database")
            .with(json!({ "store": lossy(path) }))
            .advice(
                "check that the disk is not full and that you may read the files of the store; \
                 otherwise the store is damaged: `elevo state repair --from BACKUP` repairs it if \
                 it can be opened, and `elevo state restore BACKUP DIRECTORY` creates another",
            ),
        _ => Known::new(Exit::Failed, "failed"),
    }
}

fn of_backup(error: &BackupError) -> Known {
    let path_of = |path: &std::path::Path| json!({ "path": lossy(path) });
    match error {
        BackupError::NotABackup { path } => Known::new(Exit::NotFound, "backup_not_found")
            .with(path_of(path))
            .advice(
                "name a backup that `elevo state backup` created, or the directory of the backups",
            ),
        BackupError::Damaged { path, file } => Known::new(Exit::Damaged, "backup_damaged")
            .with(json!({ "path": lossy(path), "file": file }))
            .advice(
                "no store was created; use another backup, or restore the undamaged part of this \
                 one with --accept-damage",
            ),
        BackupError::Busy { path } => Known::new(Exit::Busy, "backup_busy")
            .with(path_of(path))
            .advice("wait for the other backup to end, or back up to another directory"),
        BackupError::Inside { path } => Known::new(Exit::Usage, "backup_inside")
            .with(path_of(path))
            .advice("name a directory outside the store, preferably on another disk"),
        BackupError::Open(error) => of_open(error),
        BackupError::Io { path, .. } => Known::new(Exit::Failed, "io")
            .with(path_of(path))
            .advice("check that the disk is not full and that you may write there"),
        BackupError::Database(_) => Known::new(Exit::Failed, "storage_failed").advice(
            "check that the disk of the store is not full; `elevo state verify` looks for damage",
        ),
        _ => Known::new(Exit::Failed, "failed"),
    }
}

fn of_restore(error: &RestoreError) -> Known {
    let path_of = |path: &std::path::Path| json!({ "path": lossy(path) });
    match error {
        RestoreError::NotABackup { path } => Known::new(Exit::NotFound, "backup_not_found")
            .with(path_of(path))
            .advice(
                "name a backup that `elevo server backup` created, or the directory of the backups",
            ),
        RestoreError::Unfinished { path } => Known::new(Exit::Damaged, "backup_unfinished")
            .with(path_of(path))
            .advice("use an earlier backup; the next `elevo server backup` deletes this one"),
        RestoreError::Damaged { path, file } => Known::new(Exit::Damaged, "backup_damaged")
            .with(json!({ "path": lossy(path), "file": file }))
            .advice("nothing was restored; use another backup"),
        RestoreError::MissingRoots { path, .. } => Known::new(Exit::Damaged, "snapshots_missing")
            .with(path_of(path))
            .advice("nothing was restored; use another backup"),
        RestoreError::NotEmpty { path } => Known::new(Exit::Conflict, "not_empty")
            .with(path_of(path))
            .advice(
                "restore into a new directory, or delete the one that an interrupted restore left",
            ),
        RestoreError::Store(error) => of_backup(error),
        _ => Known::new(Exit::Failed, "failed")
            .advice("check that the disk is not full and that you may write there"),
    }
}

fn damaged() -> Known {
    Known::new(Exit::Damaged, "store_damaged").advice(
        "`elevo state verify` lists what is lost, `elevo state repair --from PATH` restores it from \
         a backup, another store or a directory; check the disk",
    )
}
