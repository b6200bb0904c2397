//! The files that a release installs beside the server's binary.

use std::path::{Path, PathBuf};

use crate::config::Config;

/// Returns the directory of the documentation and of the first template's image:
/// that of the settings, or `../share/elevo` from the directory of the binary. It
/// may not exist.
pub(crate) fn share_directory(config: &Config) -> PathBuf {
    if let Some(path) = &config.share_dir {
        return path.clone();
    }
    let own = std::env::current_exe().and_then(std::fs::canonicalize);
    let own = own.unwrap_or_default();
    let prefix = own.parent().and_then(Path::parent);
    prefix.unwrap_or(Path::new("/usr")).join("share/elevo")
}
