//! The directories with workspaces of a store: the one next to it, and those
//! listed in a file next to it, one per line. Garbage collection needs all of
//! them, to keep the snapshots of the workspaces.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::errors::FileProblem;
use crate::local::layout::workspaces_beside;

fn list(store: &Path) -> PathBuf {
    store.with_file_name("workspaces.elsewhere")
}

/// All directories in which workspaces of a store were ever created.
pub(crate) fn all_places(store: &Path) -> Result<Vec<PathBuf>, FileProblem> {
    let mut places = vec![workspaces_beside(store)];
    let path = list(store);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(places),
        text => text.map_err(|source| FileProblem::Io {
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
pub(crate) fn record_place(store: &Path, place: &Path) -> Result<(), FileProblem> {
    if all_places(store)?.iter().any(|known| known == place) {
        return Ok(());
    }
    let path = list(store);
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).open(&path)?;
        file.write_all(&[place.as_os_str().as_bytes(), b"\n"].concat())?;
        file.sync_all()
    };
    write().map_err(|source| FileProblem::Io {
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
        assert_eq!(all_places(&store).unwrap(), [workspaces_beside(&store)]);
        let place = Path::new("/elsewhere");
        record_place(&store, place).unwrap();
        record_place(&store, place).unwrap();
        record_place(&store, &workspaces_beside(&store)).unwrap();
        assert_eq!(
            all_places(&store).unwrap(),
            [workspaces_beside(&store), place.into()]
        );
    }
}
