//! The marks of overlayfs on the entries of an upper directory.

use std::io;
use std::os::fd::BorrowedFd;

use elevo_core::Name;
use rustix::fs::{AtFlags, FileType};

use super::OverlayXattrs;
use crate::disk;

/// Maximum length of the value of a mark: that of a path.
const MAX_MARK_BYTES: usize = 4096;

/// The marks of a directory.
#[derive(Default)]
pub(super) struct DirectoryMarks {
    /// Nothing from below shows in the directory.
    pub(super) is_opaque: bool,
    /// The directory below that shows in this one instead of the one with the
    /// same name.
    pub(super) redirect: Option<Vec<u8>>,
    /// Whether the directory has attributes that are not marks.
    pub(super) has_others: bool,
}

impl DirectoryMarks {
    /// Reads the marks of a directory.
    pub(super) fn of(directory: BorrowedFd<'_>, kind: OverlayXattrs) -> io::Result<Self> {
        let prefix: &[u8] = match kind {
            OverlayXattrs::Trusted => b"trusted.overlay.",
            OverlayXattrs::User => b"user.overlay.",
        };
        let mut marks = Self::default();
        for name in disk::attributes(directory)?.split(|byte| *byte == 0) {
            match name.strip_prefix(prefix) {
                Some(b"opaque") => marks.is_opaque = attribute(directory, name)? == b"y",
                // A redirect in a user attribute is ignored, as overlayfs does:
                // any user can write it, and it could lead to a directory that
                // the user may not read.
                Some(b"redirect") if kind == OverlayXattrs::Trusted => {
                    marks.redirect = Some(attribute(directory, name)?);
                }
                Some(_) => {}
                None => marks.has_others |= !name.is_empty(),
            }
        }
        Ok(marks)
    }
}

/// Whether an entry marks the deletion of its name.
pub(super) fn is_whiteout(directory: BorrowedFd<'_>, name: &Name) -> bool {
    let stat = rustix::fs::statat(directory, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
    })
}

fn attribute(fd: BorrowedFd<'_>, name: &[u8]) -> io::Result<Vec<u8>> {
    let mut value = vec![0; MAX_MARK_BYTES];
    let length = rustix::fs::fgetxattr(fd, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}
