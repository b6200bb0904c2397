//! Files that are read and written without waiting: pipes and terminals.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::buffer::Stream;

pub(crate) type Fd = Arc<AsyncFd<OwnedFd>>;

/// Makes a file one that is not waited for.
pub(crate) fn nonblocking(fd: OwnedFd) -> io::Result<Fd> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    // SAFETY: the descriptor is owned by what is registered, always the same, and
    // only borrowed from it: it stays open until that is dropped.
    let fd = unsafe { AsyncFd::register(fd) };
    Ok(Arc::new(fd?))
}

/// Something that a process writes to.
pub(crate) struct Source {
    pub(crate) stream: Stream,
    fd: Option<Fd>,
}

/// What came of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    Some(usize),
    /// Nothing now.
    Nothing,
    /// Nothing ever.
    End,
}

impl Source {
    pub(crate) fn new(stream: Stream, fd: Fd) -> Self {
        Self {
            stream,
            fd: Some(fd),
        }
    }

    pub(crate) fn none() -> Self {
        Self {
            stream: Stream::Stderr,
            fd: None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.fd.is_some()
    }

    /// How many bytes wait to be read.
    pub(crate) fn waiting(&self) -> u64 {
        let fd = self.fd.as_ref();
        fd.and_then(|fd| rustix::io::ioctl_fionread(fd.get_ref()).ok())
            .unwrap_or(0)
    }

    /// Waits until a read would not have to; forever, once the end is reached.
    pub(crate) async fn readable(&self) {
        match &self.fd {
            // An error shows in the read that follows.
            Some(fd) => drop(fd.readable().await),
            None => std::future::pending().await,
        }
    }

    /// Reads what is there, and closes the file at its end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Read {
        let Some(fd) = &self.fd else {
            return Read::End;
        };
        let result = read(fd, buffer, self.stream);
        if result == Read::End {
            self.fd = None;
        }
        result
    }
}

fn read(fd: &Fd, buffer: &mut [u8], stream: Stream) -> Read {
    loop {
        return match rustix::io::read(fd.get_ref(), &mut *buffer) {
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                not_ready(fd);
                Read::Nothing
            }
            // A terminal says EIO when nobody has it open any more.
            Ok(0) | Err(_) => Read::End,
            Ok(count) => {
                // A pipe gives all it has: there is nothing more now. A terminal
                // gives a line or a page at a time, however much it has.
                if count < buffer.len() && stream != Stream::Terminal {
                    not_ready(fd);
                }
                Read::Some(count)
            }
        };
    }
}

/// Waits for the next event of this file before it counts as readable.
fn not_ready(fd: &Fd) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    if let std::task::Poll::Ready(Ok(mut guard)) = fd.poll_read_ready(&mut context) {
        guard.clear_ready();
    }
}
