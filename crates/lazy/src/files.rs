//! Serves the requests of the kernel for the files of a snapshot.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use elevo_core::Timestamp;
use elevo_engine::{Error, NumberedEntry, NumberedTree, SeekTarget, read_range, seek};
use elevo_objects::Entry;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, Request,
};
use quick_cache::sync::Cache;
use tokio::runtime::Handle;

use crate::mount::Options;

/// The largest timeout that the kernel accepts.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);
/// Inode numbers are never reused.
const GENERATION: Generation = Generation(0);
/// The block size that `stat` and `statfs` report.
const BLOCK: u32 = 4096;
/// Maximum number of cached entries.
const MAX_CACHED_ENTRIES: usize = 16_384;
/// Maximum number of read-ahead requests that the kernel sends at a time.
const MAX_BACKGROUND_REQUESTS: u16 = 64;
/// Read-ahead of sequential reads, in bytes.
const READ_AHEAD: u32 = 16 << 20;

/// Values of `whence` in `lseek(2)` on Linux.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// A snapshot as a file system.
pub(crate) struct Files {
    numbered: NumberedTree,
    options: Options,
    /// The entries that were used last, by inode number.
    entries: Cache<u64, Arc<NumberedEntry>>,
    runtime: Option<Handle>,
}

type Result<T> = std::result::Result<T, Errno>;

impl Files {
    pub(crate) fn new(numbered: NumberedTree, options: Options) -> Self {
        Self {
            numbered,
            options,
            entries: Cache::new(MAX_CACHED_ENTRIES),
            runtime: Handle::try_current().ok(),
        }
    }

    /// Waits for a read of the store, which may need the runtime.
    fn wait<T>(&self, call: impl Future<Output = elevo_engine::Result<T>>) -> Result<T> {
        let _inside = self.runtime.as_ref().map(Handle::enter);
        futures::executor::block_on(call).map_err(|error| failed(&error))
    }

