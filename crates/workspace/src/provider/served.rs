//! Snapshots that a [`LazyServer`] shows below overlays until they are written
//! out as layers.
//!
//! ```text
//! lazy/ID/        a mount that shows a snapshot; ID is that of its layer
//! lazy/ID.making  held while the mount is created
//! ```
//!
//! A mount is shared by all workspaces with its snapshot and owner, and is
//! removed when no workspace has that origin any more.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::layers::layer_id;
use super::{LazyServer, Origin};
use crate::error::{Error, Result};
use crate::lock;
use crate::mounts::{is_mount, unmount_all};

/// Suffix of the lock that is held while a snapshot is mounted.
const MAKING: &str = ".making";

/// The file in `live/ID` of a workspace that is mounted over a served snapshot.
/// It holds the id of the layer and the device number of its mount. A new mount
/// of the same snapshot has another number.
const RECORD: &str = "lazy";

/// The served snapshots of a directory.
#[derive(Debug)]
pub(super) struct ServedSnapshots {
    directory: PathBuf,
    server: Arc<dyn LazyServer>,
}

impl ServedSnapshots {
    pub(super) fn new(root: &Path, server: Arc<dyn LazyServer>) -> Self {
        Self {
            directory: root.join("lazy"),
            server,
        }
    }

    fn path(&self, layer: &str) -> PathBuf {
        self.directory.join(layer)
    }

    /// Returns the directory that shows an origin, and mounts it if necessary.
    pub(super) fn serve(&self, origin: Origin<'_>) -> Result<PathBuf> {
        let layer = layer_id(origin.snapshot, origin.owner);
        let path = self.path(&layer);
        if is_served(&path) {
            return Ok(path);
        }
        let failed = || Error::io("serve a snapshot in", &self.directory);
        fs::create_dir_all(&self.directory).map_err(failed())?;
        match fs::create_dir(&path) {
            // The directory may be a mount whose server has died, for which
            // `create_dir_all` would fail.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed())?,
        }
        let making = self.directory.join(format!("{layer}{MAKING}"));
        let _making = lock::exclusive(&making).map_err(failed())?;
        if !is_served(&path) {
            // Removes a mount whose server has died.
            unmount_all(&path).map_err(failed())?;
            let served = self.server.serve(origin.id, &path, origin.owner);
            served.map_err(failed())?;
        }
        Ok(path)
    }

    /// Records whether a workspace is mounted over a served snapshot or over
    /// layers.
    pub(super) fn record(&self, live_dir: &Path, served: Option<&str>) -> Result<()> {
        let record = live_dir.join(RECORD);
        let recorded = match served {
            Some(layer) => device(&self.path(layer))
                .and_then(|device| fs::write(&record, format!("{layer} {device}"))),
            None => match fs::remove_file(&record) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        };
        recorded.map_err(Error::io("write", &record))
    }

    /// Whether the snapshot below a workspace is still served; true for a
    /// workspace over layers.
    pub(super) fn is_alive(&self, live_dir: &Path) -> bool {
        let Ok(record) = fs::read_to_string(live_dir.join(RECORD)) else {
            return true;
        };
        let (layer, recorded) = record.split_once(' ').unwrap_or((&record, ""));
        let path = self.path(layer);
        // If the snapshot was mounted again, the overlay is still over the old
        // mount, whose server is dead.
        is_served(&path) && device(&path).is_ok_and(|device| device.to_string() == recorded)
    }

    /// Unmounts snapshots that none of `used` needs. A mount that is still below
    /// an overlay ends with that overlay.
    pub(super) fn tidy(&self, used: &[Origin<'_>]) -> Result<()> {
        let failed = || Error::io("clean up", &self.directory);
        let used = used.iter();
        let used: HashSet<_> = used
            .map(|origin| layer_id(origin.snapshot, origin.owner))
            .collect();
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(failed())?,
        };
        for entry in entries {
            let entry = entry.map_err(failed())?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.ends_with(MAKING)) else {
                continue;
            };
            if used.contains(name) {
                continue;
            }
            let making = self.directory.join(format!("{name}{MAKING}"));
            // A caller that holds the lock is creating the mount.
            let Some(_making) = lock::try_exclusive(&making).map_err(failed())? else {
                continue;
            };
            unmount_all(&entry.path()).map_err(failed())?;
            fs::remove_dir(entry.path()).map_err(failed())?;
            fs::remove_file(&making).map_err(failed())?;
        }
        Ok(())
    }
}

fn device(path: &Path) -> io::Result<u64> {
    Ok(fs::metadata(path)?.dev())
}

/// Whether the server of the mount responds.
fn is_served(path: &Path) -> bool {
    is_mount(path).unwrap_or(false) && rustix::fs::statfs(path).is_ok()
}
