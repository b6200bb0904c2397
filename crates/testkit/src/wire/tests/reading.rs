//! Tests of the parsers, without sockets.

use proptest::prelude::*;

use crate::wire::conversation::{Conversation, Event, Protocol};
use crate::wire::faults::Direction::{self, Down, Up};

/// Bytes in the order in which they are sent.
type Exchange = Vec<(Direction, Vec<u8>)>;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

fn packet(code: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 8).unwrap();
    [&length.to_be_bytes()[..], &code.to_be_bytes(), body].concat()
}

fn authentication(code: u32, body: &[u8]) -> Vec<u8> {
    message(b'R', &[&code.to_be_bytes()[..], body].concat())
}

/// A connection with a request for encryption, `SCRAM`, two queries, a `COPY`
/// whose rows look like messages, and a notice.
fn postgres() -> Exchange {
    let ready = message(b'Z', b"I");
    let row = message(b'd', &[&ready[..], &ready].concat());
    let copy = [message(b'H', &[0; 3]), row.clone(), row, message(b'c', b"")];
    vec![
        (Up, packet(80_877_103, b"")),
        (Down, b"N".to_vec()),
        (Up, packet(196_608, b"user\0elevo\0\0")),
        (Down, authentication(10, b"SCRAM-SHA-256\0\0")),
        (Up, message(b'p', b"SCRAM-SHA-256")),
        (Down, authentication(11, b"r=1")),
        (Up, message(b'p', b"c=1")),
        (Down, authentication(12, b"v=1")),
        (Down, authentication(0, b"")),
        (Down, message(b'S', b"server_version\x0015\0")),
        (Down, ready.clone()),
        (Up, message(b'Q', b"SELECT 1\0")),
        (Down, message(b'D', b"\0\x01\0\0\0\x01Z")),
        (Down, message(b'C', b"SELECT 1\0")),
        (Down, ready.clone()),
        (Up, message(b'Q', b"COPY t TO STDOUT\0")),
        (Down, copy.concat()),
        (Down, message(b'C', b"COPY 2\0")),
        (Down, message(b'N', b"\0")),
        (Down, ready.clone()),
        // An established server sends `R` no more, but a body may be empty.
        (Down, message(b'1', b"")),
        (Down, ready),
    ]
}

