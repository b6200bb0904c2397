//! The stored form of paths and entries. Every implementation stores the same
//! bytes.
//!
//! A path is stored as its names, separated by NUL, which no name contains. In
//! byte order a directory comes right before its content, as in the order of
//! [`TreePath`].
//!
//! An entry is stored as a tag followed by big-endian fields:
//!
//! | tag | entry | rest |
//! |---|---|---|
//! | 1 | empty file | mode (2) |
//! | 2 | file of one chunk | mode (2), size (8), hash (32) |
//! | 3 | file of several chunks | mode (2), size (8), hash (32) |
//! | 4 | empty directory | mode (2) |
//! | 5 | directory | mode (2), entries below (8), bytes below (8), hash (32) |
//! | 6 | symbolic link | size (8), hash (32) |
//!
//! Another form would get new tags.

use elevo_core::TreePath;
use elevo_objects::{Content, Entry, Hash, Link, Mode, Tree};

const EMPTY_FILE: u8 = 1;
const CHUNK_FILE: u8 = 2;
const LIST_FILE: u8 = 3;
const EMPTY_DIRECTORY: u8 = 4;
const DIRECTORY: u8 = 5;
const LINK: u8 = 6;

const SEPARATOR: u8 = 0;

/// Returns the stored form of a path.
pub(crate) fn path(path: &TreePath) -> Vec<u8> {
    replace_byte(path.as_bytes(), b'/', SEPARATOR)
}

/// Returns the smallest stored form that can come after `after` in a list; for
/// `None`, the smallest of all.
pub(crate) fn path_after(after: Option<&TreePath>) -> Vec<u8> {
    let Some(after) = after else {
        return Vec::new();
    };
    let mut bytes = path(after);
    bytes.push(SEPARATOR);
    bytes
}

/// Returns the stored forms of a path and of all directories above it, the path
/// first.
pub(crate) fn path_and_above(of: &TreePath) -> Vec<Vec<u8>> {
    let mut here = Some(of.clone());
    let mut paths = Vec::new();
    while let Some(next) = here {
        paths.push(path(&next));
        here = next.split_last().map(|(parent, _)| parent);
    }
    paths
}

/// Returns the range of the stored forms of all paths below a directory: the
/// start, which is included, and the end, which is not. The range of the root
/// has no end.
pub(crate) fn paths_below(directory: &TreePath) -> (Vec<u8>, Option<Vec<u8>>) {
    if directory.is_root() {
        return (vec![SEPARATOR + 1], None);
    }
    let mut end = path(directory);
    end.push(SEPARATOR + 1);
    (path_after(Some(directory)), Some(end))
}

/// Reads a stored path; `None` if the bytes cannot be the stored form of a path.
pub(crate) fn read_path(bytes: &[u8]) -> Option<TreePath> {
    if bytes.contains(&b'/') {
        return None;
    }
    TreePath::new(replace_byte(bytes, SEPARATOR, b'/')).ok()
}

fn replace_byte(bytes: &[u8], from: u8, to: u8) -> Vec<u8> {
    let replace = |byte: &u8| if *byte == from { to } else { *byte };
    bytes.iter().map(replace).collect()
}

/// Returns the stored form of an entry.
pub(crate) fn entry(entry: &Entry) -> Vec<u8> {
    match entry {
        Entry::File { mode, content } => match content {
            Content::Empty => join(EMPTY_FILE, Some(*mode), &[], None),
            Content::Chunk { hash, size } => join(CHUNK_FILE, Some(*mode), &[*size], Some(hash)),
            Content::List { hash, size } => join(LIST_FILE, Some(*mode), &[*size], Some(hash)),
        },
        Entry::Directory { mode, tree } => match &tree.root {
            None => join(EMPTY_DIRECTORY, Some(*mode), &[], None),
            Some(hash) => {
                let totals = [tree.count, tree.bytes];
                join(DIRECTORY, Some(*mode), &totals, Some(hash))
            }
        },
        Entry::Link(link) => join(LINK, None, &[link.size], Some(&link.hash)),
    }
}

fn join(tag: u8, mode: Option<Mode>, numbers: &[u64], hash: Option<&Hash>) -> Vec<u8> {
    let mut out = vec![tag];
    if let Some(mode) = mode {
        out.extend((mode.bits() as u16).to_be_bytes());
    }
    for number in numbers {
        out.extend(number.to_be_bytes());
    }
    if let Some(hash) = hash {
        out.extend(hash.as_bytes());
    }
    out
}

/// Reads a stored entry; `None` if the bytes cannot be the stored form of an
/// entry.
pub(crate) fn read_entry(bytes: &[u8]) -> Option<Entry> {
    let (tag, mut rest) = bytes.split_first()?;
    let rest = &mut rest;
    let entry = match *tag {
        EMPTY_FILE => Entry::File {
            mode: mode(rest)?,
            content: Content::Empty,
        },
        CHUNK_FILE => {
            let (mode, size, hash) = (mode(rest)?, number(rest)?, hash(rest)?);
            let content = Content::Chunk { hash, size };
            Entry::File { mode, content }
        }
        LIST_FILE => {
            let (mode, size, hash) = (mode(rest)?, number(rest)?, hash(rest)?);
            let content = Content::List { hash, size };
            Entry::File { mode, content }
        }
        EMPTY_DIRECTORY => Entry::Directory {
            mode: mode(rest)?,
            tree: Tree::EMPTY,
        },
        DIRECTORY => {
            let (mode, count, bytes) = (mode(rest)?, number(rest)?, number(rest)?);
            let root = Some(hash(rest)?);
            let tree = Tree { root, count, bytes };
            Entry::Directory { mode, tree }
        }
        LINK => {
            let (size, hash) = (number(rest)?, hash(rest)?);
            Entry::Link(Link { hash, size })
        }
        _ => return None,
    };
    rest.is_empty().then_some(entry)
}

