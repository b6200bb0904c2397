//! Detection of renames, on request: entries that were removed in one place and
//! added in another with exactly the same content.

use std::collections::{HashMap, HashSet, VecDeque};

use elevo_core::TreePath;
use elevo_objects::{Content, Entry, Hash};

use crate::diff::{Change, ChangeKind};

/// An entry that moved to another path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// Path in the first tree.
    pub from: TreePath,
    /// Path in the second tree.
    pub to: TreePath,
    /// Entry in the first tree.
    pub before: Entry,
    /// Entry in the second tree: the same content, maybe another mode.
    pub after: Entry,
}

/// The changes of a diff, with renames separated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WithRenames {
    /// Renames, in the order of the new paths.
    pub renames: Vec<Rename>,
    /// All other changes, in their order.
    pub changes: Vec<Change>,
}

/// Pairs removed and added entries by content: files, links and directories,
/// each by itself, so that a moved directory gives a rename for itself and for
/// every entry in it. Empty files and directories are all equal and never
/// paired. Of several candidates, the one with the same name is chosen, or else
/// the first.
pub fn renames(changes: Vec<Change>) -> WithRenames {
    let mut removed = Removed::default();
    for (index, change) in changes.iter().enumerate() {
        if let ChangeKind::Removed(entry) = &change.kind {
            removed.insert(entry, index);
        }
    }
    let pairs = removed.pair(&changes);
    let from: HashMap<usize, usize> = pairs.iter().map(|(from, to)| (*to, *from)).collect();
    let moved: HashSet<usize> = pairs.iter().map(|(from, _)| *from).collect();
    let mut found = WithRenames::default();
    for (index, change) in changes.iter().enumerate() {
        match from.get(&index).map(|from| &changes[*from]) {
            Some(source) => found.renames.extend(rename(source, change)),
            None if moved.contains(&index) => {}
            None => found.changes.push(change.clone()),
        }
    }
    found
}

fn rename(from: &Change, to: &Change) -> Option<Rename> {
    Some(Rename {
        from: from.path.clone(),
        to: to.path.clone(),
        before: from.kind.before()?.clone(),
        after: to.kind.after()?.clone(),
    })
}

/// Content that makes two entries at different paths the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Identity {
    File(Content),
    Link(Hash),
    Directory(Hash),
}

fn identity(entry: &Entry) -> Option<Identity> {
    match entry {
        Entry::File { content, .. } => {
            (*content != Content::Empty).then_some(Identity::File(*content))
        }
        Entry::Link(link) => Some(Identity::Link(link.hash)),
        Entry::Directory { tree, .. } => tree.root.map(Identity::Directory),
    }
}

/// Indexes of removed entries that are not paired yet, by content.
#[derive(Default)]
struct Removed {
    by_identity: HashMap<Identity, VecDeque<usize>>,
    taken: HashSet<usize>,
}

impl Removed {
    fn insert(&mut self, entry: &Entry, index: usize) {
        if let Some(identity) = identity(entry) {
            self.by_identity
                .entry(identity)
                .or_default()
                .push_back(index);
        }
    }

    /// Returns pairs of indexes, from and to. Entries with equal names are
    /// paired first; the rest are paired in order.
    fn pair(mut self, changes: &[Change]) -> Vec<(usize, usize)> {
        let added = changes.iter().enumerate().filter_map(|(index, change)| {
            let ChangeKind::Added(entry) = &change.kind else {
                return None;
            };
            Some((index, identity(entry)?))
        });
        let added: Vec<_> = added.collect();
        let by_name = self.with_equal_names(changes, &added);
        let mut pairs = Vec::new();
        for (index, identity) in added {
            let from = by_name.get(&index).copied();
            if let Some(from) = from.or_else(|| self.next(identity)) {
                pairs.push((from, index));
            }
        }
        pairs
    }