/// Requests with and without bodies, in chunks, pipelined, and one that waits
/// for permission; and their responses.
fn http() -> Exchange {
    let text = |direction, text: &str| (direction, text.as_bytes().to_vec());
    vec![
        text(Up, "GET /a HTTP/1.1\r\nHost: s3\r\n\r\n"),
        text(Down, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nGET /"),
        text(
            Up,
            "PUT /b HTTP/1.1\r\nContent-Length: 22\r\nExpect: 100-continue\r\n\r\n",
        ),
        text(Down, "HTTP/1.1 100 Continue\r\n\r\n"),
        text(Up, "GET / HTTP/1.1\r\n\r\nabcd"),
        text(
            Down,
            "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n",
        ),
        text(Up, "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
        text(
            Up,
            "10;a=b\r\nGET / HTTP/1.1\r\n\r\n2\r\nab\r\n0\r\nSum: 1\r\n\r\n",
        ),
        text(Down, "HTTP/1.1 204 No Content\r\n\r\n"),
        text(Up, "\r\nHEAD /d HTTP/1.1\r\n\r\nGET /e HTTP/1.1\r\n\r\n"),
        text(Down, "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"),
        text(
            Down,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        text(Down, "3\r\nHTT\r\n0\r\n\r\n"),
        text(Up, "DELETE /f HTTP/1.1\r\n\r\n"),
        text(
            Down,
            "HTTP/1.1 404 Not Found\r\n\r\nto the end: HTTP/1.1 200 OK\r\n\r\n",
        ),
    ]
}

/// Returns the events of each direction, with their place in it, when each
/// step arrives in pieces whose sizes `size` gives.
fn read(
    protocol: Protocol,
    exchange: &Exchange,
    mut size: impl FnMut() -> usize,
) -> Vec<(Direction, usize, Event)> {
    let mut conversation = Conversation::new(protocol);
    let (mut up, mut down) = (0, 0);
    let mut found = Vec::new();
    for (direction, mut bytes) in exchange.iter().map(|(to, bytes)| (*to, &bytes[..])) {
        while !bytes.is_empty() {
            let (piece, left) = bytes.split_at(size().clamp(1, bytes.len()));
            let place = match direction {
                Up => &mut up,
                Down => &mut down,
            };
            let events = conversation.read(direction, piece);
            found.extend(
                events
                    .into_iter()
                    .map(|(at, event)| (direction, *place + at, event)),
            );
            *place += piece.len();
            bytes = left;
        }
    }
    found
}

fn count(found: &[(Direction, usize, Event)], event: Event) -> usize {
    found.iter().filter(|(.., other)| *other == event).count()
}

#[test]
fn counts_ready_messages_and_start_up_apart() {
    let found = read(Protocol::Postgres, &postgres(), || usize::MAX);
    // Encryption, two steps of `SCRAM`, and the first `ReadyForQuery`.
    assert_eq!(count(&found, Event::Startup), 4, "{found:?}");
    assert_eq!(count(&found, Event::Trip), 3, "{found:?}");
    assert_eq!(count(&found, Event::Unreadable), 0, "{found:?}");
}

#[test]
fn counts_requests_and_responses() {
    let found = read(Protocol::Http, &http(), || usize::MAX);
    assert_eq!(count(&found, Event::Trip), 6, "{found:?}");
    assert_eq!(count(&found, Event::Answer), 6, "{found:?}");
    assert_eq!(count(&found, Event::Unreadable), 0, "{found:?}");
}

#[test]
fn a_split_at_any_byte_changes_nothing() {
    for (protocol, exchange) in [(Protocol::Postgres, postgres()), (Protocol::Http, http())] {
        let whole = read(protocol, &exchange, || usize::MAX);
        assert_eq!(read(protocol, &exchange, || 1), whole);
        let longest = exchange.iter().map(|(_, bytes)| bytes.len()).max().unwrap();
        for first in 1..longest {
            assert_eq!(read(protocol, &exchange, || first), whole, "{first}");
        }
    }
}

proptest! {
    #[test]
    fn any_pieces_give_the_same_events(sizes in prop::collection::vec(1..40_usize, 1..200)) {
        for (protocol, exchange) in [(Protocol::Postgres, postgres()), (Protocol::Http, http())] {
            let mut sizes = sizes.iter().copied().cycle();
            let found = read(protocol, &exchange, || sizes.next().unwrap());
            prop_assert_eq!(found, read(protocol, &exchange, || usize::MAX));
        }
    }

    #[test]
    fn any_bytes_give_the_same_events_in_any_pieces(
        exchange in prop::collection::vec(
            (prop::bool::ANY, prop::collection::vec(prop::num::u8::ANY, 1..60)),
            1..6,
        ),
        size in 1..20_usize,
    ) {
        let exchange: Exchange = exchange
            .into_iter()
            .map(|(is_up, bytes)| (if is_up { Up } else { Down }, bytes))
            .collect();
        for protocol in [Protocol::Postgres, Protocol::Http] {
            let found = read(protocol, &exchange, || size);
            prop_assert_eq!(found, read(protocol, &exchange, || usize::MAX));
        }
    }
}

#[test]
fn an_encrypted_connection_is_unreadable_once() {
    let tls = (Up, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".to_vec());
    let asked = vec![
        (Up, packet(80_877_103, b"")),
        (Down, b"S".to_vec()),
        tls.clone(),
        (Down, b"\x16\x03\x03Z\0\0\0\x05I".to_vec()),
    ];
    let found = read(Protocol::Postgres, &asked, || usize::MAX);
    let events: Vec<_> = found.iter().map(|(.., event)| *event).collect();
    assert_eq!(events, [Event::Startup, Event::Unreadable]);

    for protocol in [Protocol::Postgres, Protocol::Http] {
        let direct = vec![tls.clone(), (Down, b"\x16\x03\x03Z\0\0\0\x05I".to_vec())];
        let found = read(protocol, &direct, || usize::MAX);
        let events: Vec<_> = found.iter().map(|(.., event)| *event).collect();
        assert_eq!(events, [Event::Unreadable], "{protocol:?}");
    }
}

#[test]
fn the_request_to_cancel_a_query_does_not_count() {
    let cancel = vec![(Up, packet(80_877_102, &[0; 8]))];
    assert_eq!(read(Protocol::Postgres, &cancel, || usize::MAX), []);
}
