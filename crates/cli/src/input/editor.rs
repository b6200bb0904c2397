//! Opens texts in the user's editor.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::errors::FileProblem;
use crate::input::file;

/// Maximum bytes of an edited text.
const LARGEST: u64 = 64 << 20;

/// An edited text in a temporary file, which is deleted on drop.
#[derive(Debug)]
pub(crate) struct Edited {
    directory: TempDir,
    path: PathBuf,
}

/// Opens a text in the user's editor and waits until the editor ends. The last
/// component of `name` becomes the name of the file.
pub(crate) fn edit(name: &str, text: &[u8]) -> Result<Edited, FileProblem> {
    // The text may be of a private project: no other user may read it.
    let mut directory = tempfile::Builder::new();
    directory.permissions(Permissions::from_mode(0o700));
    let directory = directory.prefix("elevo-edit-").tempdir();
    let directory = directory.map_err(|source| FileProblem::Io {
        action: "create a directory in",
        path: std::env::temp_dir(),
        source,
    })?;
    let path = directory.path().join(harmless(name));
    write(&path, text).map_err(|source| FileProblem::Io {
        action: "write",
        path: path.clone(),
        source,
    })?;
    let edited = Edited { directory, path };
    open(edited.path())?;
    Ok(edited)
}

/// Creates a file that only this user can read.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text)
}

/// Returns the last component of a path if it is a safe file name, or `file`.
fn harmless(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or_default();
    let is_harmless = !last.starts_with('-') && !last.contains(char::is_control);
    match last {
        "" | "." | ".." => "file",
        last if is_harmless && last.len() < 200 => last,
        _ => "file",
    }
}

/// Runs the editor as a shell command, as git does.
fn open(path: &Path) -> Result<(), FileProblem> {
    let named = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|it| !it.trim().is_empty()));
    let editor = named.unwrap_or_else(|| "vi".into());
    let ran = Command::new("/bin/sh")
        .args(["-c", &format!("{editor} \"$@\""), &editor])
        .arg(path)
        .status();
    let failed = |source| FileProblem::Editor {
        editor: editor.clone(),
        source,
    };
    let status = ran.map_err(failed)?;
    match status.success() {
        true => Ok(()),
        false => Err(failed(io::Error::other(format!(
            "the editor ended with {status}"
        )))),
    }
}

impl Edited {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the current content of the file.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, FileProblem> {
        file::read_bytes(&self.path, LARGEST)
    }

    /// Keeps the file and returns its path.
    pub(crate) fn keep(self) -> PathBuf {
        // The directory does not move, so the path stays valid.
        let _ = self.directory.keep();
        self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_user_can_read_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        write(&path, b"secret").unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(write(&path, b"other").is_err());
    }

    #[test]
    fn a_file_is_named_after_the_last_component_if_that_is_safe() {
        assert_eq!(harmless("src/main.rs"), "main.rs");
        for odd in ["", "..", "a/..", "a/", "-rf", "a/\x1b[2J"] {
            assert_eq!(harmless(odd), "file", "{odd}");
        }
    }
}
