//! Reads files.

use std::os::fd::OwnedFd;
use std::path::Path;

use bytes::Bytes;
use elevo_agent_proto::MAX_KERNEL_FILE;
use elevo_agent_proto::v1::{FileFailure, FileKind, FileStat};
use rustix::buffer::spare_capacity;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::resolve::{self, convert};
use super::{Outcome, failed};

/// The size that `/sys` reports for all its files.
const SYS_SIZE: u64 = 4096;

/// An open regular file.
pub(super) enum Opened {
    File(OwnedFd),
    /// The content of a file of the kernel, whose metadata have no size.
    Content(Bytes),
}

pub(super) fn open(path: &Path) -> Outcome<(Opened, FileStat)> {
    let named = resolve::name(path, OFlags::empty())?;
    let stat = convert(&rustix::fs::fstat(&named).map_err(failed)?);
    match stat.kind() {
        FileKind::File => {}
        FileKind::Directory => return Err(FileFailure::IsDirectory),
        FileKind::Symlink | FileKind::Unspecified => return Err(FileFailure::NotAFile),
    }
    let file = resolve::reopen(&named, OFlags::RDONLY).map_err(failed)?;
    let mut stat = convert(&rustix::fs::fstat(&file).map_err(failed)?);
    if stat.size > 0 && stat.size != SYS_SIZE {
        return Ok((Opened::File(file), stat));
    }
    let content = content(&file)?;
    stat.size = content.len() as u64;
    Ok((Opened::Content(content), stat))
}

/// Reads a whole file.
fn content(file: &OwnedFd) -> Outcome<Bytes> {
    let mut content = Vec::with_capacity(4096);
    loop {
        match rustix::io::read(file, spare_capacity(&mut content)) {
            Ok(0) => return Ok(content.into()),
            Ok(_) if content.len() > MAX_KERNEL_FILE => return Err(FileFailure::TooLarge),
            Ok(_) => content.reserve(4096),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
}

impl Opened {
    /// Reads `size` bytes at `offset`. Fails if the file has fewer.
    pub(super) fn read_at(&self, offset: u64, size: usize) -> Outcome<Bytes> {
        let file = match self {
            Self::Content(content) => {
                let start = usize::try_from(offset).map_err(|_| FileFailure::Other)?;
                let end = start.checked_add(size).filter(|end| *end <= content.len());
                let end = end.ok_or(FileFailure::Other)?;
                return Ok(content.slice(start..end));
            }
            Self::File(file) => file,
        };
        let mut piece = Vec::with_capacity(size);
        while piece.len() < size {
            let at = offset + piece.len() as u64;
            match rustix::io::pread(file, spare_capacity(&mut piece), at) {
                Ok(0) => return Err(FileFailure::Other),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        // The capacity may be larger than requested.
        piece.truncate(size);
        Ok(piece.into())
    }
}
