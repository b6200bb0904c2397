//! Deletes all workspaces of a tenant at once.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
#[cfg(target_os = "linux")]
use crate::mounts::unmount_below;
#[cfg(target_os = "linux")]
use crate::provider::erase_pool;
use crate::trash;

/// Deletes the workspaces in `root` with their shared data, their pool and
/// `root` itself. They must not be open in any process. Retry a call that was
/// interrupted.
pub fn erase(root: &Path) -> Result<()> {
    let failed = || Error::io("delete", root);
    let root = match root.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed())?,
    };
    #[cfg(target_os = "linux")]
    {
        erase_pool(&root)?;
        unmount_below(&root).map_err(failed())?;
    }
    trash::empty(&root).map_err(failed())?;
    fs::remove_dir(&root).map_err(failed())
}
