//! Exit codes, names and advice for errors of the libraries.

use std::error::Error;

use elevo_engine::StoreError;
use elevo_store_local::{BackupError, OpenError};
use serde_json::{Value, json};

use super::described::{Advice, Described, describe, lossy, plain_failure};
use super::exit::Exit;

/// Returns the exit code, name and advice of an error of a library.
pub(super) fn described(error: &(dyn Error + 'static)) -> Option<Described> {
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
        of_audit(error)
    } else {
        error.downcast_ref().map(of_open)
    }
}

fn of_engine(error: &elevo_engine::Error) -> Described {
    use elevo_engine::Error;
    let path_of = |path: &elevo_core::TreePath| json!({ "path": path.to_string() });
    match error {
        Error::NotFound(path) => describe(
            Exit::NotFound,
            "path_not_found",
            path_of(path),
            "`elevo ls REV` lists the paths of a snapshot",
        ),
        Error::NotADirectory(path) | Error::NotAFile(path) | Error::NotALink(path) => {
            describe(Exit::NotFound, "wrong_kind", path_of(path), Advice::None)
        }
        Error::Path(_) => describe(Exit::Usage, "path_invalid", Value::Null, Advice::None),
        Error::Snapshot(_) => describe(
            Exit::Usage,
            "snapshot_invalid",
            Value::Null,
            "shorten the author, the message or the labels",
        ),
        Error::NoSuchSnapshot(id) => describe(
            Exit::NotFound,
            "snapshot_not_found",
            json!({ "snapshot": id.to_string() }),
            Advice::None,
        ),
        Error::MissingObject(_) | Error::Damaged { .. } => damaged(),
        Error::Store(error) => of_store(error),
        Error::Io { path, .. } => describe(Exit::Failed, "io", path_of(path), Advice::None),
        Error::InTheWay { first, count } => describe(
            Exit::Conflict,
            "in_the_way",
            json!({ "path": first.to_string(), "count": count }),
            "nothing was changed; save the files with `elevo commit`, move them away, \
                 or discard them with --force",
        ),
        // The library may add variants.
        _ => plain_failure(),
    }
}

fn of_store(error: &StoreError) -> Described {
    match error {
        StoreError::ReferenceMoved { name, current } => describe(
            Exit::Conflict,
            "reference_moved",
            json!({
                "reference": name,
                "snapshot": current.map(|id| id.to_string()),
            }),
            "another process has moved it; check where it points and retry",
        ),
        StoreError::Refused(_) => describe(Exit::Failed, "refused", Value::Null, Advice::None),
        StoreError::Damaged(_) => damaged(),
        StoreError::ReadOnly => describe(Exit::Failed, "read_only", Value::Null, Advice::None),
        StoreError::Full => describe(
            Exit::Failed,
            "disk_full",
            Value::Null,
            "free space on the disk of the store: `elevo store gc` collects unreachable objects",
        ),
        StoreError::Unavailable(_) => describe(
            Exit::Failed,
            "storage_failed",
            Value::Null,
            "nothing was changed; retry when the storage can be reached",
        ),
        StoreError::Unknown(_) => describe(
            Exit::Failed,
            "storage_failed",
            Value::Null,
            "check whether the command took effect before you repeat it",
        ),
        StoreError::Lost => describe(
            Exit::Failed,
            "storage_failed",
            Value::Null,
            "nothing was changed; run the command again",
        ),
        StoreError::Storage(_) => describe(
            Exit::Failed,
            "storage_failed",
            Value::Null,
            "check that the disk is not full and that the files of the store are writable",
        ),
    }
}

