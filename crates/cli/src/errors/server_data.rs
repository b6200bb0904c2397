//! Errors of restoring a server, of copying its catalog, and of copying or opening its
//! store.

use std::error::Error;

use elevo_server::{CopyError, RestoreError, StoreCopyError};
use serde_json::{Value, json};

use super::described::{Advice, Described, describe, lossy};
use super::exit::Exit;
use super::library::of_backup;

/// Returns the exit code, name and advice of an error of restoring or copying.
pub(super) fn described(error: &(dyn Error + 'static)) -> Option<Described> {
    if let Some(error) = error.downcast_ref() {
        return Some(of_restore(error));
    }
    let of_catalog = error.downcast_ref().map(of_copy);
    of_catalog.or_else(|| error.downcast_ref().map(of_store_copy))
}

fn of_restore(error: &RestoreError) -> Described {
    let path_of = |path: &std::path::Path| json!({ "path": lossy(path) });
    match error {
        RestoreError::NotABackup { path } => describe(
            Exit::NotFound,
            "backup_not_found",
            path_of(path),
            "name a backup that `elevo server backup` created, or the directory of the backups",
        ),
        RestoreError::Unfinished { path } => describe(
            Exit::Damaged,
            "backup_unfinished",
            path_of(path),
            "use an earlier backup; the next `elevo server backup` deletes this one",
        ),
        RestoreError::Damaged { path, file } => describe(
            Exit::Damaged,
            "backup_damaged",
            json!({ "path": lossy(path), "file": file }),
            "nothing was restored; use another backup",
        ),
        RestoreError::MissingRoots { path, .. } => describe(
            Exit::Damaged,
            "snapshots_missing",
            path_of(path),
            "nothing was restored; use another backup",
        ),
        RestoreError::NotEmpty { path } => describe(
            Exit::Conflict,
            "not_empty",
            path_of(path),
            "restore into a new directory, or delete the one that an interrupted restore left",
        ),
        RestoreError::Newer {
            path,
            part: _,
            found,
            known,
        } => describe(
            Exit::Damaged,
            "newer_format",
            json!({ "path": lossy(path), "found": found, "supported": known }),
            "nothing was restored; install the version that made the backup or a newer one, or \
             use an earlier backup",
        ),
        RestoreError::Store(error) => of_backup(error),
        _ => of_database(error),
    }
}

/// Describes the errors about the database of a backup without a catalog, and
/// those without a name.
fn of_database(error: &RestoreError) -> Described {
    match error {
        RestoreError::NeedsDatabase { path, position } => describe(
            Exit::Usage,
            "database_needed",
            json!({ "path": lossy(path), "position": position }),
            "recover the database up to that position or a little later (recovery_target_lsn), \
             and set CATALOG_URL to its URL",
        ),
        RestoreError::ForeignDatabase { path, .. } => describe(
            Exit::Conflict,
            "database_foreign",
            json!({ "path": lossy(path) }),
            "set CATALOG_URL to the recovered database of the server that made the backup",
        ),
        RestoreError::OlderDatabase { path, position, .. } => describe(
            Exit::Conflict,
            "database_older",
            json!({ "path": lossy(path), "position": position }),
            "recover the database up to that position (recovery_target_lsn), or use an earlier \
             backup",
        ),
        RestoreError::DatabaseInUse { .. } => describe(
            Exit::Conflict,
            "database_in_use",
            Value::Null,
            "stop that server and retry after ten seconds, or recover into another database",
        ),
        _ => describe(
            Exit::Failed,
            "failed",
            Value::Null,
            "check that the disk is not full and that you may write there",
        ),
    }
}

fn of_copy(error: &CopyError) -> Described {
    match error {
        CopyError::NoCatalog(_) => describe(
            Exit::NotFound,
            "catalog_not_found",
            Value::Null,
            "name the file catalog.db in the data directory of a server, or the database of \
             CATALOG_URL",
        ),
        CopyError::InUse(_) => describe(
            Exit::Conflict,
            "catalog_in_use",
            Value::Null,
            "stop the server with `elevo down`, and retry after ten seconds",
        ),
        CopyError::Refused { .. } => describe(
            Exit::Conflict,
            "catalog_copy_refused",
            Value::Null,
            Advice::None,
        ),
        _ => describe(
            Exit::Failed,
            "failed",
            Value::Null,
            "check the URL; `CATALOG_URL=URL elevo doctor` examines a database",
        ),
    }
}

fn of_store_copy(error: &StoreCopyError) -> Described {
    match error {
        StoreCopyError::NoStore(_) => describe(
            Exit::NotFound,
            "store_not_found",
            Value::Null,
            "name the directory `store` in the data directory of a server, or the database of \
             STORE_URL",
        ),
        StoreCopyError::InUse(_) => describe(
            Exit::Conflict,
            "store_in_use",
            Value::Null,
            "stop the servers that use it with `elevo down`, and retry after 15 seconds",
        ),
        StoreCopyError::Foreign { installation, .. } => describe(
            Exit::Conflict,
            "installation_foreign",
            json!({ "installation": installation }),
            "copy into a new directory, or into an empty database with an unused S3_PREFIX",
        ),
        StoreCopyError::Newer(_) => describe(
            Exit::Conflict,
            "store_newer",
            Value::Null,
            "servers have used it since the last copy; use it, or copy into an empty place",
        ),
        StoreCopyError::Failed(_) => describe(
            Exit::Failed,
            "copy_interrupted",
            Value::Null,
            "run the same command again: it continues",
        ),
        _ => describe(
            Exit::Failed,
            "failed",
            Value::Null,
            "check the URL and the S3_ settings; `elevo doctor` examines those of the environment",
        ),
    }
}
