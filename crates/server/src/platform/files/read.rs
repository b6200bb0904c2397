//! Reads files.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::platform::files::stat::{FileStat, Kind};
use crate::platform::files::{FileError, Result, Root, failed, io_failed};

/// An open regular file.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    file: File,
}

impl Root {
    /// Opens a regular file, and follows links that stay beneath the root.
    pub(crate) fn open_file(&self, path: &Path) -> Result<(OpenedFile, FileStat)> {
        let named = self.resolve(path, OFlags::PATH)?;
        let stat = rustix::fs::fstat(&named).map_err(|error| failed(error, path))?;
        match FileStat::of(&stat).kind {
            Kind::File => {}
            Kind::Directory => return Err(FileError::IsDirectory(path.into())),
            _ => return Err(FileError::NotAFile(path.into())),
        }
        let file = OpenedFile {
            file: reopen(&named, OFlags::RDONLY)
                .map_err(|error| failed(error, path))?
                .into(),
        };
        let stat = file.stat()?;
        Ok((file, stat))
    }
}

impl OpenedFile {
    /// Returns the current metadata.
    pub(crate) fn stat(&self) -> Result<FileStat> {
        let stat = rustix::fs::fstat(&self.file).map_err(|error| io_failed(error.into()))?;
        Ok(FileStat::of(&stat))
    }

    /// Reads `size` bytes at `offset`. Fails if the file has fewer.
    pub(crate) fn read_at(&self, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        let mut piece = Vec::with_capacity(size);
        while piece.len() < size {
            let at = offset + piece.len() as u64;
            match rustix::io::pread(&self.file, spare_capacity(&mut piece), at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The capacity may be larger than requested.
        piece.truncate(size);
        Ok(piece)
    }
}

/// Opens the file of a descriptor that only names it. The descriptor holds the
/// file, so no other one can take its place.
pub(super) fn reopen(named: &OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", named.as_raw_fd());
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
}
