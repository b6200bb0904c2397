use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::mount_bind;

use crate::mounts::unmount_all;

/// A mount that shows whether other processes see the mounts of this one.
/// Unmounted and deleted when dropped.
#[derive(Debug)]
pub struct ProbeMount {
    directory: PathBuf,
}

impl ProbeMount {
    /// Creates `directory` with a mount in it. Fails if this process may not
    /// mount.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let (source, point) = (directory.join("source"), directory.join("mount"));
        fs::create_dir_all(source.join("inside"))?;
        let probe = Self {
            directory: directory.to_owned(),
        };
        fs::create_dir(&point)?;
        mount_bind(&source, &point)?;
        Ok(probe)
    }

    /// Returns a directory that exists only for processes that see the mount.
    pub fn inside(&self) -> PathBuf {
        self.directory.join("mount/inside")
    }
}

impl Drop for ProbeMount {
    fn drop(&mut self) {
        if unmount_all(&self.directory.join("mount")).is_ok() {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}
