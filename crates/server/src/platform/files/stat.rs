//! The metadata of a file, and its entity tag.
//!
//! The tag has the inode, the size and the times of the last changes of content
//! and metadata. Two writes within one tick of the kernel's clock leave equal
//! times, so a tag is strong only if a later write certainly changes it:
//!
//! - The last change is older than a tick: a later write has a later time.
//! - The two times differ: a write sets both to the same time. [`Root::put`]
//!   therefore sets the exact time of its content, which is between two ticks,
//!   and its tag is strong at once.
//!
//! [`Root::put`]: crate::platform::files::Root::put

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Stat};

/// The longest tick of the kernel's clock.
const TICK: Duration = Duration::from_millis(10);

/// Seconds and nanoseconds since 1970.
pub(crate) type FileTime = (i64, u32);

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

/// The metadata of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileStat {
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    /// Permission bits.
    pub(crate) mode: u32,
    pub(crate) modified: FileTime,
    /// Target of a symbolic link.
    pub(crate) target: Option<Vec<u8>>,
    changed: FileTime,
    inode: u64,
}

impl FileStat {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            kind: match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Directory,
                FileType::Symlink => Kind::Symlink,
                _ => Kind::Other,
            },
            size: stat.st_size as u64,
            mode: stat.st_mode & 0o7777,
            modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
            target: None,
            changed: (stat.st_ctime, stat.st_ctime_nsec as u32),
            inode: stat.st_ino,
        }
    }

    /// Returns the metadata that the agent of a sandbox reports.
    pub(crate) fn of_agent(stat: elevo_agent_link::FileStat) -> Self {
        use elevo_agent_link::FileKind;
        let kind = match stat.kind {
            FileKind::File => Kind::File,
            FileKind::Directory => Kind::Directory,
            FileKind::Symlink => Kind::Symlink,
            FileKind::Unspecified => Kind::Other,
        };
        Self {
            kind,
            size: stat.size,
            mode: stat.mode,
            modified: stat.modified,
            target: (kind == Kind::Symlink).then_some(stat.target),
            changed: stat.changed,
            inode: stat.inode,
        }
    }

    /// Returns the time of the last change of the content.
    pub(crate) fn modified_at(&self) -> SystemTime {
        let (seconds, nanos) = self.modified;
        // A process can set any time, also one that does not fit.
        let since = Duration::new(u64::try_from(seconds).unwrap_or_default(), nanos);
        UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
    }

    /// Returns the text of the tag, without quotes.
    pub(crate) fn tag(&self) -> String {
        let nanos =
            |(seconds, nanos): FileTime| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        format!(
            "{:x}-{:x}-{:x}-{:x}",
            self.inode,
            self.size,
            nanos(self.modified),
            nanos(self.changed)
        )
    }

    /// Returns the tag as in the header `ETag`: weak if a write at `now` could
    /// leave it unchanged.
    pub(crate) fn etag(&self, now: SystemTime) -> String {
        match self.unsettled(now) {
            None => format!("\"{}\"", self.tag()),
            Some(_) => format!("W/\"{}\"", self.tag()),
        }
    }

    /// Returns the time until every later write changes the tag; `None` if that
    /// is so already.
    pub(crate) fn unsettled(&self, now: SystemTime) -> Option<Duration> {
        if self.modified != self.changed {
            return None;
        }
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, nanos) = self.changed;
        let changed = Duration::new(u64::try_from(seconds).unwrap_or_default(), nanos);
        let left = (changed + TICK).checked_sub(now)?;
        // A time far in the future comes from another clock, and the wait would
        // be in vain.
        Some(left.min(TICK)).filter(|left| !left.is_zero())
    }
}

/// The tags that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tags {
    /// `*`: any file.
    Any,
    /// Strong tags, without quotes.
    These(Vec<String>),
}

impl Tags {
    /// Returns true if the file has one of the tags.
    pub(crate) fn include(&self, found: &FileStat) -> bool {
        match self {
            Self::Any => true,
            Self::These(tags) => found.kind != Kind::Directory && tags.contains(&found.tag()),
        }
    }
}

/// The preconditions of a change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    /// `If-Match`: the file must exist and have one of these tags.
    pub(crate) matches: Option<Tags>,
    /// `If-None-Match: *`: the file must not exist.
    pub(crate) is_new: bool,
}

impl Condition {
    /// Returns true if the current state of a file allows the change.
    pub(super) fn allows(&self, found: Option<&FileStat>) -> bool {
        let is_match = match &self.matches {
            Some(tags) => found.is_some_and(|found| tags.include(found)),
            None => true,
        };
        is_match && !(self.is_new && found.is_some())
    }
}