fn of_workspace(error: &elevo_workspace::Error) -> Described {
    use elevo_workspace::Error;
    let workspace = |id: &elevo_workspace::WorkspaceId| json!({ "workspace": id.as_str() });
    let without_advice = |exit, name, id| describe(exit, name, workspace(id), Advice::None);
    let unsupported = |name, advice: &'static str| describe(Exit::Usage, name, Value::Null, advice);
    match error {
        Error::NotFound(id) => describe(
            Exit::NotFound,
            "workspace_not_found",
            workspace(id),
            "`elevo ws ls` lists workspaces",
        ),
        Error::Exists(id) => without_advice(Exit::Conflict, "workspace_exists", id),
        Error::Parked(id) => describe(
            Exit::Conflict,
            "workspace_parked",
            workspace(id),
            format!("`elevo ws resume {id}`"),
        ),
        Error::NotParked(id) => describe(
            Exit::Conflict,
            "workspace_not_parked",
            workspace(id),
            format!("`elevo ws path {id}` prints its directory"),
        ),
        Error::Busy(id) => without_advice(Exit::Busy, "workspace_busy", id),
        Error::Private(id) => without_advice(Exit::Conflict, "workspace_private", id),
        Error::InUse { id, pids } => describe(
            Exit::Busy,
            "workspace_in_use",
            json!({ "workspace": id.as_str(), "pids": pids }),
            Advice::None,
        ),
        Error::Registry { path, line } => describe(
            Exit::Damaged,
            "registry_damaged",
            json!({ "path": lossy(path), "line": line }),
            Advice::None,
        ),
        Error::NewerRegistry { path, found, known } => {
            newer(json!({ "path": lossy(path), "found": found, "supported": known }))
        }
        Error::NoRegistry(path) => describe(
            Exit::Damaged,
            "registry_missing",
            json!({ "path": lossy(path) }),
            Advice::None,
        ),
        Error::NoOverlays => unsupported(
            "overlay_unsupported",
            "`elevo doctor` shows which providers work here",
        ),
        Error::NoLimit => unsupported(
            "limit_unsupported",
            "leave out --limit, or run as root with --provider overlay",
        ),
        Error::NoBtrfs => unsupported("btrfs_missing", "leave out --limit"),
        Error::Engine(error) => of_engine(error),
        Error::Io { path, .. } => describe(
            Exit::Failed,
            "io",
            json!({ "path": lossy(path) }),
            "`elevo doctor` shows which providers work here",
        ),
        // The library may add variants.
        _ => plain_failure(),
    }
}

fn of_archive(error: &elevo_archive::Error) -> Described {
    use elevo_archive::Error;

    match error {
        Error::Refused { name, .. } => describe(
            Exit::Failed,
            "archive_refused",
            json!({ "entry": name }),
            "nothing was imported; create the archive without this entry",
        ),
        Error::TooLarge(limit) => describe(
            Exit::Failed,
            "archive_too_large",
            json!({ "limit": limit }),
            "nothing was imported; if you trust the archive, raise the limit with --max-size SIZE",
        ),
        Error::TooMany(limit) => describe(
            Exit::Failed,
            "archive_too_large",
            json!({ "limit": limit }),
            "nothing was imported; if you trust the archive, raise the limit with --max-entries N",
        ),
        Error::CutOff => describe(
            Exit::Failed,
            "archive_cut_off",
            Value::Null,
            "nothing was imported; check whether the program that wrote the archive failed, or get it again",
        ),
        Error::Malformed(_) | Error::Read(_) => describe(
            Exit::Failed,
            "archive_unreadable",
            Value::Null,
            "nothing was imported; use a tar archive that `tar t` can list, plain or compressed \
             with gzip or zstd (without --long)",
        ),
        Error::Engine(error) => of_engine(error),
        Error::Write(_) => describe(
            Exit::Failed,
            "io",
            Value::Null,
            "check that the disk is not full",
        ),
        // The library may add variants.
        _ => plain_failure(),
    }
}

