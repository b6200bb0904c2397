//! Directories that only the server's user may enter.
//!
//! They contain the files of all tenants. Containers reach their workspaces
//! through mounts, which the container engine creates as root, so no other user
//! has to walk these paths.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Mode of a directory that only its owner may enter.
const PRIVATE: u32 = 0o700;
/// Bits of users other than the owner and those in an access list.
const OTHERS: u32 = 0o007;
const GROUP: u32 = 0o070;
/// Set on directories that all users share, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Makes files and directories of this process private from now on.
pub fn keep_private() {
    let _ = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Creates a directory, and closes it to other users if an older server or its
/// administrator left it open. This is logged.
pub(crate) fn private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(PRIVATE).create(path)?;
    close(path)
}

/// Closes a directory to other users, unless it belongs to another user or all
/// users share it.
pub(crate) fn close(path: &Path) -> io::Result<()> {
    let stat = fs::symlink_metadata(path)?;
    // Users that an access list names may pass through: see `owners.rs`.
    let unwanted = match has_access_list(path) {
        true => OTHERS,
        false => OTHERS | GROUP,
    };
    if !stat.is_dir() || stat.mode() & unwanted == 0 {
        return Ok(());
    }
    let (shown, mode) = (path.display(), format!("{:o}", stat.mode() & 0o7777));
    let is_own = stat.uid() == rustix::process::geteuid().as_raw();
    if !is_own || stat.mode() & STICKY != 0 {
        tracing::warn!(
            path = %shown, mode,
            "other users of this machine can enter a directory of the server; \
             choose one that belongs to the server alone"
        );
        return Ok(());
    }
    let closed = stat.mode() & 0o7777 & !unwanted;
    fs::set_permissions(path, Permissions::from_mode(closed))?;
    tracing::warn!(
        path = %shown, mode,
        "other users of this machine could enter a directory of the server; it is closed now"
    );
    Ok(())
}

fn has_access_list(path: &Path) -> bool {
    let mut value = vec![0; crate::platform::owners::LONGEST];
    rustix::fs::getxattr(path, crate::platform::owners::NAME, &mut value[..]).is_ok()
}
