//! Checks whether paths are still as the previous snapshot has them.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use elevo_core::{Name, TreePath};
use elevo_objects::{Chunker, Content, DirItem, Entry, Tree};
use rustix::fs::{Dir, FileType, Mode as Bits, OFlags};

use super::Checkout;
use crate::diff::Change;
use crate::disk::{self, Parents, RootDirectory};
use crate::error::{Error, Result};
use crate::file::ContentBuilder;
use crate::tree;

/// Whether a directory has no names except those that are left out.
pub(super) fn is_empty(root: &RootDirectory, leave_out: &[Name]) -> io::Result<bool> {
    let fd = root.open_directory(&TreePath::root())?;
    for entry in Dir::read_from(fd.as_fd())? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let expected = name == b"." || name == b"..";
        if !expected && !leave_out.iter().any(|left_out| **left_out == *name) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether `change` would lose data that is not in the snapshot it starts from.
/// A path that no longer exists has nothing to lose.
pub(super) fn is_changed(
    checkout: &Checkout<'_>,
    parents: &mut Parents<'_>,
    change: &Change,
) -> Result<bool> {
    let fail = |source| Error::Io {
        action: "inspect",
        path: change.path.clone(),
        source,
    };
    let Some(stat) = parents.stat(&change.path).map_err(fail)? else {
        return Ok(false);
    };
    let found = FileType::from_raw_mode(stat.st_mode);
    let mut is_like = |entry: &Entry| -> Result<bool> {
        match entry {
            Entry::Directory { .. } => Ok(found == FileType::Directory),
            Entry::File { content, .. } => Ok(found == FileType::RegularFile
                && stat.st_size as u64 == content.size()
                && content_at(parents, &change.path).map_err(fail)? == *content),
            Entry::Link(link) => {
                if found != FileType::Symlink {
                    return Ok(false);
                }
                let (parent, name) = parents.of(&change.path).map_err(fail)?;
                let target = rustix::fs::readlinkat(parent, name.as_bytes(), Vec::new())
                    .map_err(|error| fail(error.into()))?;
                let expected = checkout
                    .workers
                    .wait(checkout.repository.chunks(&[link.hash]))?;
                Ok(expected
                    .first()
                    .is_some_and(|expected| **expected == *target.as_bytes()))
            }
        }
    };
    match (change.kind.before(), change.kind.after()) {
        (Some(Entry::Directory { tree, .. }), Some(Entry::File { .. } | Entry::Link(_)))
            if found == FileType::Directory =>
        {
            holds_more(checkout, &change.path, *tree)
        }
        (Some(before), Some(after)) => Ok(!is_like(before)? && !is_like(after)?),
        (Some(entry), None) | (None, Some(entry)) => Ok(!is_like(entry)?),
        (None, None) => Ok(false),
    }
}

/// Whether a directory that is to be replaced has a name that is not in `tree`.
/// Names in both have changes of their own, which are checked separately.
fn holds_more(checkout: &Checkout<'_>, path: &TreePath, tree: Tree) -> Result<bool> {
    let mut open = vec![(path.clone(), tree)];
    while let Some((at, tree)) = open.pop() {
        let fail = |source| Error::Io {
            action: "inspect",
            path: at.clone(),
            source,
        };
        let fd = match checkout.root.open_directory(&at) {
            Err(error) if disk::is_absent(&error) => continue,
            other => other.map_err(fail)?,
        };
        for entry in Dir::read_from(fd.as_fd()).map_err(|error| fail(error.into()))? {
            let entry = entry.map_err(|error| fail(error.into()))?;
            let Ok(name) = Name::copy_from(entry.file_name().to_bytes()) else {
                continue; // `.` and `..`
            };
            let known = tree::find::<DirItem>(checkout.repository, tree.root, &name);
            match checkout.workers.wait(known)?.map(|item| item.entry) {
                None => return Ok(true),
                Some(Entry::Directory { tree, .. }) => open.push((at.join(&name)?, tree)),
                Some(_) => {}
            }
        }
    }
    Ok(false)
}

/// Returns the content of a file on disk.
fn content_at(parents: &mut Parents<'_>, path: &TreePath) -> io::Result<Content> {
    let (parent, name) = parents.of(path)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::openat(parent, name.as_bytes(), flags, Bits::empty())?;
    let mut builder = ContentBuilder::default();
    for chunk in Chunker::new(File::from(fd)) {
        builder.push(chunk?);
        builder.take_objects();
    }
    Ok(builder.finish().0)
}
