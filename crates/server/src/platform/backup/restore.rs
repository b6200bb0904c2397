//! Creates a data directory from a backup of a server.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use elevo_catalog::{Catalog, INSTALLATION, SqliteCatalog, SqliteOptions};
use elevo_engine::{Progress, ServerStamp};
use elevo_store_local::{BackupError, LocalStore, Options, set_server_stamp};

use crate::config::CatalogDatabase;
use crate::platform::backup::database::RecoveredDatabase;
use crate::platform::backup::manifest::{self, FoundManifest, Manifest};
use crate::platform::backup::restore_error::RestoreError;
use crate::platform::backup::{CATALOG, STORE, UNFINISHED, WORKSPACES, all, files};
use crate::platform::installation;
use crate::platform::{clock, vault};

/// The name of the catalog file until everything else is restored.
const RESTORING: &str = "catalog.db.restoring";

/// A restored server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredServer {
    /// The backup that the server was restored from.
    pub backup: PathBuf,
    /// When the backup began.
    pub begun: String,
    /// The id of the new installation.
    pub installation: String,
    /// The size of the backup in bytes.
    pub bytes: u64,
    /// The id of the key that the server's secrets are encrypted with; absent
    /// if it has no secrets. Backups do not contain the key.
    pub secrets_key: Option<String>,
}

/// Restores a backup of a server, or the newest backup in a directory, into
/// `data`, which must be empty or not exist. The workspaces go into
/// `workspaces`, or below `data`. Every file is compared with its hash, and
/// every snapshot that the catalog refers to must be in the store.
///
/// If the backup has no catalog, `database` must have it: a recovered database
/// that no server uses.
///
/// The restored server is a new installation with another id, so that it never
/// changes the containers of the original server.
///
/// The catalog gets its name last, or a catalog in a database its id: without
/// it, a server does not start with the files of a killed restore. A restore
/// that fails deletes its files.
pub async fn restore_server(
    backup: &Path,
    data: &Path,
    workspaces: Option<&Path>,
    database: Option<&CatalogDatabase>,
    progress: &Progress,
) -> Result<RestoredServer, RestoreError> {
    let backup = find(backup)?;
    let places = Places {
        data: data.into(),
        workspaces: workspaces.map_or_else(|| data.join(WORKSPACES), Into::into),
        database: database.cloned(),
    };
    places.check_empty()?;
    let restored = places.fill(&backup, progress).await;
    if restored.is_err() {
        places.clear();
    }
    restored
}

/// Returns the backup at `path`, or the newest backup in this directory.
fn find(path: &Path) -> Result<PathBuf, RestoreError> {
    if path.file_name().is_some_and(|name| name == UNFINISHED) {
        return Err(RestoreError::Unfinished { path: path.into() });
    }
    if manifest::is_backup(path) {
        return Ok(path.into());
    }
    if path.join(CATALOG).exists() || path.join(STORE).exists() {
        return Err(RestoreError::Unfinished { path: path.into() });
    }
    let newest = all(path).map_err(RestoreError::io(path))?.pop();
    match (newest, path.join(UNFINISHED)) {
        (Some(newest), _) => Ok(newest),
        (None, unfinished) if unfinished.exists() => {
            Err(RestoreError::Unfinished { path: unfinished })
        }
        (None, _) => Err(RestoreError::NotABackup { path: path.into() }),
    }
}

/// The directories that a server is restored into.
#[derive(Debug)]
struct Places {
    data: PathBuf,
    workspaces: PathBuf,
    database: Option<CatalogDatabase>,
}

impl Places {
    fn check_empty(&self) -> Result<(), RestoreError> {
        for path in [&self.data, &self.workspaces] {
            let first = match fs::read_dir(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                entries => entries.map_err(RestoreError::io(path))?.next(),
            };
            if first.is_some() {
                return Err(RestoreError::NotEmpty { path: path.clone() });
            }
        }
        Ok(())
    }

    /// Deletes the files of a failed restore. The directories were empty
    /// before.
    fn clear(&self) {
        for directory in [&self.data, &self.workspaces] {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            for entry in entries {
                let path = entry.path();
                // Files that cannot be deleted are harmless: without a catalog,
                // a server does not start with them.
                let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
            }
        }
    }

