use std::cmp::Ordering;
use std::fmt;

use bytes::Bytes;

use crate::name::{InvalidName, Name};

/// Maximum length of a path, including separators. The limit bounds recursion
/// over hostile trees.
pub const MAX_PATH_BYTES: usize = 4096;

/// A path in a tree: names joined by `/`, relative to the root of the tree,
/// which is the empty path. Always valid: no empty component, no `.`, no `..`.
///
/// Paths are ordered name by name, as in a walk of the tree: a directory, its
/// entries, then its next sibling (`a`, `a/b`, `a-b`). This is not the order of
/// the bytes, in which `-` comes before `/`.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct TreePath(Bytes);

/// Why some bytes are not a [`TreePath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// A component is not a valid name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The path is longer than [`MAX_PATH_BYTES`].
    #[error("a path cannot be longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
}

impl TreePath {
    /// The root of the tree.
    pub const fn root() -> Self {
        Self(Bytes::new())
    }

    /// Creates a path from text such as `a/b/c`, without a leading or trailing
    /// slash. The empty path is the root.
    pub fn new(path: impl AsRef<[u8]>) -> Result<Self, InvalidPath> {
        let path = path.as_ref();
        if path.len() > MAX_PATH_BYTES {
            return Err(InvalidPath::TooLong);
        }
        if !path.is_empty() {
            path.split(is_slash).try_for_each(Name::check)?;
        }
        Ok(Self(Bytes::copy_from_slice(path)))
    }

    /// Returns whether this is the root of the tree.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The components, outermost first.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = Name> + '_ {
        self.0
            .split(is_slash)
            .filter(|part| !part.is_empty())
            .map(|part| {
                Name::new(self.0.slice_ref(part)).unwrap_or_else(|_| unreachable!("checked by new"))
            })
    }

    /// Splits off the last component; `None` for the root.
    pub fn split_last(&self) -> Option<(TreePath, Name)> {
        let name = self.names().next_back()?;
        let parent = self.0.len().saturating_sub(name.len() + 1);
        Some((Self(self.0.slice(..parent)), name))
    }

    /// Appends a component.
    pub fn join(&self, name: &Name) -> Result<Self, InvalidPath> {
        let mut joined = Vec::with_capacity(self.0.len() + 1 + name.len());
        joined.extend_from_slice(&self.0);
        if !joined.is_empty() {
            joined.push(b'/');
        }
        joined.extend_from_slice(name);
        if joined.len() > MAX_PATH_BYTES {
            return Err(InvalidPath::TooLong);
        }
        Ok(Self(joined.into()))
    }

    /// Returns whether `self` equals `other` or is below `other`.
    pub fn starts_with(&self, other: &TreePath) -> bool {
        match self.0.strip_prefix(other.as_bytes()) {
            Some(rest) => rest.is_empty() || other.is_root() || rest.starts_with(b"/"),
            None => false,
        }
    }
}

impl Ord for TreePath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.split(is_slash).cmp(other.0.split(is_slash))
    }
}

impl PartialOrd for TreePath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::str::FromStr for TreePath {
    type Err = InvalidPath;

    fn from_str(path: &str) -> Result<Self, InvalidPath> {
        Self::new(path)
    }
}

impl fmt::Display for TreePath {
    /// Shows bytes that are not UTF-8 as replacement characters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

fn is_slash(byte: &u8) -> bool {
    *byte == b'/'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates names from few letters, so that paths share prefixes.
    fn names() -> impl Strategy<Value = Vec<Name>> {
        let name = prop::collection::vec(prop::sample::select(&b"a-0\xff."[..]), 1..4);
        let name = name.prop_filter_map("dots", |bytes| Name::copy_from(&bytes).ok());
        prop::collection::vec(name, 0..5)
    }

    fn joined(names: &[Name]) -> TreePath {
        let root = TreePath::root();
        names
            .iter()
            .fold(root, |path, name| path.join(name).unwrap())
    }

    proptest! {
        #[test]
        fn a_path_consists_of_its_names(names in names()) {
            let path = joined(&names);
            prop_assert_eq!(path.names().collect::<Vec<_>>(), names.clone());
            prop_assert_eq!(TreePath::new(path.as_bytes()), Ok(path.clone()));
            let split = names.split_last().map(|(last, parent)| (joined(parent), last.clone()));
            prop_assert_eq!(path.split_last(), split);
        }

        #[test]
        fn paths_are_ordered_and_nested_like_their_names(ours in names(), theirs in names()) {
            prop_assert_eq!(joined(&ours).cmp(&joined(&theirs)), ours.cmp(&theirs));
            prop_assert_eq!(joined(&ours).starts_with(&joined(&theirs)), ours.starts_with(&theirs));
        }

        #[test]
        fn a_path_from_any_bytes_stays_inside_the_tree(bytes: Vec<u8>) {
            if let Ok(path) = TreePath::new(&bytes) {
                prop_assert!(path.names().all(|name| Name::check(&name).is_ok()));
                prop_assert_eq!(path.as_bytes(), &bytes[..]);
            }
        }
    }

    fn path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    #[test]
    fn rejects_paths_that_leave_the_tree() {
        for bad in ["/", "/a", "a/", "a//b", "..", "a/../b", "a/./b", "a\0b"] {
            assert!(TreePath::new(bad).is_err(), "{bad}");
        }
        assert_eq!(TreePath::new("a/".repeat(3000)), Err(InvalidPath::TooLong));
    }

    #[test]
    fn a_path_splits_into_parent_and_name() {
        let (parent, name) = path("a/b/c").split_last().unwrap();
        assert_eq!((parent, name.as_bytes()), (path("a/b"), &b"c"[..]));
        let (parent, name) = path("a").split_last().unwrap();
        assert_eq!((parent.is_root(), name.as_bytes()), (true, &b"a"[..]));
        assert_eq!(TreePath::root().split_last(), None);
        assert_eq!(path("a/b").join(&name).unwrap(), path("a/b/a"));
    }

    #[test]
    fn starts_with_respects_component_boundaries() {
        assert!(path("a/b").starts_with(&path("a")));
        assert!(path("a").starts_with(&path("a")));
        assert!(path("a").starts_with(&TreePath::root()));
        assert!(!path("ab").starts_with(&path("a")));
    }
}
