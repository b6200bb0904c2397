//! Texts that somebody changes in an editor.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::errors::Problem;
use crate::input;

/// What comes back from an editor has at most this many bytes.
const LARGEST: u64 = 64 << 20;

/// A text that was edited, in a file that goes away with it.
#[derive(Debug)]
pub(crate) struct Edited {
    directory: TempDir,
    path: PathBuf,
}

/// Opens a text in the user's editor, under a name that tells what it is, and
/// waits until that is closed.
pub(crate) fn edit(name: &str, text: &[u8]) -> Result<Edited, Problem> {
    let directory = tempfile::Builder::new().prefix("elevo-edit-").tempdir();
    let directory = directory.map_err(|source| Problem::Io {
        action: "make a directory in",
        path: std::env::temp_dir(),
        source,
    })?;
    let path = directory.path().join(harmless(name));
    fs::write(&path, text).map_err(|source| Problem::Io {
        action: "write",
        path: path.clone(),
        source,
    })?;
    let edited = Edited { directory, path };
    open(edited.path())?;
    Ok(edited)
}

/// The last part of a path, if it can be a file's name here.
fn harmless(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or_default();
    let is_harmless = !last.starts_with('-') && !last.contains(char::is_control);
    match last {
        "" | "." | ".." => "file",
        last if is_harmless && last.len() < 200 => last,
        _ => "file",
    }
}

/// As git does: the editor is a command of the shell.
fn open(path: &Path) -> Result<(), Problem> {
    let named = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|it| !it.trim().is_empty()));
    let editor = named.unwrap_or_else(|| "vi".into());
    let ran = Command::new("/bin/sh")
        .args(["-c", &format!("{editor} \"$@\""), &editor])
        .arg(path)
        .status();
    let failed = |source| Problem::Editor {
        editor: editor.clone(),
        source,
    };
    let status = ran.map_err(failed)?;
    match status.success() {
        true => Ok(()),
        false => Err(failed(io::Error::other(format!("it ended with {status}")))),
    }
}

impl Edited {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it now.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, Problem> {
        input::bytes(&self.path, LARGEST)
    }

    /// Leaves the file where it is.
    pub(crate) fn keep(self) -> PathBuf {
        // The path stays right: only nobody removes it.
        let _ = self.directory.keep();
        self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_called_as_the_path_ends_unless_that_does_harm() {
        assert_eq!(harmless("src/main.rs"), "main.rs");
        for odd in ["", "..", "a/..", "a/", "-rf", "a/\x1b[2J"] {
            assert_eq!(harmless(odd), "file", "{odd}");
        }
    }
}
