//! Parses a stream of server-sent events, independent of its source.
//!
//! The crates for this purpose, such as `sse-stream`, do not limit the size of
//! an event, so that a faulty server could fill the memory of its client.

/// Maximum bytes of an event: the server sends output in far smaller pieces.
pub const MAX_EVENT_SIZE: usize = 16 << 20;

/// Why a stream cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidStream {
    /// An event is larger than [`MAX_EVENT_SIZE`].
    TooLarge,
    /// An event is not UTF-8.
    NotUtf8,
}

impl std::fmt::Display for InvalidStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge => write!(f, "an event is larger than {MAX_EVENT_SIZE} bytes"),
            Self::NotUtf8 => f.write_str("an event is not valid UTF-8"),
        }
    }
}

impl std::error::Error for InvalidStream {}

/// The id and the data of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The last field `id`.
    pub id: Option<String>,
    /// The fields `data`, joined by newlines.
    pub data: String,
}

/// Takes pieces of the stream, cut anywhere, and returns complete events.
#[derive(Debug, Default)]
pub struct Parser {
    buffer: Vec<u8>,
    /// Bytes of the buffer that belong to events already returned.
    read: usize,
    /// Bytes of the buffer that were searched for the end of an event.
    searched: usize,
}

impl Parser {
    /// Adds the next piece of the stream. Call [`next_event`](Self::next_event) until it
    /// returns `None` before adding another piece: events that were not returned
    /// yet count towards [`MAX_EVENT_SIZE`].
    pub fn add(&mut self, piece: &[u8]) -> Result<(), InvalidStream> {
        self.buffer.drain(..self.read);
        self.searched = self.searched.saturating_sub(self.read);
        self.read = 0;
        if self.buffer.len() + piece.len() > MAX_EVENT_SIZE {
            return Err(InvalidStream::TooLarge);
        }
        self.buffer.extend_from_slice(piece);
        Ok(())
    }

    /// Returns the position of the empty line that ends the next event.
    fn end(&self) -> Option<usize> {
        // The last byte that was searched may be the first of the two newlines.
        let mut from = self.searched.saturating_sub(1).max(self.read);
        loop {
            let rest = &self.buffer[from..];
            let at = from + rest.iter().position(|byte| *byte == b'\n')?;
            match self.buffer.get(at + 1)? {
                b'\n' => return Some(at),
                _ => from = at + 1,
            }
        }
    }

    /// Returns the next event that has arrived completely. Skips comments.
    pub fn next_event(&mut self) -> Result<Option<Event>, InvalidStream> {
        loop {
            let Some(end) = self.end() else {
                self.searched = self.buffer.len();
                return Ok(None);
            };
            let text = std::str::from_utf8(&self.buffer[self.read..end]);
            let text = text.map_err(|_| InvalidStream::NotUtf8)?;
            let event = parse(text);
            self.read = end + 2;
            self.searched = self.read;
            if !event.data.is_empty() {
                return Ok(Some(event));
            }
        }
    }
}

fn parse(text: &str) -> Event {
    let mut event = Event::default();
    for line in text.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => event.id = Some(value.to_owned()),
            "data" => {
                if !event.data.is_empty() {
                    event.data.push('\n');
                }
                event.data.push_str(value);
            }
            _ => {}
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_wherever_they_are_cut() {
        let stream =
            b": still there\n\nid: 5\ndata: {\"a\":1}\n\nevent: x\ndata:one\ndata: two\n\n";
        for cut in 0..stream.len() {
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for piece in [&stream[..cut], &stream[cut..]] {
                parser.add(piece).unwrap();
                while let Some(event) = parser.next_event().unwrap() {
                    events.push(event);
                }
            }
            let ids: Vec<_> = events.iter().map(|event| event.id.as_deref()).collect();
            assert_eq!(ids, [Some("5"), None], "{cut}");
            assert_eq!(events[0].data, "{\"a\":1}");
            assert_eq!(events[1].data, "one\ntwo");
        }
    }

    #[test]
    fn an_event_without_end_is_rejected() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; MAX_EVENT_SIZE / 2];
        parser.add(&piece).unwrap();
        parser.add(&piece).unwrap();
        assert_eq!(parser.add(b"x"), Err(InvalidStream::TooLarge));
    }
}
