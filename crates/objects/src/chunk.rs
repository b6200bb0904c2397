//! Content-defined chunks: FastCDC (2020) with 16, 64 and 256 KiB.
//!
//! The end of a chunk depends only on the bytes from its start to one byte past
//! its end, and on whether the file ends less than [`LOOK_AHEAD`] bytes past
//! its end; never on the bytes before it. So an edit moves only the boundaries
//! around it. To chunk an edited file again, start with the chunk that contains
//! the byte `LOOK_AHEAD` before the edit (or the first chunk), and stop as soon
//! as a boundary after the edit coincides with an old one: everything after it
//! is unchanged.

use std::io::{self, Read};

use bytes::Bytes;

/// Minimum size of a chunk, except the last of a file.
pub const MIN_CHUNK: usize = 16 * 1024;
/// The size that cut points are normalised around.
pub const AVERAGE_CHUNK: usize = 64 * 1024;
/// Maximum size of a chunk.
pub const MAX_CHUNK: usize = 256 * 1024;

/// A chunk that ends at least this many bytes before an edit keeps its end.
///
/// This is 2 and not 1 because bytes are examined in pairs: if the file ends
/// with the first byte of a pair, only the last chunk can end there.
pub const LOOK_AHEAD: usize = 2;

/// Masks of normalisation level 1 for 64 KiB, pinned here because other masks
/// in a later release of the crate would be another format.
const MASK_SMALL: u64 = 0x0000_d907_0353_7000;
const MASK_LARGE: u64 = 0x0000_d90f_0353_0000;

/// Returns the length of the chunk that starts at `window[0]`.
///
/// `window` must have at least [`MAX_CHUNK`] bytes, or all that is left of the
/// file; otherwise the result would depend on how the file was read.
pub fn cut(window: &[u8]) -> usize {
    let (_, length) = fastcdc::v2020::cut(
        window,
        MIN_CHUNK,
        AVERAGE_CHUNK,
        MAX_CHUNK,
        MASK_SMALL,
        MASK_LARGE,
        MASK_SMALL << 1,
        MASK_LARGE << 1,
    );
    length
}

/// Cuts the bytes of a reader into chunks, reading at most a megabyte ahead.
#[derive(Debug)]
pub struct Chunker<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    ended: bool,
}

/// Maximum bytes that a [`Chunker`] reads ahead.
const READ_AHEAD: usize = 4 * MAX_CHUNK;
/// Initial capacity of its buffer: enough for most files, and cheap to
/// allocate.
const FIRST_READ: usize = AVERAGE_CHUNK;

impl<R: Read> Chunker<R> {
    /// Returns the chunks of `reader`, from its current position to its end.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            start: 0,
            ended: false,
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.ended || self.buffer.len() - self.start >= MAX_CHUNK {
            return Ok(());
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.capacity() == 0 {
            // Otherwise `read_to_end` would begin with reads of 32 bytes.
            self.buffer.reserve(FIRST_READ);
        }
        let wanted = READ_AHEAD - self.buffer.len();
        let read = self
            .reader
            .by_ref()
            .take(wanted as u64)
            .read_to_end(&mut self.buffer)?;
        self.ended = read < wanted;
        Ok(())
    }
}

impl<R: Read> Iterator for Chunker<R> {
    type Item = io::Result<Bytes>;

    fn next(&mut self) -> Option<io::Result<Bytes>> {
        if let Err(error) = self.fill() {
            self.ended = true;
            self.buffer.clear();
            self.start = 0;
            return Some(Err(error));
        }
        let window = &self.buffer[self.start..];
        if window.is_empty() {
            return None;
        }
        let length = cut(window);
        self.start += length;
        Some(Ok(Bytes::copy_from_slice(&window[..length])))
    }
}

#[cfg(test)]
mod tests {
    use fastcdc::v2020::{Normalization, get_gear_with_seed, select_masks};

    use super::*;
    use crate::hash::Kind;

    #[test]
    fn masks_and_gear_table_are_those_of_the_crate() {
        let masks = select_masks(AVERAGE_CHUNK, Normalization::Level1);
        assert_eq!(masks, (MASK_SMALL, MASK_LARGE));
        let (gear, _) = get_gear_with_seed(0);
        let table: Vec<u8> = gear.iter().flat_map(|value| value.to_be_bytes()).collect();
        assert_eq!(
            Kind::Chunk.hash(&table).to_string(),
            "f475aca4f76d6b532119b6f430f2f051331131d61f9ca5bbc5ce81a95305c91d"
        );
    }

    #[test]
    fn a_small_file_costs_few_reads() {
        struct Counting<'a>(&'a [u8], &'a mut usize);
        impl Read for Counting<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                *self.1 += 1;
                self.0.read(buffer)
            }
        }
        for (size, most) in [(100, 3), (4096, 3), (60_000, 6)] {
            let mut reads = 0;
            let data = vec![b'x'; size];
            let chunks = Chunker::new(Counting(&data, &mut reads)).count();
            assert_eq!(chunks, 1);
            assert!(reads <= most, "{size} bytes took {reads} reads");
        }
    }

    #[test]
    fn a_read_error_ends_the_chunks() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
        }
        let mut chunks = Chunker::new(Broken);
        assert!(chunks.next().unwrap().is_err());
        assert!(chunks.next().is_none());
    }
}
