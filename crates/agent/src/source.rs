//! Reads pipes and terminals without blocking.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::buffer::Stream;

pub(crate) type Fd = Arc<AsyncFd<OwnedFd>>;

/// Makes a file nonblocking.
pub(crate) fn nonblocking(fd: OwnedFd) -> io::Result<Fd> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    // SAFETY: the registration owns the descriptor, which never changes and is
    // only borrowed: it stays open until the registration is dropped.
    let fd = unsafe { AsyncFd::register(fd) };
    Ok(Arc::new(fd?))
}

/// A stream of output of a process.
pub(crate) struct Source {
    pub(crate) stream: Stream,
    fd: Option<Fd>,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    Some(usize),
    /// No data at the moment.
    Nothing,
    /// The end of the stream.
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

    /// The number of bytes that can be read now.
    pub(crate) fn waiting(&self) -> u64 {
        let fd = self.fd.as_ref();
        fd.and_then(|fd| rustix::io::ioctl_fionread(fd.get_ref()).ok())
            .unwrap_or(0)
    }

    /// Waits until a read would not block. Never returns after the end of the
    /// stream.
    pub(crate) async fn readable(&self) {
        match &self.fd {
            // The following read returns the error.
            Some(fd) => drop(fd.readable().await),
            None => std::future::pending().await,
        }
    }

    /// Reads available data, and closes the file at its end.
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
            // A terminal returns EIO when no process has it open any more.
            Ok(0) | Err(_) => Read::End,
            Ok(count) => {
                // A pipe returns all its data, so the pipe is empty now. A
                // terminal returns at most a line or a page, even if it has
                // more data.
                if count < buffer.len() && stream != Stream::Terminal {
                    not_ready(fd);
                }
                Read::Some(count)
            }
        };
    }
}

/// Marks a file as not readable until the system reports it as readable again.
fn not_ready(fd: &Fd) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    if let std::task::Poll::Ready(Ok(mut guard)) = fd.poll_read_ready(&mut context) {
        guard.clear_ready();
    }
}
