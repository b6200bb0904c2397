//! Finds the requests and responses in a connection of HTTP/1.
//!
//! ```text
//! client: (head body)*            body = nothing, Content-Length bytes, or
//! server: (interim* head body)*          chunks: (size CRLF bytes CRLF)* 0 CRLF trailers CRLF
//! ```
//!
//! Bodies are skipped. A client that waits for `100 Continue` sends the same
//! bytes as one that does not.

use std::collections::VecDeque;

use httparse::{EMPTY_HEADER, Header, Request, Response, Status};

use super::conversation::Event;

/// Maximum size of a head, of a chunk's first line and of a trailer.
const HEAD: usize = 64 * 1024;
/// Maximum number of headers.
const HEADERS: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Conversation {
    client: Side,
    server: Side,
    /// Whether each request without its response is a `HEAD`.
    open: VecDeque<bool>,
}

/// The bytes of one direction.
#[derive(Debug, Default)]
struct Side {
    state: State,
    /// The beginning of a head or of a line.
    buffer: Vec<u8>,
}

#[derive(Debug, Default, PartialEq)]
enum State {
    #[default]
    Head,
    Body(u64),
    ChunkSize,
    /// The bytes of a chunk and the end of its line.
    Chunk(u64),
    Trailers,
    /// A response that ends with its connection, or bytes that cannot be read.
    Rest,
}

/// A complete head, whose body is `State`.
enum Head {
    Message(State),
    /// Another head follows, for the same message.
    Interim,
}

/// The bytes are not HTTP/1.
struct Unreadable;

impl Conversation {
    pub(super) fn read_client(&mut self, bytes: &[u8], found: &mut Vec<(usize, Event)>) {
        let open = &mut self.open;
        let result = self.client.read(bytes, |head, at| {
            let Some((body, is_head)) = request(head)? else {
                return Ok(None);
            };
            open.push_back(is_head);
            found.push((at, Event::Trip));
            Ok(Some(Head::Message(body)))
        });
        self.end(result, found);
    }

    pub(super) fn read_server(&mut self, bytes: &[u8], found: &mut Vec<(usize, Event)>) {
        let open = &mut self.open;
        let result = self.server.read(bytes, |head, at| {
            let is_head = open.front().copied().unwrap_or_default();
            let complete = response(head, is_head)?;
            if matches!(complete, Some(Head::Message(_))) {
                open.pop_front();
                found.push((at, Event::Answer));
            }
            Ok(complete)
        });
        self.end(result, found);
    }

    fn end(&mut self, result: Result<(), (usize, Unreadable)>, found: &mut Vec<(usize, Event)>) {
        if let Err((at, Unreadable)) = result {
            self.client.state = State::Rest;
            self.server.state = State::Rest;
            found.push((at, Event::Unreadable));
        }
    }
}

impl Side {
    /// Calls `parse` with the beginning of a head at the end of each line, and
    /// with the index of its last byte.
    fn read(
        &mut self,
        bytes: &[u8],
        mut parse: impl FnMut(&[u8], usize) -> Result<Option<Head>, Unreadable>,
    ) -> Result<(), (usize, Unreadable)> {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.state {
                State::Rest => return Ok(()),
                State::Body(left) | State::Chunk(left) => {
                    let skipped = (*left).min((bytes.len() - at) as u64);
                    *left -= skipped;
                    at += skipped as usize;
                    match self.state {
                        State::Body(0) => self.state = State::Head,
                        State::Chunk(0) => self.state = State::ChunkSize,
                        _ => {}
                    }
                }
                State::Head | State::ChunkSize | State::Trailers => {
                    self.read_byte(bytes[at], |head| parse(head, at))
                        .map_err(|error| (at, error))?;
                    at += 1;
                }
            }
        }
        Ok(())
    }

    fn read_byte(
        &mut self,
        byte: u8,
        parse: impl FnOnce(&[u8]) -> Result<Option<Head>, Unreadable>,
    ) -> Result<(), Unreadable> {
        self.buffer.push(byte);
        if self.buffer.len() > HEAD || self.buffer[0] == TLS_HANDSHAKE {
            return Err(Unreadable);
        }
        if byte != b'\n' {
            return Ok(());
        }
        let next = match self.state {
            State::ChunkSize => Some(chunk(&self.buffer)?),
            State::Trailers if matches!(&self.buffer[..], b"\n" | b"\r\n") => Some(State::Head),
            State::Trailers => Some(State::Trailers),
            _ => parse(&self.buffer)?.map(|head| match head {
                Head::Message(State::Body(0)) | Head::Interim => State::Head,
                Head::Message(body) => body,
            }),
        };
        if let Some(next) = next {
            self.state = next;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// The first byte of a connection with TLS.
const TLS_HANDSHAKE: u8 = 0x16;

/// Reads a request's head: its body, and whether its method is `HEAD`.
fn request(head: &[u8]) -> Result<Option<(State, bool)>, Unreadable> {
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut request = Request::new(&mut headers);
    match request.parse(head) {
        Ok(Status::Partial) => Ok(None),
        Ok(Status::Complete(_)) if request.method != Some("CONNECT") => {
            let body = body(request.headers)?.unwrap_or(State::Body(0));
            Ok(Some((body, request.method == Some("HEAD"))))
        }
        _ => Err(Unreadable),
    }
}

/// Reads the head of a response to a `HEAD` or to another request.
fn response(head: &[u8], is_head: bool) -> Result<Option<Head>, Unreadable> {
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut response = Response::new(&mut headers);
    let status = match response.parse(head) {
        Ok(Status::Partial) => return Ok(None),
        Ok(Status::Complete(_)) => response.code,
        Err(_) => None,
    };
    Ok(Some(match status {
        // Another protocol begins, as if nothing could be read.
        None | Some(101) => return Err(Unreadable),
        Some(100..=199) => Head::Interim,
        Some(204 | 304) => Head::Message(State::Body(0)),
        _ if is_head => Head::Message(State::Body(0)),
        _ => Head::Message(body(response.headers)?.unwrap_or(State::Rest)),
    }))
}

/// Returns the body that the headers announce.
fn body(headers: &[Header<'_>]) -> Result<Option<State>, Unreadable> {
    let mut length = None;
    for header in headers {
        let value = str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            let last = value.rsplit(',').next().unwrap_or_default().trim();
            return match last.eq_ignore_ascii_case("chunked") {
                true => Ok(Some(State::ChunkSize)),
                false => Err(Unreadable),
            };
        }
        if header.name.eq_ignore_ascii_case("content-length") {
            length = Some(State::Body(value.parse().map_err(|_| Unreadable)?));
        }
    }
    Ok(length)
}

/// Reads the first line of a chunk.
fn chunk(line: &[u8]) -> Result<State, Unreadable> {
    match httparse::parse_chunk_size(line) {
        Ok(Status::Complete((_, 0))) => Ok(State::Trailers),
        Ok(Status::Complete((_, size))) => {
            let size = size.checked_add(2).ok_or(Unreadable)?;
            Ok(State::Chunk(size))
        }
        _ => Err(Unreadable),
    }
}
