//! Finds the round trips in a connection of PostgreSQL.
//!
//! ```text
//! client: packet*                 packet  = length (4, with itself) · code (4) · rest
//! server: answer* message*        answer  = S, G: encrypted from here; N: not
//!                                 message = type (1) · length (4, with itself) · body
//! ```
//!
//! The client's messages after its start-up packet are not read, and bodies are
//! skipped.

use super::conversation::Event;

/// The codes of the packets before a connection is established.
const CANCEL: u32 = 80_877_102;
const ENCRYPT_TLS: u32 = 80_877_103;
const ENCRYPT_GSS: u32 = 80_877_104;
/// The upper half of the code of a start-up packet.
const VERSION: u32 = 3;

/// Requests of the server that the client must answer while it authenticates.
/// The others are `Ok` (0) and `SASLFinal` (12).
const ASKS: [u32; 8] = [2, 3, 5, 6, 7, 8, 10, 11];

#[derive(Debug)]
pub(super) struct Conversation {
    client: Client,
    server: Server,
    /// Answers of one byte that the server owes the client.
    answers: u32,
    /// Whether the server was ready for the first time.
    is_established: bool,
}

#[derive(Debug)]
enum Client {
    Packet(Bytes<8>),
    /// Nothing more to read.
    Done,
}

#[derive(Debug)]
enum Server {
    /// Before the type of a message, or an answer.
    Start,
    /// In the length of a message; if it is about authentication, also in its
    /// code.
    Head(u8, Bytes<8>),
    Body(u64),
    Unreadable,
}

/// The first bytes of something.
#[derive(Debug)]
struct Bytes<const N: usize> {
    bytes: [u8; N],
    count: usize,
}

impl<const N: usize> Bytes<N> {
    fn new() -> Self {
        Self {
            bytes: [0; N],
            count: 0,
        }
    }

    fn push(&mut self, byte: u8) -> usize {
        self.bytes[self.count] = byte;
        self.count += 1;
        self.count
    }

    /// The big-endian number at an index.
    fn number(&self, at: usize) -> u32 {
        let bytes = &self.bytes[at..at + 4];
        bytes.iter().fold(0, |n, byte| n << 8 | u32::from(*byte))
    }
}

impl Default for Conversation {
    fn default() -> Self {
        Self {
            client: Client::Packet(Bytes::new()),
            server: Server::Start,
            answers: 0,
            is_established: false,
        }
    }
}

impl Conversation {
    pub(super) fn read_client(&mut self, bytes: &[u8], found: &mut Vec<(usize, Event)>) {
        for (at, byte) in bytes.iter().enumerate() {
            let Client::Packet(packet) = &mut self.client else {
                return;
            };
            if packet.push(*byte) < 8 {
                continue;
            }
            let (length, code) = (packet.number(0), packet.number(4));
            self.client = match code {
                ENCRYPT_TLS | ENCRYPT_GSS if length == 8 => {
                    self.answers += 1;
                    Client::Packet(Bytes::new())
                }
                CANCEL => Client::Done,
                _ if code >> 16 == VERSION => Client::Done,
                // For example TLS without a request for it.
                _ => {
                    self.give_up(at, found);
                    Client::Done
                }
            };
        }
    }

    pub(super) fn read_server(&mut self, bytes: &[u8], found: &mut Vec<(usize, Event)>) {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.server {
                Server::Unreadable => return,
                Server::Body(left) => {
                    let skipped = (*left).min((bytes.len() - at) as u64);
                    *left -= skipped;
                    if *left == 0 {
                        self.server = Server::Start;
                    }
                    at += skipped as usize;
                }
                Server::Start => {
                    self.read_start(bytes[at], at, found);
                    at += 1;
                }
                Server::Head(kind, head) => {
                    let kind = *kind;
                    let count = head.push(bytes[at]);
                    self.read_head(kind, count, at, found);
                    at += 1;
                }
            }
        }
    }

    fn read_start(&mut self, byte: u8, at: usize, found: &mut Vec<(usize, Event)>) {
        let is_answer = self.answers > 0;
        self.answers = self.answers.saturating_sub(1);
        match byte {
            b'N' if is_answer => found.push((at, Event::Startup)),
            b'S' | b'G' if is_answer => {
                found.push((at, Event::Startup));
                self.client = Client::Done;
                self.give_up(at, found);
            }
            // The server is ready for a query.
            b'Z' => {
                if self.is_established {
                    found.push((at, Event::Trip));
                    found.push((at, Event::Answer));
                } else {
                    found.push((at, Event::Startup));
                }
                self.is_established = true;
                self.server = Server::Head(byte, Bytes::new());
            }
            // An old server answers a request for encryption with an error.
            _ => self.server = Server::Head(byte, Bytes::new()),
        }
    }

    /// Reads the head of a message of which `count` bytes are there.
    fn read_head(&mut self, kind: u8, count: usize, at: usize, found: &mut Vec<(usize, Event)>) {
        let Server::Head(_, head) = &self.server else {
            return;
        };
        let is_authentication = kind == b'R' && !self.is_established;
        let size = if is_authentication { 8 } else { 4 };
        if count < size {
            return;
        }
        let Some(left) = head.number(0).checked_sub(size as u32) else {
            return self.give_up(at, found);
        };
        if is_authentication && ASKS.contains(&head.number(4)) {
            found.push((at, Event::Startup));
        }
        self.server = match left {
            0 => Server::Start,
            _ => Server::Body(u64::from(left)),
        };
    }

    fn give_up(&mut self, at: usize, found: &mut Vec<(usize, Event)>) {
        if !matches!(self.server, Server::Unreadable) {
            self.server = Server::Unreadable;
            found.push((at, Event::Unreadable));
        }
    }
}
