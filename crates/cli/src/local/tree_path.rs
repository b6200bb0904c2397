//! Paths within a snapshot, as people type them.

use elevo_core::TreePath;

use crate::errors::SnapshotProblem;

/// Parses a path within a snapshot. Ignores `./` in front and slashes at the
/// end; `.` is the root.
pub(crate) fn tree_path(text: &std::ffi::OsStr) -> Result<TreePath, SnapshotProblem> {
    let mut path = text.as_encoded_bytes();
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    while let Some(rest) = path.strip_suffix(b"/").filter(|rest| !rest.is_empty()) {
        path = rest;
    }
    if path == b"." {
        path = b"";
    }
    TreePath::new(path).map_err(|source| SnapshotProblem::NotATreePath {
        path: text.as_encoded_bytes().into(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_as_people_type_them() {
        let typed = |text: &str| tree_path(text.as_ref()).map(|path| path.to_string());
        for (text, expected) in [("", ""), (".", ""), ("./", ""), ("./a/b//", "a/b")] {
            assert_eq!(typed(text).unwrap(), expected, "{text}");
        }
        for bad in ["/", "/etc", "../a", "a//b"] {
            assert!(typed(bad).is_err(), "{bad}");
        }
    }
}
