use std::collections::VecDeque;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::LogsOptionsBuilder;
use bytes::{Bytes, BytesMut};
use elevo_core::Timestamp;
use futures::StreamExt;

use crate::runtime::{ContainerId, Logs, LogsQuery};

/// Reads what is asked for and holds no more of it than the limit and a line.
pub(super) async fn read(
    docker: &Docker,
    id: &ContainerId,
    query: &LogsQuery,
) -> Result<Logs, Error> {
    let tail = query
        .tail
        .map_or("all".to_owned(), |lines| lines.to_string());
    let options = LogsOptionsBuilder::default()
        .stdout(true)
        .stderr(true)
        .tail(&tail)
        .since(query.since.map_or(0, seconds))
        .until(query.until.map_or(0, seconds))
        .build();
    let mut stream = Box::pin(docker.logs(id.as_str(), Some(options)));
    let mut end = End::new(query.limit);
    while let Some(piece) = stream.next().await {
        end.push(piece?.into_bytes());
    }
    Ok(end.finish())
}

/// The engine counts seconds, and takes 0 for no limit.
fn seconds(time: Timestamp) -> i32 {
    i32::try_from(time.seconds()).unwrap_or(i32::MAX).max(1)
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
struct End {
    limit: usize,
    pieces: VecDeque<Bytes>,
    held: usize,
    /// The last byte of those that did not fit.
    dropped: Option<u8>,
}

impl End {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    fn push(&mut self, piece: Bytes) {
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

    fn finish(self) -> Logs {
        let mut bytes = BytesMut::with_capacity(self.held);
        for piece in &self.pieces {
            bytes.extend_from_slice(piece);
        }
        let mut bytes = bytes.freeze();
        if self.dropped.is_some_and(|byte| byte != b'\n') {
            let line = bytes.iter().position(|byte| *byte == b'\n');
            let rest = line.map(|end| bytes.slice(end + 1..));
            // A line that is alone stays, as far as it is there.
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
        let mut end = End::new(limit);
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
    fn what_fits_is_kept_whole() {
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
