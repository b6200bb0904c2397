//! Keeps the output of a process that a reader can still request.
//!
//! ```text
//!   start           acknowledged              end      offsets, in bytes
//!     │    history       │       unread        │
//!     └──────────────────┴─────────────────────┘
//!       at most `limit`      at most `limit`
//! ```
//!
//! The oldest history is dropped first. When unread output reaches its limit,
//! the process blocks or the oldest unread output is dropped, depending on
//! [`Keep`](crate::process::Keep).

use std::collections::VecDeque;

use bytes::Bytes;

/// The stream of a piece of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
    Terminal,
}

/// Maximum size up to which small writes are combined into one piece.
const GATHER: usize = 32 * 1024;

/// Maximum number of pieces. Each piece costs some memory, even if it is small.
const MAX_PIECES: usize = 8192;

struct Piece {
    offset: u64,
    stream: Stream,
    data: Bytes,
}

impl Piece {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

pub(crate) struct Buffer {
    limit: u64,
    pieces: VecDeque<Piece>,
    /// The newest bytes, not yet in a piece.
    tail: Vec<u8>,
    tail_stream: Stream,
    end: u64,
    acknowledged: u64,
}

impl Buffer {
    /// Creates a buffer. `limit` applies to the history and to the unread
    /// output separately.
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            pieces: VecDeque::new(),
            tail: Vec::new(),
            tail_stream: Stream::Stdout,
            end: 0,
            acknowledged: 0,
        }
    }

    pub(crate) fn start(&self) -> u64 {
        self.pieces
            .front()
            .map_or_else(|| self.tail_start(), |piece| piece.offset)
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn held(&self) -> u64 {
        self.end - self.start()
    }

    /// Whether the unread part has reached its limit.
    pub(crate) fn is_full(&self) -> bool {
        self.end - self.acknowledged >= self.limit
            || self.pieces.len() - self.read_pieces() >= MAX_PIECES / 2
    }

    /// Adds bytes. With `drop_oldest`, the oldest output is dropped beyond the
    /// limit, even if it is unread.
    pub(crate) fn push(&mut self, stream: Stream, data: &[u8], drop_oldest: bool) {
        if stream != self.tail_stream || self.tail.len() + data.len() > GATHER {
            self.seal();
            self.tail_stream = stream;
        }
        if data.len() >= GATHER {
            self.add_piece(Bytes::copy_from_slice(data));
        } else {
            self.tail.extend_from_slice(data);
        }
        self.end += data.len() as u64;
        if drop_oldest {
            self.drop_before(self.end.saturating_sub(2 * self.limit));
            let too_many = self.pieces.len().saturating_sub(MAX_PIECES);
            self.pieces.drain(..too_many);
        }
        self.trim();
    }

    /// Records that a reader has consumed everything before an offset.
    pub(crate) fn acknowledge(&mut self, offset: u64) {
        self.acknowledged = self.acknowledged.max(offset.min(self.end));
        self.trim();
    }

    /// Returns at most `max` bytes of one stream, starting at an offset within
    /// the buffer.
    pub(crate) fn read(&self, offset: u64, max: usize) -> Option<(Stream, Bytes)> {
        if offset >= self.tail_start() {
            let from = usize::try_from(offset - self.tail_start()).ok()?;
            let rest = self.tail.get(from..).filter(|rest| !rest.is_empty())?;
            let data = Bytes::copy_from_slice(&rest[..rest.len().min(max)]);
            return Some((self.tail_stream, data));
        }
        let index = self.pieces.partition_point(|piece| piece.end() <= offset);
        let piece = self.pieces.get(index)?;
        let from = usize::try_from(offset.checked_sub(piece.offset)?).ok()?;
        let to = piece.data.len().min(from + max);
        Some((piece.stream, piece.data.slice(from..to)))
    }

    pub(crate) fn drop_history(&mut self) {
        self.drop_before(self.acknowledged);
    }

    pub(crate) fn drop_all(&mut self) {
        self.pieces.clear();
        self.tail = Vec::new();
    }

    /// Releases the memory that was reserved for more output.
    pub(crate) fn finish(&mut self) {
        self.seal();
        self.pieces.shrink_to_fit();
    }

    fn trim(&mut self) {
        self.drop_before(self.acknowledged.saturating_sub(self.limit));
        let too_many = self.pieces.len().saturating_sub(MAX_PIECES);
        let read = too_many.min(self.read_pieces());
        self.pieces.drain(..read);
    }

    /// Drops whole pieces that end before an offset.
    fn drop_before(&mut self, offset: u64) {
        while self.pieces.front().is_some_and(|p| p.end() <= offset) {
            self.pieces.pop_front();
        }
    }

    fn read_pieces(&self) -> usize {
        let read = |piece: &Piece| piece.end() <= self.acknowledged;
        self.pieces.partition_point(read)
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            let mut tail = std::mem::take(&mut self.tail);
            tail.shrink_to_fit();
            let offset = self.end - tail.len() as u64;
            self.pieces.push_back(Piece {
                offset,
                stream: self.tail_stream,
                data: tail.into(),
            });
        }
    }

    /// Adds a piece at the end; the tail must be empty.
    fn add_piece(&mut self, data: Bytes) {
        self.pieces.push_back(Piece {
            offset: self.end,
            stream: self.tail_stream,
            data,
        });
    }

    fn tail_start(&self) -> u64 {
        self.end - self.tail.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 100_000;

    fn read_all(buffer: &Buffer, mut offset: u64) -> Vec<(Stream, u8)> {
        let mut all = Vec::new();
        while let Some((stream, data)) = buffer.read(offset, 1000) {
            offset += data.len() as u64;
            all.extend(data.iter().map(|byte| (stream, *byte)));
        }
        assert_eq!(offset, buffer.end());
        all
    }

    #[test]
    fn returns_bytes_in_order_with_their_streams() {
        let mut buffer = Buffer::new(LIMIT);
        let mut expected = Vec::new();
        for round in 0..200u32 {
            let stream = [Stream::Stdout, Stream::Stderr][(round % 3 == 0) as usize];
            let length = (round * 37 % 900) as usize;
            let data = vec![round as u8; length];
            expected.extend(data.iter().map(|byte| (stream, *byte)));
            buffer.push(stream, &data, false);
        }
        assert_eq!(read_all(&buffer, 0), expected);
        assert_eq!(read_all(&buffer, 12_345), expected[12_345..]);
    }

    #[test]
    fn large_and_small_writes_are_read_in_order() {
        let mut buffer = Buffer::new(LIMIT);
        for length in [1, 40_000, 1, 33_000, 32_000, 900] {
            buffer.push(Stream::Stdout, &vec![length as u8; length], false);
        }
        assert_eq!(read_all(&buffer, 0).len(), 106_902 - 1000);
        assert_eq!(buffer.held(), buffer.end());
    }

    #[test]
    fn a_full_buffer_has_space_after_a_read_and_keeps_history() {
        let mut buffer = Buffer::new(LIMIT);
        while !buffer.is_full() {
            buffer.push(Stream::Stdout, &[0; 10_000], false);
        }
        assert_eq!(buffer.end(), LIMIT);
        buffer.acknowledge(LIMIT);
        assert!(!buffer.is_full());
        assert_eq!(buffer.start(), 0);
        buffer.push(Stream::Stdout, &[0; 90_000], false);
        buffer.acknowledge(buffer.end());
        assert!(buffer.start() > 0 && buffer.start() <= buffer.end() - LIMIT);
    }

    #[test]
    fn the_oldest_output_is_dropped_if_requested() {
        let mut buffer = Buffer::new(LIMIT);
        for _ in 0..1000 {
            buffer.push(Stream::Stdout, &[1; 10_000], true);
        }
        assert!(buffer.held() <= 2 * LIMIT + GATHER as u64);
        assert!(buffer.held() >= 2 * LIMIT - GATHER as u64);
        assert!(buffer.read(buffer.start(), 10).is_some());
    }

    #[test]
    fn many_tiny_pieces_count_as_full() {
        let mut buffer = Buffer::new(LIMIT);
        let mut count = 0;
        while !buffer.is_full() {
            let stream = [Stream::Stdout, Stream::Stderr][count % 2];
            buffer.push(stream, b"x", false);
            count += 1;
        }
        assert!(count <= MAX_PIECES);
        buffer.acknowledge(buffer.end());
        assert!(!buffer.is_full());
        for round in 0..3 * MAX_PIECES {
            let stream = [Stream::Stdout, Stream::Stderr][round % 2];
            buffer.push(stream, b"x", true);
            assert!(buffer.pieces.len() <= MAX_PIECES);
        }
    }
}
