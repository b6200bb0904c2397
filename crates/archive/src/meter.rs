//! Counts the bytes of an archive before decompression.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Passes on at most `most` bytes, and counts them.
pub(crate) struct Metered<R> {
    from: R,
    read: Arc<AtomicU64>,
    most: u64,
}

/// The number of bytes that a [`Metered`] has passed on.
pub(crate) struct Meter(Arc<AtomicU64>);

/// More bytes were read than the limit.
#[derive(Debug, thiserror::Error)]
#[error("more than {0} bytes were read")]
pub(crate) struct Exceeded(pub(crate) u64);

impl<R: Read> Metered<R> {
    pub(crate) fn new(from: R, most: u64) -> (Self, Meter) {
        let read = Arc::new(AtomicU64::new(0));
        let meter = Meter(read.clone());
        (Self { from, read, most }, meter)
    }
}

impl Meter {
    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(into)?;
        let before = self.read.fetch_add(length as u64, Ordering::Relaxed);
        if before + length as u64 <= self.most {
            Ok(length)
        } else {
            Err(io::Error::other(Exceeded(self.most)))
        }
    }
}