    /// For each added entry, the removed one with the same name and content.
    fn with_equal_names(
        &mut self,
        changes: &[Change],
        added: &[(usize, Identity)],
    ) -> HashMap<usize, usize> {
        let name = |index: usize| changes[index].path.split_last().map(|(_, name)| name);
        let mut by_name = HashMap::<_, VecDeque<usize>>::new();
        for (identity, indexes) in &self.by_identity {
            for index in indexes {
                let key = (*identity, name(*index));
                by_name.entry(key).or_default().push_back(*index);
            }
        }
        let mut pairs = HashMap::new();
        for (index, identity) in added {
            let candidates = by_name.get_mut(&(*identity, name(*index)));
            if let Some(from) = candidates.and_then(VecDeque::pop_front) {
                self.taken.insert(from);
                pairs.insert(*index, from);
            }
        }
        pairs
    }

    fn next(&mut self, identity: Identity) -> Option<usize> {
        let indexes = self.by_identity.get_mut(&identity)?;
        while let Some(index) = indexes.pop_front() {
            if !self.taken.contains(&index) {
                return Some(index);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use elevo_objects::{Kind, Mode, Tree};

    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    fn file(content: &str) -> Entry {
        let content = match content.len() {
            0 => Content::Empty,
            size => Content::Chunk {
                hash: Kind::Chunk.hash(content.as_bytes()),
                size: size as u64,
            },
        };
        Entry::File {
            mode: Mode::FILE,
            content,
        }
    }

    fn removed(at: &str, content: &str) -> Change {
        Change {
            path: path(at),
            kind: ChangeKind::Removed(file(content)),
        }
    }

    fn added(at: &str, content: &str) -> Change {
        Change {
            path: path(at),
            kind: ChangeKind::Added(file(content)),
        }
    }

    /// Returns `from -> to` for renames, and the paths of the other changes.
    fn summary(changes: Vec<Change>) -> (Vec<String>, Vec<String>) {
        let found = renames(changes);
        let renames = found.renames.iter();
        let changes = found.changes.iter();
        (
            renames
                .map(|rename| format!("{} -> {}", rename.from, rename.to))
                .collect(),
            changes.map(|change| change.path.to_string()).collect(),
        )
    }

    #[test]
    fn removed_and_added_entries_with_equal_content_are_a_rename() {
        let (renames, rest) = summary(vec![
            added("a", "moved"),
            added("b", "new"),
            removed("c", "old"),
            removed("d", "moved"),
        ]);
        assert_eq!(renames, ["d -> a"]);
        assert_eq!(rest, ["b", "c"]);
    }

    #[test]
    fn equal_names_are_paired_before_others() {
        let (renames, rest) = summary(vec![
            removed("a/one", "same"),
            removed("a/two", "same"),
            added("b/else", "same"),
            added("b/one", "same"),
            added("b/three", "same"),
        ]);
        assert_eq!(renames, ["a/two -> b/else", "a/one -> b/one"]);
        assert_eq!(rest, ["b/three"]);
    }

    #[test]
    fn empty_files_are_not_paired() {
        let (renames, rest) = summary(vec![added("a", ""), removed("b", "")]);
        assert!(renames.is_empty());
        assert_eq!(rest, ["a", "b"]);
    }

    #[test]
    fn a_directory_moves_with_its_content() {
        let tree = Tree {
            root: Some(Kind::Directory.hash(b"some node")),
            count: 1,
            bytes: 4,
        };
        let directory = |mode| Entry::Directory { mode, tree };
        let change = |at, kind| Change {
            path: path(at),
            kind,
        };
        let (renames, rest) = summary(vec![
            change("new", ChangeKind::Added(directory(Mode::from_bits(0o700)))),
            added("new/file", "text"),
            change("old", ChangeKind::Removed(directory(Mode::EXECUTABLE))),
            removed("old/file", "text"),
        ]);
        assert_eq!(renames, ["old -> new", "old/file -> new/file"]);
        assert!(rest.is_empty());
    }
}