fn of_open(error: &OpenError) -> Described {
    match error {
        OpenError::Busy { path, holder } => describe(
            Exit::Busy,
            "store_busy",
            json!({ "store": lossy(path), "holder": holder }),
            "--wait SECONDS waits longer",
        ),
        OpenError::NewerFormat {
            path,
            found,
            supported,
        } => newer(json!({ "store": lossy(path), "found": found, "supported": supported })),
        OpenError::NewerBackup {
            path,
            found,
            supported,
        } => newer(json!({ "path": lossy(path), "found": found, "supported": supported })),
        OpenError::NotAStore { path } => describe(
            Exit::NotFound,
            "store_not_found",
            json!({ "store": lossy(path) }),
            "create one with `elevo init`, or name another with --store PATH",
        ),
        OpenError::Backup { path } => describe(
            Exit::Conflict,
            "is_a_backup",
            json!({ "store": lossy(path) }),
            "`elevo store restore-backup BACKUP DIRECTORY` creates a store from it",
        ),
        OpenError::AlreadyAStore { path } => describe(
            Exit::Conflict,
            "store_exists",
            json!({ "store": lossy(path) }),
            Advice::None,
        ),
        OpenError::NotEmpty { path, .. } => describe(
            Exit::Conflict,
            "not_empty",
            json!({ "store": lossy(path) }),
            Advice::None,
        ),
        OpenError::Io { path, .. } => describe(
            Exit::Failed,
            "io",
            json!({ "store": lossy(path) }),
            "check that you may read and write there",
        ),
        OpenError::Database { path, .. } => describe(
            Exit::Damaged,
            "database",
            json!({ "store": lossy(path) }),
            "check that the disk is not full and that you may read the files of the store; \
                 otherwise the store is damaged: `elevo store repair --from BACKUP` repairs it if \
                 it can be opened, and `elevo store restore-backup BACKUP DIRECTORY` creates another",
        ),
        // The library may add variants.
        _ => plain_failure(),
    }
}

pub(super) fn of_backup(error: &BackupError) -> Described {
    let path_of = |path: &std::path::Path| json!({ "path": lossy(path) });
    match error {
        BackupError::NotABackup { path } => describe(
            Exit::NotFound,
            "backup_not_found",
            path_of(path),
            "name a backup that `elevo store backup` created, or the directory of the backups",
        ),
        BackupError::Damaged { path, file } => describe(
            Exit::Damaged,
            "backup_damaged",
            json!({ "path": lossy(path), "file": file }),
            "no store was created; use another backup, or restore the undamaged part of this \
                 one with --accept-damage",
        ),
        BackupError::Busy { path } => describe(
            Exit::Busy,
            "backup_busy",
            path_of(path),
            "wait for the other backup to end, or back up to another directory",
        ),
        BackupError::Inside { path } => describe(
            Exit::Usage,
            "backup_inside",
            path_of(path),
            "name a directory outside the store, preferably on another disk",
        ),
        BackupError::Open(error) => of_open(error),
        BackupError::Io { path, .. } => describe(
            Exit::Failed,
            "io",
            path_of(path),
            "check that the disk is not full and that you may write there",
        ),
        BackupError::Database(_) => describe(
            Exit::Failed,
            "storage_failed",
            Value::Null,
            "check that the disk of the store is not full; `elevo store verify` looks for damage",
        ),
        // The library may add variants.
        _ => plain_failure(),
    }
}

fn of_audit(error: &elevo_audit::Error) -> Option<Described> {
    match error {
        elevo_audit::Error::Newer {
            directory,
            found,
            known,
        } => Some(newer(
            json!({ "path": lossy(directory), "found": found, "supported": known }),
        )),
        _ => None,
    }
}

/// Describes an error of data that a newer version wrote. Its text has the
/// remedy.
fn newer(details: Value) -> Described {
    describe(Exit::Damaged, "newer_format", details, Advice::None)
}

fn damaged() -> Described {
    describe(
        Exit::Damaged,
        "store_damaged",
        Value::Null,
        "`elevo store verify` lists what is lost, `elevo store repair --from PATH` restores it from \
         a backup, another store or a directory; check the disk",
    )
}
