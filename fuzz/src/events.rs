//! Events that a server sends to a client.

#[path = "../../crates/cli/src/client/events/parser.rs"]
mod parser;

use parser::{Broken, Event, LARGEST, Parser};

/// Reads a stream in one piece, and in pieces of the length in its first byte. Both must give the
/// same events and the same end.
pub fn stream(data: &[u8]) {
    let Some((length, data)) = data.split_first() else {
        return;
    };
    let whole = events([data]);
    assert_eq!(events(data.chunks(usize::from(*length).max(1))), whole);
    let bytes = whole.0.iter().map(|event| event.data.len()).sum::<usize>();
    assert!(bytes <= data.len() && data.len() <= LARGEST);
}

fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Event>, Option<Broken>) {
    let (mut parser, mut events) = (Parser::default(), Vec::new());
    for piece in pieces {
        if let Err(broken) = parser.add(piece) {
            return (events, Some(broken));
        }
        loop {
            match parser.next() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(broken) => return (events, Some(broken)),
            }
        }
    }
    (events, None)
}