fn mode(rest: &mut &[u8]) -> Option<Mode> {
    let bits = u32::from(u16::from_be_bytes(take(rest)?));
    (bits <= 0o777).then(|| Mode::from_bits(bits))
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_be_bytes)
}

fn hash(rest: &mut &[u8]) -> Option<Hash> {
    take(rest).map(Hash::from_bytes)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: Hash = Hash::from_bytes([0xab; 32]);

    fn entries() -> [(Entry, Vec<u8>); 6] {
        let mode = Mode::from_bits(0o751);
        let file = |content| Entry::File { mode, content };
        let directory = |tree| Entry::Directory { mode, tree };
        let tree = Tree {
            root: Some(HASH),
            count: 258,
            bytes: u64::MAX,
        };
        let size = 0x0102_0304_0506_0708;
        let bytes = |start: &[u8]| [start, &[0xab; 32]].concat();
        [
            (file(Content::Empty), vec![1, 1, 0o351]),
            (
                file(Content::Chunk { hash: HASH, size }),
                bytes(&[2, 1, 0o351, 1, 2, 3, 4, 5, 6, 7, 8]),
            ),
            (
                file(Content::List { hash: HASH, size }),
                bytes(&[3, 1, 0o351, 1, 2, 3, 4, 5, 6, 7, 8]),
            ),
            (directory(Tree::EMPTY), vec![4, 1, 0o351]),
            (
                directory(tree),
                bytes(&[
                    5, 1, 0o351, 0, 0, 0, 0, 0, 0, 1, 2, 255, 255, 255, 255, 255, 255, 255, 255,
                ]),
            ),
            (
                Entry::Link(Link {
                    hash: HASH,
                    size: 9,
                }),
                bytes(&[6, 0, 0, 0, 0, 0, 0, 0, 9]),
            ),
        ]
    }

    #[test]
    fn entries_are_stored_in_the_documented_form() {
        for (value, bytes) in entries() {
            assert_eq!(entry(&value), bytes);
            assert_eq!(read_entry(&bytes), Some(value));
        }
    }

    #[test]
    fn rejects_bytes_that_are_not_an_entry() {
        for (_, bytes) in entries() {
            for cut in 0..bytes.len() {
                assert_eq!(read_entry(&bytes[..cut]), None);
            }
            assert_eq!(read_entry(&[&bytes[..], &[0]].concat()), None);
        }
        assert_eq!(read_entry(&[1, 0xff, 0xff]), None, "no such mode");
        assert_eq!(read_entry(&[7, 0, 0]), None, "no such tag");
    }

    #[test]
    fn paths_are_stored_in_the_order_of_the_tree() {
        let texts = ["", "a", "a/b", "a/b/c", "a/c", "a-b", "a.b", "ab", "b"];
        let paths = texts.map(|text| TreePath::new(text).unwrap());
        assert!(paths.is_sorted());
        assert!(paths.iter().map(path).is_sorted());
        for (n, one) in paths.iter().enumerate() {
            assert_eq!(read_path(&path(one)).as_ref(), Some(one));
            for (m, other) in paths.iter().enumerate() {
                assert_eq!(path(other) >= path_after(Some(one)), m > n, "{one} {other}");
            }
        }
        for damaged in [&b"a/b"[..], b"\0", b"a\0\0b", b"a\0", b".."] {
            assert_eq!(read_path(damaged), None);
        }
    }

    #[test]
    fn the_paths_below_a_directory_are_between_two_stored_forms() {
        let is_below = |directory: &str, text: &str| {
            let (first, end) = paths_below(&TreePath::new(directory).unwrap());
            let stored = path(&TreePath::new(text).unwrap());
            stored >= first && end.is_none_or(|end| stored < end)
        };
        for (directory, text) in [("", "a"), ("", "\u{1}"), ("a", "a/b"), ("a", "a/b/c")] {
            assert!(is_below(directory, text), "{directory} {text}");
        }
        for (directory, text) in [
            ("", ""),
            ("a", "a"),
            ("a", "a-b"),
            ("a", "ab"),
            ("a/b", "a/c"),
        ] {
            assert!(!is_below(directory, text), "{directory} {text}");
        }
    }

    #[test]
    fn the_directories_above_a_path_follow_it() {
        let of = |text| path_and_above(&TreePath::new(text).unwrap());
        assert_eq!(of(""), [b""]);
        assert_eq!(of("a/b/c"), [&b"a\0b\0c"[..], b"a\0b", b"a", b""]);
    }
}
