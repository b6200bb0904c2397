//! Takes a stream of server-sent events apart. Knows nothing of where it comes from.

/// What one event may have: the server sends output in far smaller pieces.
pub(super) const LARGEST: usize = 16 << 20;

/// Why a stream is none of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// An event is larger than [`LARGEST`].
    TooLarge,
    /// An event is not UTF-8.
    NoText,
}

/// An event: its id, and its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(super) data: String,
}

/// Takes pieces, cut anywhere, and gives events.
#[derive(Debug, Default)]
pub(super) struct Parser {
    buffer: Vec<u8>,
    /// How much of the buffer has been read.
    read: usize,
    /// How much of it has no end of an event in it.
    searched: usize,
}

impl Parser {
    pub(super) fn add(&mut self, piece: &[u8]) -> Result<(), Broken> {
        self.buffer.drain(..self.read);
        self.searched = self.searched.saturating_sub(self.read);
        self.read = 0;
        if self.buffer.len() + piece.len() > LARGEST {
            return Err(Broken::TooLarge);
        }
        self.buffer.extend_from_slice(piece);
        Ok(())
    }

    /// Where the event that comes next ends, in an empty line.
    fn end(&self) -> Option<usize> {
        // The first of the two line ends may be the last that was searched.
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

    /// The next event that has come as a whole. Comments are left out.
    pub(super) fn next(&mut self) -> Result<Option<Event>, Broken> {
        loop {
            let Some(end) = self.end() else {
                self.searched = self.buffer.len();
                return Ok(None);
            };
            let text = std::str::from_utf8(&self.buffer[self.read..end]);
            let text = text.map_err(|_| Broken::NoText)?;
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
                while let Some(event) = parser.next().unwrap() {
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
    fn an_event_without_end_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; LARGEST / 2];
        parser.add(&piece).unwrap();
        parser.add(&piece).unwrap();
        assert!(parser.add(b"x").is_err());
    }
}
