//! Events that a server sends to a client.

use elevo_api::event_stream::{Event, InvalidStream, MAX_EVENT_SIZE, Parser};

/// Reads a stream in one piece, and in pieces of the length in its first byte. Both must give the
/// same events and the same end.
pub fn stream(data: &[u8]) {
    let Some((length, data)) = data.split_first() else {
        return;
    };
    let whole = events([data]);
    assert_eq!(events(data.chunks(usize::from(*length).max(1))), whole);
    let bytes = whole.0.iter().map(|event| event.data.len()).sum::<usize>();
    assert!(bytes <= data.len() && data.len() <= MAX_EVENT_SIZE);
}

fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Event>, Option<InvalidStream>) {
    let (mut parser, mut events) = (Parser::default(), Vec::new());
    for piece in pieces {
        if let Err(invalid) = parser.add(piece) {
            return (events, Some(invalid));
        }
        loop {
            match parser.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(invalid) => return (events, Some(invalid)),
            }
        }
    }
    (events, None)
}