    async fn fill(
        &self,
        backup: &Path,
        progress: &Progress,
    ) -> Result<RestoredServer, RestoreError> {
        let manifest = Manifest::read(backup).map_err(RestoreError::io(backup))?;
        let manifest = match manifest {
            FoundManifest::Whole(manifest) => manifest,
            FoundManifest::Damaged => {
                return Err(RestoreError::Damaged {
                    path: backup.into(),
                    file: manifest::FILE.into(),
                });
            }
            FoundManifest::Newer(found) => {
                return Err(RestoreError::Newer {
                    path: backup.into(),
                    part: "the backup",
                    found: found.into(),
                    known: manifest::FORMAT.into(),
                });
            }
        };
        let database = match &manifest.database {
            None => None,
            Some(position) => {
                let found = RecoveredDatabase::find(backup, &manifest, position, &self.database);
                Some(found.await?)
            }
        };
        for path in [&self.data, &self.workspaces] {
            let mut builder = DirBuilder::new();
            let made = builder.recursive(true).mode(0o700).create(path);
            made.map_err(RestoreError::io(path))?;
        }
        self.copy_files(backup, &manifest, progress)?;
        let store = self.data.join(STORE);
        let options = Options {
            holder: format!("`elevo server restore` (process {})", std::process::id()),
            ..Options::default()
        };
        let restored =
            elevo_store_local::restore(&backup.join(STORE), &store, false, &options, progress)?;
        let installation = clock::name("");
        let secrets_key = match database {
            None => {
                let key = self.check_catalog(backup, &installation).await?;
                self.stamp(&installation, manifest.generation)?;
                self.name_catalog()?;
                key
            }
            Some(database) => {
                self.check_roots(backup, &*database.catalog).await?;
                self.stamp(&installation, database.generation)?;
                database.adopt(&installation).await?
            }
        };
        Ok(RestoredServer {
            backup: backup.into(),
            begun: manifest.begun.clone(),
            installation,
            bytes: manifest.bytes() + restored.bytes,
            secrets_key,
        })
    }

    fn copy_files(
        &self,
        backup: &Path,
        manifest: &Manifest,
        progress: &Progress,
    ) -> Result<(), RestoreError> {
        for (name, listed) in &manifest.files {
            let from = backup.join(name);
            let found = match self.place_of(name) {
                Some(to) => copy(&from, &to)?,
                None => files::look(&from).map_err(RestoreError::io(&from))?,
            };
            progress.add(1, found.size);
            if found != *listed {
                let (path, file) = (backup.into(), name.clone());
                return Err(RestoreError::Damaged { path, file });
            }
        }
        Ok(())
    }

    /// Returns the path to restore a file to; `None` for the files of the
    /// store, which `elevo-store-local` restores.
    fn place_of(&self, name: &str) -> Option<PathBuf> {
        let path = Path::new(name);
        if name == CATALOG {
            return Some(self.data.join(RESTORING));
        }
        match path.strip_prefix(WORKSPACES) {
            Ok(below) => Some(self.workspaces.join(below)),
            Err(_) if path.starts_with(STORE) => None,
            Err(_) => Some(self.data.join(path)),
        }
    }

    /// Migrates the catalog to the current format, checks that the store has
    /// the catalog's roots, and writes the id of the new installation to the
    /// catalog. Returns the id of the key of the catalog's secrets.
    async fn check_catalog(&self, backup: &Path, id: &str) -> Result<Option<String>, RestoreError> {
        let path = self.data.join(RESTORING);
        let catalog = SqliteCatalog::open(&path, &SqliteOptions::default()).await;
        let catalog = catalog.map_err(|error| match error {
            elevo_catalog::Error::Newer { found, known } => RestoreError::Newer {
                path: backup.into(),
                part: "the catalog of the backup",
                found,
                known,
            },
            error => error.into(),
        })?;
        self.check_roots(backup, &*catalog).await?;
        catalog.set_setting(INSTALLATION, id).await?;
        let secrets_key = catalog.setting(vault::SECRETS_KEY).await?;
        catalog.close().await;
        Ok(secrets_key)
    }

