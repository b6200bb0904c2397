use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::runtime::Logs;

/// Keeps the last lines of a stream, up to a number of bytes.
#[derive(Debug, Default)]
pub(crate) struct LogTail {
    limit: usize,
    pieces: VecDeque<Bytes>,
    held: usize,
    /// The last byte that was dropped; `None` if none was.
    dropped: Option<u8>,
}

impl LogTail {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, piece: Bytes) {
        self.held += piece.len();
        self.pieces.push_back(piece);
        while self.held > self.limit
            && let Some(mut first) = self.pieces.pop_front()
        {
            let excess = first.len().min(self.held - self.limit);
            let gone = first.split_to(excess);
            self.dropped = gone.last().copied().or(self.dropped);
            self.held -= excess;
            if !first.is_empty() {
                self.pieces.push_front(first);
            }
        }
    }

    pub(crate) fn finish(self) -> Logs {
        let mut bytes = BytesMut::with_capacity(self.held);
        for piece in &self.pieces {
            bytes.extend_from_slice(piece);
        }
        let mut bytes = bytes.freeze();
        if self.dropped.is_some_and(|byte| byte != b'\n') {
            let line = bytes.iter().position(|byte| *byte == b'\n');
            let rest = line.map(|end| bytes.slice(end + 1..));
            // A single line is kept, even if its beginning was dropped.
            bytes = rest.filter(|rest| !rest.is_empty()).unwrap_or(bytes);
        }
        Logs {
            bytes,
            truncated: self.dropped.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(limit: usize, pieces: &[&'static str]) -> (String, bool) {
        let mut end = LogTail::new(limit);
        for piece in pieces {
            end.push(Bytes::from_static(piece.as_bytes()));
        }
        let logs = end.finish();
        (
            String::from_utf8(logs.bytes.to_vec()).unwrap(),
            logs.truncated,
        )
    }

    #[test]
    fn output_within_the_limit_is_kept_whole() {
        assert_eq!(end_of(8, &["one\n", "two\n"]), ("one\ntwo\n".into(), false));
        assert_eq!(end_of(8, &[]), (String::new(), false));
    }

    #[test]
    fn the_last_whole_lines_are_kept() {
        let lines = ["one\n", "two\n", "three\n"];
        assert_eq!(end_of(13, &lines), ("two\nthree\n".into(), true));
        assert_eq!(end_of(10, &lines), ("two\nthree\n".into(), true));
        assert_eq!(end_of(9, &lines), ("three\n".into(), true));
        assert_eq!(end_of(0, &lines), (String::new(), true));
    }

    #[test]
    fn a_line_that_is_too_long_alone_is_cut() {
        assert_eq!(end_of(3, &["abcdef\n"]), ("ef\n".into(), true));
        assert_eq!(end_of(3, &["abc", "def"]), ("def".into(), true));
    }
}
