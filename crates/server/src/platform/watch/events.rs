//! Events of the kernel about watched directories.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::inotify::{self, ReadFlags};
use rustix::io::Errno;

/// Size of the buffer for one read of events. It bounds the memory of a batch.
const BUFFER: usize = 16 << 10;

/// An event of the kernel.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(super) watch: i32,
    pub(super) what: ReadFlags,
    pub(super) name: OsString,
}

/// Returns whether there are probably more events than these.
pub(crate) fn is_part(events: &[Raw]) -> bool {
    // Each event has a header of 16 bytes, and a name that is rounded up.
    let sizes = events.iter().map(|event| event.name.len() + 24);
    sizes.sum::<usize>() > BUFFER / 2
}

/// Reads the events that fit into one buffer. Returns `None` if there are none.
pub(crate) fn read(queue: &OwnedFd) -> io::Result<Option<Vec<Raw>>> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = inotify::Reader::new(queue, &mut buffer);
    let mut events = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => {
                let name = event.file_name().map_or(&[][..], |name| name.to_bytes());
                events.push(Raw {
                    watch: event.wd(),
                    what: event.events(),
                    name: OsStr::from_bytes(name).to_owned(),
                });
            }
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if reader.is_buffer_empty() {
            return Ok(Some(events));
        }
    }
}

/// Returns whether the events are about new directories, which must be opened
/// and listed.
pub(crate) fn needs_disk(events: &[Raw]) -> bool {
    let begins = ReadFlags::CREATE | ReadFlags::MOVED_TO;
    events
        .iter()
        .any(|event| event.what.contains(ReadFlags::ISDIR) && event.what.intersects(begins))
}
