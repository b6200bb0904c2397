//! Finds the workspace that contains a path, from directories alone: without a
//! store, and without a lock on the registry.

use std::path::{Path, PathBuf};

use elevo_core::WorkspaceId;

/// The position of a path inside a directory of workspaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceLocation {
    /// The directory of workspaces.
    pub root: PathBuf,
    /// The workspace; `None` for files that workspaces share, such as layers.
    pub id: Option<WorkspaceId>,
}

impl WorkspaceLocation {
    /// Returns where `path` lies in the workspaces of `root`; `None` if `root`
    /// is not a directory of workspaces or `path` is not below it.
    ///
    /// This holds for every provider: a copy, a clone and an overlay are all at
    /// `live/ID`, also for a process that sees an overlay only in its own
    /// namespace, and a read-only view is at `read/ID`.
    pub fn of(root: &Path, path: &Path) -> Option<Self> {
        let below = path.strip_prefix(root).ok()?;
        let is_root = root.join("registry/log").is_file() && root.join("live").is_dir();
        is_root.then(|| Self {
            root: root.into(),
            id: id(below),
        })
    }
}

fn id(below: &Path) -> Option<WorkspaceId> {
    let mut names = below.iter();
    let kind = names.next()?;
    let is_workspace = kind == "live" || kind == "read";
    let id = names.next().filter(|_| is_workspace)?;
    id.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_path_is_inside_the_workspace_whose_directory_it_is_below() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("workspaces");
        for path in ["live/one/files/src", "read/two", "layers/x", "registry"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let of = |path: &str| WorkspaceLocation::of(&root, &root.join(path));
        assert_eq!(of("live/one/files"), None);

        fs::write(root.join("registry/log"), "").unwrap();
        for (path, id) in [
            ("live/one/files/src", Some("one")),
            ("live/one", Some("one")),
            ("read/two", Some("two")),
            ("live", None),
            ("layers/x", None),
            ("", None),
        ] {
            let inside = of(path).unwrap();
            assert_eq!(inside.root, root, "{path}");
            let found = inside.id.as_ref().map(WorkspaceId::as_str);
            assert_eq!(found, id, "{path}");
        }
        assert_eq!(WorkspaceLocation::of(&root, directory.path()), None);
        assert_eq!(WorkspaceLocation::of(directory.path(), &root), None);
    }
}
