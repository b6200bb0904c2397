//! Imports files and links.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use elevo_core::{Name, TreePath};
use elevo_objects::{
    Chunker, Content, Entry, Kind, Link, MAX_LINK_BYTES, MIN_CHUNK, Mode, TimeEntry,
};
use rayon::prelude::*;
use rustix::fs::{AtFlags, FileType, Mode as Bits, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::{Importer, Known, KnownEntry, LossKind, ReadEntry, SLICE};
use crate::disk;
use crate::error::{Error, Result};
use crate::file::{ContentBuilder, ZEROS};
use crate::stat_cache::{CachedStat, Fingerprint};
use crate::store::Object;

/// Number of chunks of a large file that are held before they go to the sink.
const CHUNKS_HELD: usize = 16;

impl Importer<'_> {
    pub(super) fn leaves(
        &self,
        path: &TreePath,
        fd: BorrowedFd<'_>,
        leaves: Vec<(Name, FileType)>,
        known: &Known,
    ) -> Result<Vec<(Name, ReadEntry)>> {
        let read: Vec<Option<(Name, ReadEntry)>> = leaves
            .into_par_iter()
            .with_min_len(SLICE)
            .map(|(name, kind)| {
                let known = known.get(&name);
                let read = self.leaf(path, fd, &name, kind, known)?;
                Ok(read.map(|entry| (name, entry)))
            })
            .collect::<Result<_>>()?;
        Ok(read.into_iter().flatten().collect())
    }

    /// Reads one entry that is not a directory; `None` if it cannot be stored.
    pub(super) fn leaf(
        &self,
        path: &TreePath,
        fd: BorrowedFd<'_>,
        name: &Name,
        kind: FileType,
        known: Option<&KnownEntry>,
    ) -> Result<Option<ReadEntry>> {
        let read = match kind {
            FileType::RegularFile => self.file(path, fd, name, known),
            FileType::Symlink => self.link(fd, name),
            other => {
                let kind = match other {
                    FileType::Socket => LossKind::Socket,
                    FileType::Fifo => LossKind::Pipe,
                    FileType::CharacterDevice | FileType::BlockDevice => LossKind::Device,
                    _ => LossKind::Vanished,
                };
                self.lose(kind, path, Some(name));
                return Ok(None);
            }
        };
        match read {
            Ok(read) => Ok(Some(read)),
            Err(ReadError::Engine(error)) => Err(error),
            Err(ReadError::Io(error)) if disk::is_absent(&error) => {
                self.lose(LossKind::Vanished, path, Some(name));
                Ok(None)
            }
            Err(ReadError::Io(source)) => Err(Error::Io {
                action: "read",
                path: path.join(name)?,
                source,
            }),
        }
    }

    fn file(
        &self,
        path: &TreePath,
        fd: BorrowedFd<'_>,
        name: &Name,
        known: Option<&KnownEntry>,
    ) -> std::result::Result<ReadEntry, ReadError> {
        if let Some(known) = known
            && let Some(read) = self.unchanged(path, fd, name, known)?
        {
            return Ok(read);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = rustix::fs::openat(fd, name.as_bytes(), flags, Bits::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ReadError::Io(Errno::NOENT.into()));
        }
        let has_attributes = self.note_attributes(&stat, fd.as_fd(), path, Some(name));
        let content = self.content(fd, stat.st_size as u64)?;
        self.progress.add(0, content.size());
        Ok(read_file(&stat, content, has_attributes))
    }

    /// Returns a known file if it has not changed: by its fingerprint if there
    /// is a cache, otherwise by size and modification time.
    fn unchanged(
        &self,
        path: &TreePath,
        fd: BorrowedFd<'_>,
        name: &Name,
        known: &KnownEntry,
    ) -> io::Result<Option<ReadEntry>> {
        let Entry::File { content, .. } = known.entry else {
            return Ok(None);
        };
        if self.cache.is_some() && known.seen.is_none() {
            return Ok(None);
        }
        let stat = rustix::fs::statat(fd, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)?;
        let same = match &known.seen {
            Some(seen) => seen.fingerprint == Fingerprint::of(&stat),
            None => has_known_time(&stat, known, content.size()),
        };
        if !same {
            return Ok(None);
        }
        let has_attributes = known.seen.is_some_and(|seen| seen.has_attributes);
        self.note_losses(&stat, has_attributes, path, Some(name));
        Ok(Some(read_file(&stat, content, has_attributes)))
    }

    fn content(&self, fd: OwnedFd, size: u64) -> std::result::Result<Content, ReadError> {
        if size == 0 {
            return Ok(Content::Empty);
        }
        if size <= MIN_CHUNK as u64 {
            let data = Bytes::from(disk::read_up_to(fd, size as usize)?);
            if data.is_empty() {
                return Ok(Content::Empty);
            }
            let key = Kind::Chunk.key(&data);
            let content = Content::Chunk {
                hash: key.hash,
                size: data.len() as u64,
            };
            self.sink.add(vec![Object { key, data }])?;
            return Ok(content);
        }
        let file = File::from(fd);
        let mut builder = ContentBuilder::default();
        let (mut at, mut held) = (0, 0);
        let mut chunks = Chunker::new(Span::new(&file, at, size));
        while let Some(chunk) = chunks.next().transpose()? {
            at += chunk.len() as u64;
            held += 1;
            let may_go_on = ZEROS.is_chunk(&chunk);
            builder.push(chunk);
            let zeros = if may_go_on {
                ZEROS.chunks_in(hole_at(&file, at, size))
            } else {
                0
            };
            if zeros > 0 {
                builder.push_zeros(zeros);
                at += ZEROS.bytes_of(zeros);
                chunks = Chunker::new(Span::new(&file, at, size));
            }
            if zeros > 0 || held == CHUNKS_HELD {
                self.sink.add(builder.take_objects())?;
                held = 0;
            }
        }
        let (content, objects) = builder.finish();
        self.sink.add(objects)?;
        Ok(content)
    }

    fn link(&self, fd: BorrowedFd<'_>, name: &Name) -> std::result::Result<ReadEntry, ReadError> {
        let stat = rustix::fs::statat(fd, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)?;
        let target = rustix::fs::readlinkat(fd, name.as_bytes(), Vec::with_capacity(256))?;
        let data = Bytes::from(target.into_bytes());
        if data.is_empty() || data.len() > MAX_LINK_BYTES {
            return Err(ReadError::Engine(Error::LinkTarget));
        }
        let key = Kind::Chunk.key(&data);
        let link = Link {
            hash: key.hash,
            size: data.len() as u64,
        };
        self.sink.add(vec![Object { key, data }])?;
        let time = TimeEntry {
            modified: disk::modified(&stat),
            children: None,
        };
        Ok(ReadEntry {
            entry: Entry::Link(link),
            time,
            seen: Some(leaf_seen(&stat, false)),
        })
    }

    pub(super) fn note_attributes(
        &self,
        stat: &Stat,
        fd: BorrowedFd<'_>,
        path: &TreePath,
        name: Option<&Name>,
    ) -> bool {
        let has_attributes = disk::has_attributes(fd);
        self.note_losses(stat, has_attributes, path, name);
        has_attributes
    }

    pub(super) fn note_losses(
        &self,
        stat: &Stat,
        has_attributes: bool,
        path: &TreePath,
        name: Option<&Name>,
    ) {
        for kind in losses(stat, self.owner, has_attributes) {
            self.lose(kind, path, name);
        }
    }
}