    fn entry(&self, number: INodeNo) -> Result<Arc<NumberedEntry>> {
        if let Some(known) = self.entries.get(&number.0) {
            return Ok(known);
        }
        let found = self.wait(self.numbered.get(number.0))?;
        let found = Arc::new(found.ok_or(Errno::ESTALE)?);
        self.entries.insert(number.0, found.clone());
        Ok(found)
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<Option<Arc<NumberedEntry>>> {
        let parent = self.entry(parent)?;
        let found = self.wait(self.numbered.lookup(&parent, name.as_bytes()))?;
        Ok(found.map(|found| {
            let found = Arc::new(found);
            self.entries.insert(found.number, found.clone());
            found
        }))
    }

    fn attributes(&self, entry: &NumberedEntry) -> FileAttr {
        let (kind, perm, size) = match &entry.entry {
            Entry::File { mode, content } => (FileType::RegularFile, mode.bits(), content.size()),
            Entry::Directory { mode, .. } => (FileType::Directory, mode.bits(), 0),
            Entry::Link(link) => (FileType::Symlink, 0o777, link.size),
        };
        let modified = entry.modified.map_or(self.options.unknown_time, time);
        let (uid, gid) = self.options.owner;
        FileAttr {
            ino: INodeNo(entry.number),
            size,
            blocks: size.div_ceil(512),
            atime: modified,
            mtime: modified,
            ctime: modified,
            crtime: modified,
            kind,
            perm: perm as u16,
            // 1 means that the links of a directory were not counted.
            nlink: 1,
            uid,
            gid,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        }
    }

    fn content(&self, number: INodeNo, offset: u64, length: u32) -> Result<Bytes> {
        let entry = self.entry(number)?;
        match &entry.entry {
            Entry::File { content, .. } => {
                let repository = self.numbered.repository();
                self.wait(read_range(repository, content, offset, length as usize))
            }
            _ => Err(Errno::EISDIR),
        }
    }

    fn seek_from(&self, number: INodeNo, offset: i64, whence: i32) -> Result<i64> {
        let entry = self.entry(number)?;
        let Entry::File { content, .. } = &entry.entry else {
            return Err(Errno::EISDIR);
        };
        let what = match whence {
            SEEK_DATA => SeekTarget::Data,
            SEEK_HOLE => SeekTarget::Hole,
            _ => return Err(Errno::EINVAL),
        };
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let found = self.wait(seek(self.numbered.repository(), content, offset, what))?;
        let found = found.and_then(|found| i64::try_from(found).ok());
        found.ok_or(Errno::ENXIO)
    }

    fn target(&self, number: INodeNo) -> Result<Bytes> {
        let entry = self.entry(number)?;
        match &entry.entry {
            link @ Entry::Link(_) => self.wait(self.numbered.repository().bytes(link)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Passes the entries of a directory to `add` until it returns true, each
    /// with the offset at which the listing continues: the inode number of the
    /// next entry. The offsets 0 and 1, which no entry has, stand for the
    /// directory itself and its parent.
    fn list(
        &self,
        number: INodeNo,
        offset: u64,
        mut add: impl FnMut(&NumberedEntry, &OsStr, u64) -> bool,
    ) -> Result<()> {
        let directory = self.entry(number)?;
        let first = directory.number + 1;
        if offset == 0 && add(&directory, OsStr::new("."), 1) {
            return Ok(());
        }
        if offset <= 1 {
            let above = self.wait(self.numbered.parent(directory.number))?;
            if add(&*self.entry(INodeNo(above))?, OsStr::new(".."), first) {
                return Ok(());
            }
        }
        let mut from = offset.max(first);
        loop {
            let some = self.wait(self.numbered.list(&directory, from))?;
            let Some((_, last)) = some.last() else {
                return Ok(());
            };
            from = last.next();
            for (name, entry) in some {
                if add(&entry, OsStr::from_bytes(name.as_bytes()), entry.next()) {
                    return Ok(());
                }
            }
        }
    }
}

fn time(at: Timestamp) -> SystemTime {
    let (seconds, nanos) = (at.seconds(), Duration::from_nanos(at.nanos().into()));
    let whole = match u64::try_from(seconds) {
        Ok(after) => UNIX_EPOCH.checked_add(Duration::from_secs(after)),
        Err(_) => UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs())),
    };
    let exact = whole.and_then(|whole| whole.checked_add(nanos));
    exact.unwrap_or(UNIX_EPOCH)
}

/// Logs an error of the store, for which the kernel has only one code.
fn failed(error: &Error) -> Errno {
    tracing::error!(
        cause = error as &dyn std::error::Error,
        "cannot read a mounted snapshot"
    );
    Errno::EIO
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, kernel: &mut KernelConfig) -> io::Result<()> {
        // The flags are requested one by one, because a call with a flag that
        // an older kernel lacks sets none. The mount works without any of them.
        for wanted in [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_NO_OPEN_SUPPORT,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
            InitFlags::FUSE_MAX_PAGES,
        ] {
            let _ = kernel.add_capabilities(wanted);
        }
        if let Err(most) = kernel.set_max_readahead(READ_AHEAD) {
            let _ = kernel.set_max_readahead(most);
        }
        let _ = kernel.set_max_background(MAX_BACKGROUND_REQUESTS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, name) {
            Ok(Some(found)) => reply.entry(&FOR_EVER, &self.attributes(&found), GENERATION),
            Ok(None) => {
                // With inode 0, the kernel caches that the name does not exist.
                let mut none = self.attributes(self.numbered.root());
                none.ino = INodeNo(0);
                reply.entry(&FOR_EVER, &none, GENERATION);
            }
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.entry(number) {
            Ok(entry) => reply.attr(&FOR_EVER, &self.attributes(&entry)),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.target(number) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    /// `ENOSYS` means that files need no open; the kernel does not ask again.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.content(number, offset, length) {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(error),
        }
    }

    fn lseek(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.seek_from(number, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.list(number, offset, |entry, name, next| {
            let kind = self.attributes(entry).kind;
            reply.add(INodeNo(entry.number), next, kind, name)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.list(number, offset, |entry, name, next| {
            let attributes = self.attributes(entry);
            let number = INodeNo(entry.number);
            reply.add(number, next, name, &FOR_EVER, &attributes, GENERATION)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (mut bytes, mut count) = (0, 1);
        if let Entry::Directory { tree, .. } = &self.numbered.root().entry {
            (bytes, count) = (tree.bytes, tree.count.saturating_add(1));
        }
        let blocks = bytes.div_ceil(u64::from(BLOCK));
        reply.statfs(blocks, 0, 0, count, 0, BLOCK, 255, BLOCK);
    }
}
