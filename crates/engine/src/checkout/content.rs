//! Writes the content of files, or shares it with the files of a clone source.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};

use bytes::Bytes;
use elevo_core::TreePath;
use elevo_objects::{Content, DirItem, Entry, MIN_CHUNK, Mode, Tree};
use rustix::fs::{Mode as Bits, OFlags};
use rustix::io::Errno;

use super::write::{Writer, fail};
use super::{Checkout, Job};
use crate::disk::{Parents, RootDirectory};
use crate::error::Result;
use crate::file::{ChunkReader, FilePiece};
use crate::tree;

impl Writer<'_> {
    /// Writes the content of a new file. Long runs of zeros become holes.
    pub(super) fn write_content(
        &self,
        fd: &OwnedFd,
        job: &Job,
        content: &Content,
        chunk: Option<Bytes>,
    ) -> Result<()> {
        let fail = |source| fail("write", &job.path)(source);
        if let Some(chunk) = chunk {
            return write_all(fd, &chunk).map_err(fail);
        }
        let mut file = File::from(fd.try_clone().map_err(fail)?);
        self.checkout.workers.wait(async {
            let (mut chunks, _) = ChunkReader::open(self.checkout.repository, content, 0).await?;
            let mut hole_at_end = false;
            while let Some(piece) = chunks.next_piece().await? {
                let length = match piece {
                    FilePiece::Data(chunk) if !is_hole(&chunk) => {
                        file.write_all(&chunk).map_err(fail)?;
                        hole_at_end = false;
                        continue;
                    }
                    FilePiece::Data(chunk) => chunk.len() as u64,
                    FilePiece::Zeros(length) => length,
                };
                let length = SeekFrom::Current(length as i64);
                file.seek(length).map_err(fail)?;
                hole_at_end = true;
            }
            // A seek beyond the end does not extend the file.
            if hole_at_end {
                file.set_len(content.size()).map_err(fail)?;
            }
            Ok(())
        })
    }

    /// Returns the file in the clone source, if it has the same content there.
    pub(super) fn in_clone_source(
        &self,
        path: &TreePath,
        content: &Content,
    ) -> Result<Option<OwnedFd>> {
        let Some((clone_source, tree)) = &self.clone_source else {
            return Ok(None);
        };
        if *content == Content::Empty {
            return Ok(None);
        }
        let known = self
            .checkout
            .workers
            .wait(find_entry(self.checkout, *tree, path))?;
        if !matches!(known, Some(Entry::File { content: known, .. }) if known == *content) {
            return Ok(None);
        }
        Ok(open_whole(clone_source, path, content.size())
            .ok()
            .flatten())
    }

    /// Creates a file that shares its content with `from`, if the file system
    /// supports it. The system call creates the file itself.
    #[cfg(target_vendor = "apple")]
    pub(super) fn clone_new(
        &self,
        parents: &mut Parents<'_>,
        job: &Job,
        from: &OwnedFd,
    ) -> Option<OwnedFd> {
        if job.before.is_some() {
            self.make_room(parents, &job.path).ok()?;
        }
        let (parent, name) = parents.of(&job.path).ok()?;
        let flags = rustix::fs::CloneFlags::NOFOLLOW;
        rustix::fs::fclonefileat(from, parent, name.as_bytes(), flags).ok()?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(parent, name.as_bytes(), flags, Bits::empty()).ok()
    }
}

async fn find_entry(checkout: &Checkout<'_>, tree: Tree, path: &TreePath) -> Result<Option<Entry>> {
    let mut entry = Entry::Directory {
        mode: Mode::EXECUTABLE,
        tree,
    };
    for name in path.names() {
        let Entry::Directory { tree, .. } = entry else {
            return Ok(None);
        };
        match tree::find::<DirItem>(checkout.repository, tree.root, &name).await? {
            Some(item) => entry = item.entry,
            None => return Ok(None),
        }
    }
    Ok(Some(entry))
}

/// Opens a file that should have this size; `None` if it does not.
fn open_whole(root: &RootDirectory, path: &TreePath, size: u64) -> io::Result<Option<OwnedFd>> {
    let mut parents = Parents::new(root);
    let (parent, name) = parents.of(path)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(parent, name.as_bytes(), flags, Bits::empty())?;
    let is_whole = rustix::fs::fstat(&file)?.st_size as u64 == size;
    Ok(is_whole.then_some(file))
}

/// Shares the content of `from`, if the file system supports it.
#[cfg(target_os = "linux")]
pub(super) fn clone_content(to: &OwnedFd, from: &OwnedFd) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(super) fn clone_content(_: &OwnedFd, _: &OwnedFd) -> bool {
    false
}

fn write_all(fd: impl AsFd, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        match rustix::io::write(&fd, data) {
            Ok(written) => data = &data[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether a chunk is all zeros, so that the file can have a hole. Only chunks
/// of a certain size are examined.
fn is_hole(chunk: &[u8]) -> bool {
    chunk.len() >= MIN_CHUNK && chunk.iter().all(|byte| *byte == 0)
}
