//! The watched directories of a tree, and their paths.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Maximum depth of a directory below the top directory.
const DEEPEST: usize = 256;

/// The watched directories, by the number of their watch.
#[derive(Debug)]
pub(super) struct Directories(HashMap<i32, Directory>);

#[derive(Debug, Default)]
struct Directory {
    /// The watch of the directory that contains this one, and the name in it;
    /// `None` for the top directory.
    place: Option<(i32, OsString)>,
    children: HashMap<OsString, i32>,
}

impl Directories {
    /// Creates a tree with only the top directory.
    pub(super) fn new(top: i32) -> Self {
        Self(HashMap::from([(top, Directory::default())]))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn contains(&self, watch: i32) -> bool {
        self.0.contains_key(&watch)
    }

    /// Returns the watch of a directory in a directory.
    pub(super) fn child(&self, parent: i32, name: &OsStr) -> Option<i32> {
        self.0.get(&parent)?.children.get(name).copied()
    }

    /// Returns the path of an entry of a directory, relative to the top
    /// directory. Returns `None` if the directory is not watched. If processes
    /// move directories while they are listed, the tree may have a circle for a
    /// time; then the depth ends the search.
    pub(super) fn path(&self, watch: i32, name: &OsStr) -> Option<PathBuf> {
        let mut names = vec![name];
        let mut at = self.0.get(&watch)?;
        while let Some((parent, name)) = &at.place {
            names.push(name);
            if names.len() > DEEPEST {
                return None;
            }
            at = self.0.get(parent)?;
        }
        let names = names.into_iter().rev();
        Some(names.filter(|name| !name.is_empty()).collect())
    }

    /// Adds a directory, or changes its place if its watch is known. Returns the
    /// watches of the directories that had this place before.
    pub(super) fn insert(&mut self, watch: i32, parent: i32, name: OsString) -> Vec<i32> {
        let replaced = match self.child(parent, &name) {
            Some(known) if known == watch => return Vec::new(),
            Some(other) => self.remove(other),
            None => Vec::new(),
        };
        // The parent may have been in a directory that was removed now.
        let Some(of_parent) = self.0.get_mut(&parent) else {
            return replaced;
        };
        of_parent.children.insert(name.clone(), watch);
        let directory = self.0.entry(watch).or_default();
        let before = directory.place.replace((parent, name));
        if let Some((parent, name)) = before {
            self.remove_child(parent, &name, watch);
        }
        replaced
    }

    /// Removes a directory and all directories in it. Returns their watches.
    pub(super) fn remove(&mut self, watch: i32) -> Vec<i32> {
        let place = self.0.get(&watch).and_then(|it| it.place.clone());
        if let Some((parent, name)) = place {
            self.remove_child(parent, &name, watch);
        }
        let (mut removed, mut pending) = (Vec::new(), vec![watch]);
        while let Some(watch) = pending.pop() {
            if let Some(directory) = self.0.remove(&watch) {
                removed.push(watch);
                pending.extend(directory.children.into_values());
            }
        }
        removed
    }

    fn remove_child(&mut self, parent: i32, name: &OsStr, watch: i32) {
        if let Some(parent) = self.0.get_mut(&parent)
            && parent.children.get(name) == Some(&watch)
        {
            parent.children.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(tree: &Directories, watch: i32, name: &str) -> Option<String> {
        let path = tree.path(watch, name.as_ref())?;
        Some(path.to_str().unwrap().to_owned())
    }

    #[test]
    fn paths_follow_directories_that_are_moved_and_removed() {
        let mut tree = Directories::new(1);
        tree.insert(2, 1, "a".into());
        tree.insert(3, 2, "b".into());
        assert_eq!(path(&tree, 3, "file").unwrap(), "a/b/file");
        assert_eq!(path(&tree, 1, "file").unwrap(), "file");
        // The directory was found at its new place before the move was read.
        assert!(tree.insert(3, 1, "c".into()).is_empty());
        assert_eq!(path(&tree, 3, "file").unwrap(), "c/file");
        assert_eq!(tree.child(2, "b".as_ref()), None);
        assert_eq!(tree.remove(2), [2]);
        assert_eq!(path(&tree, 2, "file"), None);
        // Another directory takes the place of this one.
        assert_eq!(tree.insert(4, 1, "c".into()), [3]);
        assert_eq!(tree.len(), 2);
    }

    #[test]
    fn a_circle_of_directories_ends_the_search() {
        let mut tree = Directories::new(1);
        tree.insert(2, 1, "a".into());
        tree.insert(3, 2, "b".into());
        tree.insert(2, 3, "a".into());
        assert_eq!(path(&tree, 3, "file"), None);
        assert_eq!(tree.remove(3).len(), 2);
        assert_eq!(tree.len(), 1);
    }
}
