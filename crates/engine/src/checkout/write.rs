//! Writes the entries of a snapshot into a directory.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use bytes::Bytes;
use elevo_core::{Timestamp, TreePath};
use elevo_objects::{Content, Entry, Hash, Mode, Tree};
use rayon::prelude::*;
use rustix::fs::{AtFlags, Mode as Bits, OFlags};
use rustix::io::Errno;

use super::attributes::{probe_umask, set_modified, set_owner, set_owner_at, timestamps};
#[cfg(not(target_vendor = "apple"))]
use super::content::clone_content;
use super::remove::remove_all;
use super::{Checkout, CheckoutReport, Job, Owner, SLICE};
use crate::disk::{self, Parents, RootDirectory};
use crate::error::{Error, Result, at_root};

/// Writes entries of a snapshot into the directory.
pub(super) struct Writer<'a> {
    pub(super) checkout: &'a Checkout<'a>,
    pub(super) clone_source: Option<(RootDirectory, Tree)>,
    /// Permission bits that the process's umask clears on new files.
    umask: u32,
    owner: Option<Owner>,
}

/// A directory being filled, whose mode and time are set when it is complete.
pub(super) struct OpenDirectory {
    path: TreePath,
    mode: Mode,
    modified: Option<Timestamp>,
    was_there: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        checkout: &'a Checkout<'a>,
        clone_source: Option<(RootDirectory, Tree)>,
    ) -> Self {
        let umask = probe_umask(checkout.root).unwrap_or(0o777);
        Self {
            checkout,
            clone_source,
            umask,
            owner: checkout.options.owner,
        }
    }

    /// Sets the owner of the directory itself.
    pub(super) fn set_root_owner(&self) -> Result<()> {
        if self.owner.is_none() {
            return Ok(());
        }
        let root = self.checkout.root.open_directory(&TreePath::root());
        let given = root.and_then(|root| set_owner(root, self.owner));
        given.map_err(at_root("change the owner of"))
    }

    /// Writes some entries, in the order of a walk. `open` has the directories
    /// that later entries may still go into.
    pub(super) fn write(
        &self,
        jobs: Vec<Job>,
        open: &mut Vec<OpenDirectory>,
    ) -> Result<CheckoutReport> {
        let mut parents = Parents::new(self.checkout.root);
        let mut full = Vec::new();
        let mut report = CheckoutReport::default();
        let mut leaves = Vec::with_capacity(jobs.len());
        for job in jobs {
            while let Some(directory) =
                open.pop_if(|directory| !job.path.starts_with(&directory.path))
            {
                full.push(directory);
            }
            if let Some(Entry::Directory { mode, .. }) = job.entry {
                let directory = OpenDirectory {
                    mode,
                    modified: job.modified,
                    was_there: job.before.is_some(),
                    path: job.path,
                };
                self.make_directory(&mut parents, &directory)?;
                open.push(directory);
                report.written += 1;
            } else {
                leaves.push(job);
            }
        }
        self.checkout.progress.add(report.written, 0);
        let written: Vec<_> = leaves
            .par_chunks(SLICE)
            .map(|slice| self.write_leaves(slice))
            .collect::<Result<_>>()?;
        self.close(full)?;
        Ok(written.into_iter().fold(report, CheckoutReport::plus))
    }

    /// Sets the mode and time of complete directories, inner ones first, since
    /// an outer one may become inaccessible.
    pub(super) fn close(&self, full: Vec<OpenDirectory>) -> Result<()> {
        for directory in full {
            let set_mode = directory.was_there
                || directory.mode.bits() & 0o700 != 0o700
                || directory.mode.bits() & self.umask != 0;
            if !set_mode && directory.modified.is_none() {
                continue;
            }
            let fail = |source| fail("set the mode and time of", &directory.path)(source);
            let fd = self
                .checkout
                .root
                .open_directory(&directory.path)
                .map_err(fail)?;
            if set_mode {
                let bits = disk::bits(directory.mode.bits());
                rustix::fs::fchmod(&fd, bits).map_err(|error| fail(error.into()))?;
            }
            set_modified(&fd, directory.modified).map_err(fail)?;
        }
        Ok(())
    }

    /// Creates a directory that its owner can write to until it is closed.
    fn make_directory(&self, parents: &mut Parents<'_>, directory: &OpenDirectory) -> Result<()> {
        let path = &directory.path;
        let bits = disk::bits(directory.mode.bits() | 0o700);
        let make = |parents: &mut Parents<'_>| -> io::Result<()> {
            let (parent, name) = parents.of(path)?;
            rustix::fs::mkdirat(parent, name.as_bytes(), bits)?;
            set_owner_at(parent, &name, self.owner)
        };
        match make(parents) {
            Ok(()) => Ok(()),
            Err(error) if is_there(&error) => match self.checkout.root.open_directory(path) {
                Ok(_) => Ok(()),
                Err(_) if self.checkout.options.force => {
                    remove_all(self.checkout, path)?;
                    make(parents).map_err(fail("create", path))
                }
                Err(_) => Err(Error::InTheWay {
                    first: path.clone(),
                    count: 1,
                }),
            },
            Err(source) => Err(fail("create", path)(source)),
        }
    }

    /// Writes files and links that are close together, with the chunks of the
    /// small ones loaded in one call.
    fn write_leaves(&self, jobs: &[Job]) -> Result<CheckoutReport> {
        let mut parents = Parents::new(self.checkout.root);
        let wanted: Vec<Hash> = jobs
            .iter()
            .filter_map(|job| only_chunk(job.entry.as_ref()))
            .collect();
        let chunks = self
            .checkout
            .workers
            .wait(self.checkout.repository.chunks(&wanted))?;
        let mut chunks = chunks.into_iter();
        let mut report = CheckoutReport::default();
        for job in jobs {
            let chunk = only_chunk(job.entry.as_ref()).and_then(|_| chunks.next());
            let done = match &job.entry {
                Some(Entry::File { mode, content }) => {
                    self.write_file(&mut parents, job, *mode, content, chunk)?
                }
                Some(Entry::Link(_)) => {
                    let target = chunk.unwrap_or_default();
                    self.write_link(&mut parents, job, &target)?
                }
                Some(Entry::Directory { .. }) => CheckoutReport::default(),
                None => write_whiteout(&mut parents, &job.path)?,
            };
            report = report.plus(done);
            self.checkout.progress.add(1, done.bytes);
        }
        Ok(report)
    }

    fn write_file(
        &self,
        parents: &mut Parents<'_>,
        job: &Job,
        mode: Mode,
        content: &Content,
        chunk: Option<Bytes>,
    ) -> Result<CheckoutReport> {
        let done = CheckoutReport {
            written: 1,
            ..CheckoutReport::default()
        };
        if let Some(Entry::File {
            content: before, ..
        }) = &job.before
            && before == content
            && self.change_mode(parents, job, mode).unwrap_or(false)
        {
            return Ok(done);
        }
        let clone_source = self.in_clone_source(&job.path, content)?;
        #[cfg(target_vendor = "apple")]
        let (fd, cloned) = match clone_source
            .and_then(|clone_source| self.clone_new(parents, job, &clone_source))
        {
            Some(fd) => (fd, true),
            None => (self.create(parents, job, mode)?, false),
        };
        #[cfg(not(target_vendor = "apple"))]
        let (fd, cloned) = {
            let fd = self.create(parents, job, mode)?;
            let cloned = clone_source.is_some_and(|clone_source| clone_content(&fd, &clone_source));
            (fd, cloned)
        };
        set_owner(&fd, self.owner).map_err(fail("change the owner of", &job.path))?;
        if !cloned {
            self.write_content(&fd, job, content, chunk)?;
        }
        let finish = |source| fail("set the mode and time of", &job.path)(source);
        if mode.bits() & self.umask != 0 {
            rustix::fs::fchmod(&fd, disk::bits(mode.bits()))
                .map_err(|error| finish(error.into()))?;
        }
        set_modified(&fd, job.modified).map_err(finish)?;
        Ok(CheckoutReport {
            bytes: if cloned { 0 } else { content.size() },
            cloned: cloned.into(),
            ..done
        })
    }

    /// Changes the mode of a file. Returns `false` if the file has other names,
    /// whose mode would change as well: such a file is written again.
    fn change_mode(&self, parents: &mut Parents<'_>, job: &Job, mode: Mode) -> io::Result<bool> {
        let (parent, name) = parents.of(&job.path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = rustix::fs::openat(parent, name.as_bytes(), flags, Bits::empty())?;
        if rustix::fs::fstat(&fd)?.st_nlink > 1 {
            return Ok(false);
        }
        rustix::fs::fchmod(fd, disk::bits(mode.bits()))?;
        Ok(true)
    }

    /// Creates a new file, removing an existing entry.
    fn create(&self, parents: &mut Parents<'_>, job: &Job, mode: Mode) -> Result<OwnedFd> {
        let path = &job.path;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let bits = disk::bits(mode.bits());
        let create = |parents: &mut Parents<'_>| -> io::Result<OwnedFd> {
            let (parent, name) = parents.of(path)?;
            Ok(rustix::fs::openat(parent, name.as_bytes(), flags, bits)?)
        };
        if job.before.is_some() {
            self.make_room(parents, path)?;
        }
        match create(parents) {
            Err(error) if is_there(&error) => {
                self.make_room(parents, path)?;
                create(parents).map_err(fail("create", path))
            }
            other => other.map_err(fail("create", path)),
        }
    }

    /// Removes a file or link that was checked before, or with force any entry.
    pub(super) fn make_room(&self, parents: &mut Parents<'_>, path: &TreePath) -> Result<()> {
        if self.checkout.options.force {
            return remove_all(self.checkout, path).map(drop);
        }
        let (parent, name) = parents.of(path).map_err(fail("replace", path))?;
        match rustix::fs::unlinkat(parent, name.as_bytes(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR) => Err(Error::InTheWay {
                first: path.clone(),
                count: 1,
            }),
            Err(error) => Err(fail("replace", path)(error.into())),
        }
    }

    fn write_link(
        &self,
        parents: &mut Parents<'_>,
        job: &Job,
        target: &[u8],
    ) -> Result<CheckoutReport> {
        let path = &job.path;
        let link = |parents: &mut Parents<'_>| -> io::Result<()> {
            let (parent, name) = parents.of(path)?;
            rustix::fs::symlinkat(target, parent, name.as_bytes())?;
            set_owner_at(parent, &name, self.owner)
        };
        if job.before.is_some() {
            self.make_room(parents, path)?;
        }
        match link(parents) {
            Err(error) if is_there(&error) => {
                self.make_room(parents, path)?;
                link(parents).map_err(fail("create", path))?;
            }
            other => other.map_err(fail("create", path))?,
        }
        if let Some(time) = job.modified {
            let (parent, name) = parents.of(path).map_err(fail("set the time of", path))?;
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::utimensat(parent, name.as_bytes(), &timestamps(time), flags)
                .map_err(|error| fail("set the time of", path)(error.into()))?;
        }
        Ok(CheckoutReport {
            written: 1,
            ..CheckoutReport::default()
        })
    }
}