    /// Checks that the store has the roots of the catalog.
    async fn check_roots(&self, backup: &Path, catalog: &dyn Catalog) -> Result<(), RestoreError> {
        let store = LocalStore::open_read_only(&self.data.join(STORE), &Options::default());
        let store = store.map_err(BackupError::from)?;
        let missing = installation::missing(catalog, &store).await;
        match missing.map_err(|error| RestoreError::Roots(error.into()))? {
            None => Ok(()),
            Some(missing) => Err(RestoreError::MissingRoots {
                path: backup.into(),
                missing,
            }),
        }
    }

    /// Deletes the copies of the catalog that the migration made: the backup
    /// has the catalog in its old format.
    fn remove_old_formats(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.data)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_old = |name: &str| name.starts_with(&format!("{RESTORING}."));
            if name.to_str().is_some_and(is_old) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn stamp(&self, id: &str, generation: u64) -> Result<(), RestoreError> {
        let stamp = ServerStamp {
            installation: id.into(),
            generation,
        };
        set_server_stamp(&self.data.join(STORE), &stamp).map_err(BackupError::from)?;
        let root = &self.workspaces;
        installation::write_root_stamp(root, id).map_err(RestoreError::io(root))?;
        let finish = || {
            for directory in [&self.data, &self.workspaces] {
                files::list(directory, &self.data.join(STORE))?;
            }
            files::sync(&self.data)
        };
        finish().map_err(RestoreError::io(&self.data))
    }

    /// Gives the catalog in a file its name.
    fn name_catalog(&self) -> Result<(), RestoreError> {
        let name = || {
            self.remove_old_formats()?;
            fs::rename(self.data.join(RESTORING), self.data.join(CATALOG))?;
            files::sync(&self.data)
        };
        name().map_err(RestoreError::io(&self.data))
    }
}

fn copy(from: &Path, to: &Path) -> Result<manifest::Listed, RestoreError> {
    if let Some(directory) = to.parent() {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(directory);
        made.map_err(RestoreError::io(directory))?;
    }
    files::copy(from, to, u64::MAX).map_err(RestoreError::io(to))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use elevo_testkit::fixtures;

    use super::*;

    /// Returns the error of restoring a backup. Nothing may be left of it.
    async fn refused(backup: &Path) -> RestoreError {
        let data = backup.with_file_name("restored");
        let restored = restore_server(backup, &data, None, None, &Progress::new()).await;
        let left = fs::read_dir(&data).map_or(0, Iterator::count);
        assert_eq!(left, 0, "files are left");
        restored.unwrap_err()
    }

    #[tokio::test]
    async fn a_backup_of_a_newer_format_is_refused() {
        let unpacked = fixtures::all()[0].unpack("backup.tar.gz");
        let backup = find(&unpacked.path().join("backups")).unwrap();
        let manifest = backup.join(manifest::FILE);
        let text = fs::read_to_string(&manifest).unwrap();
        let newer = text.replacen("elevo server backup 1", "elevo server backup 3", 1);
        fs::write(&manifest, newer).unwrap();
        let error = refused(&backup).await;
        let text = error.to_string();
        assert!(text.starts_with("the backup /"), "{text}");
        let formats = "has format 3, and this version of Elevo reads up to 2";
        assert!(text.ends_with(formats), "{text}");
    }

    #[tokio::test]
    async fn a_backup_with_a_catalog_of_a_newer_format_is_refused() {
        let unpacked = fixtures::all()[0].unpack("backup.tar.gz");
        let backup = find(&unpacked.path().join("backups")).unwrap();
        let FoundManifest::Whole(mut manifest) = Manifest::read(&backup).unwrap() else {
            panic!("the manifest cannot be read");
        };
        let catalog = backup.join(CATALOG);
        let add = "insert into _sqlx_migrations (version, description, success, checksum, \
                   execution_time) values (9999, 'new', true, x'00', 0)";
        let changed = Command::new("sqlite3").arg(&catalog).arg(add).status();
        assert!(changed.unwrap().success());
        let listed = files::look(&catalog).unwrap();
        manifest.files.insert(CATALOG.into(), listed);
        Manifest::remove(&backup).unwrap();
        manifest.write(&backup).unwrap();
        let error = refused(&backup).await;
        assert!(
            matches!(error, RestoreError::Newer { found: 9999, .. }),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(text.starts_with("the catalog of the backup /"), "{text}");
    }
}
