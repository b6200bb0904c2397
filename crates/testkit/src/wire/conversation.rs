//! The bytes of one connection in both directions, as a protocol reads them.

use super::faults::Direction;
use super::{http, postgres};

/// The protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Postgres,
    Http,
}

/// An event in the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A round trip of start-up or authentication.
    Startup,
    /// A round trip of an established connection.
    Trip,
    /// The byte without which the client does not hear of its round trip.
    Answer,
    /// The rest of the connection is encrypted or not of this protocol.
    Unreadable,
}

/// Finds events, each with the index of its byte. The bytes may arrive in
/// pieces of any size.
#[derive(Debug)]
pub(super) enum Conversation {
    Postgres(postgres::Conversation),
    Http(http::Conversation),
}

impl Conversation {
    pub(super) fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Postgres => Self::Postgres(postgres::Conversation::default()),
            Protocol::Http => Self::Http(http::Conversation::default()),
        }
    }

    /// Reads the next bytes of a direction.
    pub(super) fn read(&mut self, direction: Direction, bytes: &[u8]) -> Vec<(usize, Event)> {
        let mut found = Vec::new();
        match (self, direction) {
            (Self::Postgres(this), Direction::Up) => this.read_client(bytes, &mut found),
            (Self::Postgres(this), Direction::Down) => this.read_server(bytes, &mut found),
            (Self::Http(this), Direction::Up) => this.read_client(bytes, &mut found),
            (Self::Http(this), Direction::Down) => this.read_server(bytes, &mut found),
        }
        found
    }
}