pub(super) fn fail(action: &'static str, path: &TreePath) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io {
        action,
        path: path.clone(),
        source,
    }
}

fn is_there(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EXIST.raw_os_error())
}

/// The only chunk of an entry's content, if it has exactly one.
fn only_chunk(entry: Option<&Entry>) -> Option<Hash> {
    match entry? {
        Entry::File {
            content: Content::Chunk { hash, .. },
            ..
        } => Some(*hash),
        Entry::Link(link) => Some(link.hash),
        _ => None,
    }
}

#[cfg(target_os = "linux")]
fn make_whiteout(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    let kind = rustix::fs::FileType::CharacterDevice;
    Ok(rustix::fs::mknodat(parent, name, kind, Bits::empty(), 0)?)
}

#[cfg(not(target_os = "linux"))]
fn make_whiteout(_: BorrowedFd<'_>, _: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes a whiteout of overlayfs: a 0/0 character device.
fn write_whiteout(parents: &mut Parents<'_>, path: &TreePath) -> Result<CheckoutReport> {
    let (parent, name) = parents.of(path).map_err(fail("create", path))?;
    make_whiteout(parent, name.as_bytes()).map_err(fail("create", path))?;
    Ok(CheckoutReport {
        removed: 1,
        ..CheckoutReport::default()
    })
}
