//! The directories with workspaces of a store: the one next to it, and those
//! listed in a file next to it, one per line. Garbage collection needs all of
//! them, to keep the snapshots of the workspaces.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::errors::Problem;

/// The default directory of workspaces, next to a store.
pub(crate) fn beside(store: &Path) -> PathBuf {
    store.with_file_name("workspaces")
}

/// The store next to a directory of workspaces.
pub(crate) fn store_of(workspaces: &Path) -> Option<PathBuf> {
    let store = workspaces.with_file_name("store");
    (store.is_dir() && beside(&store) == workspaces).then_some(store)
}

fn list(store: &Path) -> PathBuf {
    store.with_file_name("workspaces.elsewhere")
}

/// All directories in which workspaces of a store were ever created.
pub(crate) fn all(store: &Path) -> Result<Vec<PathBuf>, Problem> {
    let mut places = vec![beside(store)];
    let path = list(store);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(places),
        text => text.map_err(|source| Problem::Io {
            action: "read",
            path,
            source,
        })?,
    };
    let lines = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    places.extend(lines.map(|line| std::ffi::OsString::from_vec(line.to_vec()).into()));
    Ok(places)
}

/// Records a directory in which workspaces are created.
pub(crate) fn note(store: &Path, place: &Path) -> Result<(), Problem> {
    if all(store)?.iter().any(|known| known == place) {
        return Ok(());
    }
    let path = list(store);
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).open(&path)?;
        file.write_all(&[place.as_os_str().as_bytes(), b"\n"].concat())?;
        file.sync_all()
    };
    write().map_err(|source| Problem::Io {
        action: "write",
        path: list(store),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_recorded_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store");
        assert_eq!(all(&store).unwrap(), [beside(&store)]);
        let place = Path::new("/elsewhere");
        note(&store, place).unwrap();
        note(&store, place).unwrap();
        note(&store, &beside(&store)).unwrap();
        assert_eq!(all(&store).unwrap(), [beside(&store), place.into()]);
    }
}
