//! Errors of the libraries below.

use std::error::Error;

use elevo_engine::StoreError;
use elevo_server::RestoreError;
use elevo_store_local::{BackupError, OpenError};
use serde_json::json;

use super::{Exit, Known, lossy};

/// What is known about an error of a library.
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
            .advice("`elevo state ls REV` lists what there is"),
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
                "nothing was changed; keep what is there with `elevo state commit` or move it \
                 away, or give it up with --force",
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
                .advice("somebody else moved it in the meantime; look at it and try again")
        }
        StoreError::Refused(_) => Known::new(Exit::Failed, "refused"),
        StoreError::Damaged(_) => damaged(),
        StoreError::ReadOnly => Known::new(Exit::Failed, "read_only"),
        StoreError::Full => Known::new(Exit::Failed, "disk_full").advice(
            "make room on the disk of the store: `elevo state gc` removes what nothing needs",
        ),
        StoreError::Storage(_) => Known::new(Exit::Failed, "storage_failed")
            .advice("see whether the disk is full and the store's files can be written"),
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
            .advice(format!("`elevo ws path {id}` says where it is")),
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
            .advice("`elevo doctor` says what works here"),
        Error::NoLimit => Known::new(Exit::Usage, "limit_unsupported")
            .advice("leave out --limit, or run as root with --provider overlay"),
        Error::Engine(error) => of_engine(error),
        Error::Io { path, .. } => Known::new(Exit::Failed, "io")
            .with(json!({ "path": lossy(path) }))
            .advice("`elevo doctor` says what works here"),
        _ => Known::new(Exit::Failed, "failed"),
    }
}

fn of_archive(error: &elevo_archive::Error) -> Known {
    use elevo_archive::Error;
    let refused = |name| Known::new(Exit::Failed, name);
    match error {
        Error::Refused { name, .. } => refused("archive_refused")
            .with(json!({ "entry": name }))
            .advice("nothing was kept; make the archive without this entry"),
        Error::TooLarge(limit) => refused("archive_too_large")
            .with(json!({ "limit": limit }))
            .advice("nothing was kept; if it is to be trusted, take more with --max-size SIZE"),
        Error::TooMany(limit) => refused("archive_too_large")
            .with(json!({ "limit": limit }))
            .advice("nothing was kept; if it is to be trusted, take more with --max-entries N"),
        Error::CutOff => refused("archive_cut_off")
            .advice("nothing was kept; see whether what wrote it has failed, or get it again"),
        Error::Malformed(_) | Error::Read(_) => refused("archive_unreadable").advice(
            "nothing was kept; it should be a tar, plain or compressed by gzip or zstd (without \
             --long), that `tar t` can list",
        ),
        Error::Engine(error) => of_engine(error),
        Error::Write(_) => Known::new(Exit::Failed, "io").advice("see whether the disk is full"),
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
            .advice("make one with `elevo state init`, or name another with --store PATH"),
        OpenError::Backup { path } => Known::new(Exit::Conflict, "is_a_backup")
            .with(json!({ "store": lossy(path) }))
            .advice("`elevo state restore BACKUP DIRECTORY` makes a store of it"),
        OpenError::AlreadyAStore { path } => {
            Known::new(Exit::Conflict, "store_exists").with(json!({ "store": lossy(path) }))
        }
        OpenError::NotEmpty { path, .. } => {
            Known::new(Exit::Conflict, "not_empty").with(json!({ "store": lossy(path) }))
        }
        OpenError::Io { path, .. } => Known::new(Exit::Failed, "io")
            .with(json!({ "store": lossy(path) }))
            .advice("see whether you may read and write there"),
        OpenError::Database { path, .. } => Known::new(Exit::Damaged, "database")
            .with(json!({ "store": lossy(path) }))
            .advice(
                "see whether the disk is full and you may read the store's files; if not, it is \
                 damaged: `elevo state repair --from BACKUP` puts it right if it can be opened at \
                 all, and `elevo state restore BACKUP DIRECTORY` makes another",
            ),
        _ => Known::new(Exit::Failed, "failed"),
    }
}

fn of_backup(error: &BackupError) -> Known {
    let path_of = |path: &std::path::Path| json!({ "path": lossy(path) });
    match error {
        BackupError::NotABackup { path } => Known::new(Exit::NotFound, "backup_not_found")
            .with(path_of(path))
            .advice("name a backup that `elevo state backup` made, or the directory they are in"),
        BackupError::Damaged { path, file } => Known::new(Exit::Damaged, "backup_damaged")
            .with(json!({ "path": lossy(path), "file": file }))
            .advice(
                "no store was made; take another backup, or what is left of this one with \
                 --accept-damage",
            ),
        BackupError::Busy { path } => Known::new(Exit::Busy, "backup_busy")
            .with(path_of(path))
            .advice("wait for it to end, or back up to another directory"),
        BackupError::Inside { path } => Known::new(Exit::Usage, "backup_inside")
            .with(path_of(path))
            .advice("name a directory that is not in the store, best on another disk"),
        BackupError::Open(error) => of_open(error),
        BackupError::Io { path, .. } => Known::new(Exit::Failed, "io")
            .with(path_of(path))
            .advice("see whether the disk is full and you may write there"),
        BackupError::Database(_) => Known::new(Exit::Failed, "storage_failed").advice(
            "see whether the disk of the store is full; `elevo state verify` looks for damage",
        ),
        _ => Known::new(Exit::Failed, "failed"),
    }
}

fn of_restore(error: &RestoreError) -> Known {
    let path_of = |path: &std::path::Path| json!({ "path": lossy(path) });
    match error {
        RestoreError::NotABackup { path } => Known::new(Exit::NotFound, "backup_not_found")
            .with(path_of(path))
            .advice("name a backup that `elevo server backup` made, or the directory they are in"),
        RestoreError::Unfinished { path } => Known::new(Exit::Damaged, "backup_unfinished")
            .with(path_of(path))
            .advice("take an earlier backup; the next `elevo server backup` removes this one"),
        RestoreError::Damaged { path, file } => Known::new(Exit::Damaged, "backup_damaged")
            .with(json!({ "path": lossy(path), "file": file }))
            .advice("nothing was restored; take another backup"),
        RestoreError::MissingRoots { path, .. } => Known::new(Exit::Damaged, "snapshots_missing")
            .with(path_of(path))
            .advice("nothing was restored; take another backup"),
        RestoreError::NotEmpty { path } => Known::new(Exit::Conflict, "not_empty")
            .with(path_of(path))
            .advice("restore into a new directory, or remove the one that a restore left when it was killed"),
        RestoreError::Store(error) => of_backup(error),
        _ => Known::new(Exit::Failed, "failed")
            .advice("see whether the disk is full and you may write there"),
    }
}

fn damaged() -> Known {
    Known::new(Exit::Damaged, "store_damaged").advice(
        "`elevo state verify` tells what is lost, `elevo state repair --from PATH` takes it from a \
         backup, another store or a directory; check the disk",
    )
}