/// Returns the properties of a file or directory that a snapshot does not
/// store.
pub(super) fn losses(
    stat: &Stat,
    owner: u32,
    has_attributes: bool,
) -> impl Iterator<Item = LossKind> {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let losses = [
        (LossKind::HardLink, is_file && stat.st_nlink > 1),
        (LossKind::SpecialBits, stat.st_mode & 0o7000 != 0),
        (LossKind::Owner, stat.st_uid != owner),
        (LossKind::ExtendedAttributes, has_attributes),
    ];
    let found = losses.into_iter().filter(|(_, found)| *found);
    found.map(|(kind, _)| kind)
}

fn leaf_seen(stat: &Stat, has_attributes: bool) -> CachedStat {
    CachedStat {
        fingerprint: Fingerprint::of(stat),
        has_attributes,
        below: None,
    }
}

fn read_file(stat: &Stat, content: Content, has_attributes: bool) -> ReadEntry {
    ReadEntry {
        entry: Entry::File {
            mode: Mode::from_bits(disk::mode(stat)),
            content,
        },
        time: TimeEntry {
            modified: disk::modified(stat),
            children: None,
        },
        seen: Some(leaf_seen(stat, has_attributes)),
    }
}

/// Whether a file still has its known size and modification time.
fn has_known_time(stat: &Stat, known: &KnownEntry, size: u64) -> bool {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let modified = disk::modified(stat);
    let known = known.time.and_then(|time| time.modified);
    is_file && stat.st_size as u64 == size && modified.is_some() && modified == known
}

/// A part of a file, read without moving the file's position. It has a fixed
/// end, since a file that grows during the import would otherwise have none.
struct Span<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl<'a> Span<'a> {
    const fn new(file: &'a File, at: u64, end: u64) -> Self {
        Self { file, at, end }
    }
}

impl Read for Span<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let length = into.len().min(left);
        let read = self.file.read_at(&mut into[..length], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Returns the length of the hole at `at` of a file, up to `end`.
fn hole_at(file: &File, at: u64, end: u64) -> u64 {
    let next = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => data.min(end),
        // Only a hole follows; the file may have become shorter.
        Err(Errno::NXIO) => file.metadata().map_or(at, |now| now.len().min(end)),
        // The file system does not support holes.
        Err(_) => at,
    };
    next.saturating_sub(at)
}

/// An error of reading a file, or of storing its content.
enum ReadError {
    Io(io::Error),
    Engine(Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for ReadError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}
