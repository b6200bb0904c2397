//! Content-defined chunks: FastCDC (2020) with 16, 64 and 256 KiB.
//!
//! Where a chunk ends depends only on the bytes from its start to one byte
//! past its end (and on the file ending there), never on what came before. So
//! an edit moves only the boundaries around it: as soon as a new boundary
//! falls on an old one, everything after it is as it was.

use std::io::{self, Read};

use bytes::Bytes;

/// No chunk but a file's last is shorter.
pub const MIN_CHUNK: usize = 16 * 1024;
/// The size that cut points are normalised around.
pub const AVERAGE_CHUNK: usize = 64 * 1024;
/// No chunk is longer.
pub const MAX_CHUNK: usize = 256 * 1024;

/// Masks of normalisation level 1 for 64 KiB, pinned here because a different
/// choice in a later release of the crate would be a different format.
const MASK_SMALL: u64 = 0x0000_d907_0353_7000;
const MASK_LARGE: u64 = 0x0000_d90f_0353_0000;

/// The length of the chunk that starts at `window[0]`.
///
/// `window` must hold at least [`MAX_CHUNK`] bytes, or all that is left of the
/// file; otherwise the answer would depend on how it was read.
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

/// Cuts what a reader gives into chunks, reading at most a megabyte ahead.
#[derive(Debug)]
pub struct Chunker<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    ended: bool,
}

/// How much a [`Chunker`] reads at once.
const READ_AHEAD: usize = 4 * MAX_CHUNK;

impl<R: Read> Chunker<R> {
    /// Chunks of `reader`, from where it stands to its end.
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
    use super::*;

    /// A fixed stream of bytes, the same on every machine (xorshift64).
    pub(crate) fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    fn lengths(data: &[u8]) -> Vec<usize> {
        Chunker::new(data)
            .map(|chunk| chunk.unwrap().len())
            .collect()
    }

    #[test]
    fn cut_points_are_pinned() {
        assert_eq!(
            lengths(&noise(1 << 20)),
            [
                44_750, 219_962, 100_125, 28_400, 91_429, 28_467, 19_017, 114_735, 88_164, 66_867,
                152_283, 94_377
            ]
        );
        let text: Vec<u8> = (0..60_000)
            .flat_map(|n| format!("line {n}\n").into_bytes())
            .collect();
        assert_eq!(
            lengths(&text),
            [
                107_116, 43_311, 38_302, 88_683, 85_024, 51_794, 42_016, 140_603, 52_041
            ]
        );
        assert_eq!(lengths(&vec![0; 600_000]), [MAX_CHUNK, MAX_CHUNK, 75_712]);
    }

    #[test]
    fn a_file_up_to_the_minimum_is_one_chunk() {
        assert_eq!(lengths(b""), [0_usize; 0]);
        assert_eq!(lengths(b"x"), [1]);
        assert_eq!(lengths(&noise(MIN_CHUNK)), [MIN_CHUNK]);
    }

    #[test]
    fn how_the_reader_hands_out_bytes_does_not_matter() {
        struct Drip<'a>(&'a [u8]);
        impl Read for Drip<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let step = buffer.len().min(977);
                self.0.read(&mut buffer[..step])
            }
        }
        let data = noise(3_000_000);
        let dripped: Vec<_> = Chunker::new(Drip(&data))
            .map(|chunk| chunk.unwrap().len())
            .collect();
        assert_eq!(dripped, lengths(&data));
        let mut window = &data[..];
        let mut whole = Vec::new();
        while !window.is_empty() {
            let length = cut(window);
            whole.push(length);
            window = &window[length..];
        }
        assert_eq!(dripped, whole);
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
