//! Any state of a project as a tar, straight from the store.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;

use bytes::{Buf, Bytes};
use elevo_core::TreePath;
use elevo_engine::Diff;
use elevo_objects::{Entry, Tree};
use futures::executor::block_on;
use tar::{Builder, EntryType, Header};

use super::reading::{Seen, tree_path};
use crate::app::{App, Principal, parts};
use crate::failure::{Failure, Result};

/// As much of a file is read at once.
const PIECE: usize = 1 << 20;

impl App {
    /// Writes what is at a path of a project as a tar, without what may not be
    /// seen.
    pub(crate) async fn pack_project<W: Write + Send + 'static>(
        &self,
        who: &Principal,
        project: &str,
        path: &str,
        at: Option<&str>,
        out: W,
    ) -> Result<impl Future<Output = Result<()>> + Send + use<W>> {
        let seen = self.seen(who, project, at).await?;
        let path = tree_path(path)?;
        let entry = seen.entry(&path).await?;
        let made = seen.repository().snapshot(seen.snapshot).await?.created;
        let packing = move || {
            let mut packer = Packer {
                seen,
                out: Builder::new(out),
                made: made.seconds(),
            };
            packer.pack(&path, &entry)?;
            let flushed = packer.out.into_inner().and_then(|mut out| out.flush());
            flushed.map_err(|error| Failure::internal(&error))
        };
        Ok(parts::blocking(packing))
    }
}

struct Packer<W: Write> {
    seen: Seen,
    out: Builder<W>,
    /// The time of what has none.
    made: i64,
}

impl<W: Write> Packer<W> {
    /// Names start at `path`: a directory's content, or a file by its own name.
    fn pack(&mut self, path: &TreePath, entry: &Entry) -> Result<()> {
        let Entry::Directory { tree, .. } = entry else {
            let name = path.split_last().map(|(_, name)| name);
            let name = name.as_ref().map_or(&b""[..], |name| name.as_bytes());
            return self.add(path, name, entry);
        };
        let mut inside = Diff::new(self.seen.repository(), Tree::EMPTY, *tree);
        while let Some(change) = block_on(inside.next())? {
            let full = below(path, &change.path)?;
            let Some(entry) = change.kind.after() else {
                continue;
            };
            let is_directory = matches!(entry, Entry::Directory { .. });
            match self.seen.shows(&full, is_directory) {
                true => self.add(&full, change.path.as_bytes(), entry)?,
                false => inside.skip_inside(),
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &TreePath, name: &[u8], entry: &Entry) -> Result<()> {
        let modified = block_on(self.seen.tree.stat(path))?.and_then(|stat| stat.modified);
        let seconds = modified.map_or(self.made, |time| time.seconds());
        let mut header = Header::new_gnu();
        header.set_mtime(u64::try_from(seconds).unwrap_or_default());
        let name = OsStr::from_bytes(name);
        let added = match entry {
            Entry::Directory { mode, .. } => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(mode.bits());
                header.set_size(0);
                self.out.append_data(&mut header, name, io::empty())
            }
            Entry::Link(_) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_mode(0o777);
                header.set_size(0);
                let target = block_on(self.seen.tree.read_link(path))?;
                self.out
                    .append_link(&mut header, name, OsStr::from_bytes(&target))
            }
            Entry::File { mode, content } => {
                header.set_entry_type(EntryType::Regular);
                header.set_mode(mode.bits());
                header.set_size(content.size());
                let content = Content {
                    seen: &self.seen,
                    path,
                    at: 0,
                    piece: Bytes::new(),
                };
                self.out.append_data(&mut header, name, content)
            }
        };
        added.map_err(|error| Failure::internal(&error))
    }
}

/// A file of a project, a piece at a time.
struct Content<'a> {
    seen: &'a Seen,
    path: &'a TreePath,
    at: u64,
    piece: Bytes,
}

impl Read for Content<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            let piece = block_on(self.seen.tree.read_at(self.path, self.at, PIECE));
            self.piece = piece.map_err(io::Error::other)?;
            self.at += self.piece.len() as u64;
        }
        let length = into.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut into[..length]);
        Ok(length)
    }
}

fn below(directory: &TreePath, inside: &TreePath) -> Result<TreePath> {
    let mut path = directory.clone();
    for name in inside.names() {
        path = path.join(&name).map_err(elevo_engine::Error::from)?;
    }
    Ok(path)
}
