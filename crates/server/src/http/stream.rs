//! Output as server-sent events.
//!
//! The id of an event is the offset at which the following output begins, so
//! that a client that reconnects with this id misses and repeats nothing. An
//! incomplete character at the end of a piece waits for its other bytes. Output
//! that is not UTF-8 is sent in base64.

use std::time::Duration;

use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use elevo_agent_link::{Event, Stream};
use elevo_api::{Encoding, StreamEvent, StreamKind};
use futures::{StreamExt, stream};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::app::access::principal::Principal;
use crate::app::processes::output::Reading;
use crate::app::stopping::Phase;
use crate::failure::Failure;
use crate::http::layers;
use crate::http::shared::Shared;
use crate::platform::clock;

const HEARTBEAT: Duration = Duration::from_secs(15);
/// Maximum time for a client to receive the last event.
const LAST: Duration = Duration::from_secs(1);

/// An event, unless its data could not be serialized. An error ends the
/// response.
pub(super) type Encoded = Result<SseEvent, serde_json::Error>;

/// Responds with the output of a command while it runs.
pub(super) fn answer(
    shared: &Shared,
    who: Principal,
    reading: Reading,
    limit: Option<u64>,
    at: u64,
    is_new: bool,
) -> Response {
    let (sender, receiver) = mpsc::channel(4);
    let (app, work) = (shared.app.clone(), shared.app.stopping.work());
    let mut encoder = Encoder::new(reading.process.clone(), limit, at);
    tokio::spawn(async move {
        if is_new && sender.send(vec![encoder.start()]).await.is_err() {
            return;
        }
        let mut sent = at;
        tokio::select! {
            () = send_all(reading, &mut encoder, &sender, &mut sent) => return,
            () = sender.closed() => return,
            failure = app.principals.invalid(&who) => {
                return send_last(&sender, encoder.error(&failure)).await;
            }
            () = app.stopping.entered(Phase::Cutting) => {}
        }
        // Output that was encoded but not sent is read again after a reconnect.
        encoder.position = sent;
        send_last(&sender, encoder.stopping()).await;
        drop(work);
    });
    respond_in_batches(receiver)
}

/// Sends the last event of a stream, unless the client is too slow.
pub(super) async fn send_last(sender: &mpsc::Sender<Vec<Encoded>>, event: Encoded) {
    let _ = tokio::time::timeout(LAST, sender.send(vec![event])).await;
}

/// Responds with batches of events as they arrive. A batch takes one place in
/// the channel, so that a sender that is cancelled sends all of it or nothing.
pub(super) fn respond_in_batches(receiver: mpsc::Receiver<Vec<Encoded>>) -> Response {
    respond(ReceiverStream::new(receiver).flat_map(stream::iter))
}

/// Responds with events as they arrive, and with heartbeats while none arrives.
pub(super) fn respond(events: impl futures::Stream<Item = Encoded> + Send + 'static) -> Response {
    let heartbeat = KeepAlive::new().interval(HEARTBEAT).text("still there");
    let headers = [
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Sse::new(events).keep_alive(heartbeat)).into_response()
}

/// Sends all output of a command. `sent` is the offset up to which output was
/// sent.
async fn send_all(
    mut reading: Reading,
    encoder: &mut Encoder,
    sender: &mpsc::Sender<Vec<Encoded>>,
    sent: &mut u64,
) {
    loop {
        let (events, is_last) = match reading.next().await {
            Ok(event) => {
                let is_last = matches!(event, Event::Exit(_));
                (encoder.event(event), is_last)
            }
            Err(failure) => (vec![encoder.error(&failure)], true),
        };
        if !events.is_empty() && sender.send(events).await.is_err() || is_last {
            return;
        }
        *sent = encoder.position;
    }
}

/// Encodes output as events.
struct Encoder {
    command: String,
    /// Id of the request that opened the stream.
    request_id: String,
    /// Number of output bytes that may still be sent; `None` for no limit.
    room: Option<u64>,
    truncated: bool,
    /// The first bytes of a character whose other bytes have not arrived. They
    /// belong to `pending_stream`.
    pending: Vec<u8>,
    pending_stream: StreamKind,
    /// Offset of the next byte to send.
    position: u64,
}

/// A [`StreamEvent`] with output, which borrows its data.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutputEvent<'a> {
    #[serde(rename = "type")]
    kind: StreamKind,
    command_id: &'a str,
    data: &'a str,
    #[serde(skip_serializing_if = "Encoding::is_text")]
    encoding: Encoding,
    offset: u64,
    timestamp: i64,
}

impl Encoder {
    fn new(command: String, limit: Option<u64>, position: u64) -> Self {
        Self {
            command,
            request_id: layers::request_id(),
            room: limit,
            truncated: false,
            pending: Vec::new(),
            pending_stream: StreamKind::Stdout,
            position,
        }
    }

    fn start(&self) -> Encoded {
        self.encoded(&self.plain(StreamKind::Start))
    }

    fn error(&self, failure: &Failure) -> Encoded {
        self.encoded(&StreamEvent {
            error: Some(failure.body(&self.request_id)),
            ..self.plain(StreamKind::Error)
        })
    }

    fn stopping(&self) -> Encoded {
        let message =
            "the server is stopping; reconnect with the id of the last event as `Last-Event-ID`";
        self.encoded(&StreamEvent {
            message: Some(message.into()),
            offset: Some(self.position),
            ..self.plain(StreamKind::Stopping)
        })
    }

    fn event(&mut self, event: Event) -> Vec<Encoded> {
        let mut out = Vec::new();
        match event {
            Event::Data { stream, data, .. } => {
                let kind = match stream {
                    Stream::Stderr => StreamKind::Stderr,
                    _ => StreamKind::Stdout,
                };
                if kind != self.pending_stream {
                    self.flush(&mut out);
                }
                self.pending_stream = kind;
                self.output(&data, &mut out);
            }
            Event::Gap { from, to } => {
                self.flush(&mut out);
                self.position = to;
                out.push(self.encoded(&StreamEvent {
                    offset: Some(from),
                    end: Some(to),
                    ..self.plain(StreamKind::Gap)
                }));
            }
            Event::Exit(exit) => {
                self.flush(&mut out);
                out.push(self.encoded(&StreamEvent {
                    exit_code: Some(crate::app::processes::output::exit_code(&exit)),
                    signal: exit.signal,
                    timed_out: exit.timed_out,
                    truncated: self.truncated,
                    offset: Some(exit.offset),
                    ..self.plain(StreamKind::Exit)
                }));
            }
        }
        out
    }

    fn output(&mut self, data: &[u8], out: &mut Vec<Encoded>) {
        let fits = self
            .room
            .map_or(data.len(), |room| data.len().min(room as usize));
        if let Some(room) = &mut self.room {
            *room -= fits as u64;
        }
        self.truncated |= fits < data.len();
        let joined;
        let mut rest = &data[..fits];
        if !self.pending.is_empty() {
            joined = [&self.pending, rest].concat();
            self.pending.clear();
            rest = &joined;
        }
        match std::str::from_utf8(rest) {
            // NUL is not text, and takes six bytes in JSON.
            Ok(text) if text.contains('\0') => self.binary(text.as_bytes(), out),
            Ok(text) => self.text(text, out),
            Err(error) => {
                let (text, bytes) = rest.split_at(error.valid_up_to());
                if error.error_len().is_none() {
                    self.text(std::str::from_utf8(text).unwrap_or_default(), out);
                    self.pending = bytes.to_vec();
                } else {
                    self.binary(rest, out);
                }
            }
        }
        // Truncated output counts as sent: a client that reconnects continues
        // after it.
        self.position += (data.len() - fits) as u64;
    }

    /// Sends the bytes that wait for the rest of a character.
    fn flush(&mut self, out: &mut Vec<Encoded>) {
        let pending = std::mem::take(&mut self.pending);
        self.binary(&pending, out);
    }

    fn text(&mut self, text: &str, out: &mut Vec<Encoded>) {
        self.put(text, text.len(), Encoding::Utf8, out);
    }

    fn binary(&mut self, bytes: &[u8], out: &mut Vec<Encoded>) {
        self.put(&STANDARD.encode(bytes), bytes.len(), Encoding::Base64, out);
    }

    fn put(&mut self, data: &str, length: usize, encoding: Encoding, out: &mut Vec<Encoded>) {
        if length == 0 {
            return;
        }
        let event = OutputEvent {
            kind: self.pending_stream,
            command_id: &self.command,
            data,
            encoding,
            offset: self.position,
            timestamp: clock::millis(),
        };
        self.position += length as u64;
        out.push(encode(self.pending_stream, self.position, &event));
    }

    fn plain(&self, kind: StreamKind) -> StreamEvent {
        StreamEvent {
            kind,
            command_id: self.command.clone(),
            data: None,
            encoding: Encoding::Utf8,
            offset: None,
            end: None,
            exit_code: None,
            signal: None,
            timed_out: false,
            truncated: false,
            message: None,
            error: None,
            timestamp: clock::millis(),
        }
    }

    fn encoded(&self, event: &StreamEvent) -> Encoded {
        encode(event.kind, self.position, event)
    }
}

fn encode(kind: StreamKind, id: u64, event: &impl Serialize) -> Encoded {
    let name = match kind {
        StreamKind::Stdout => "stdout",
        StreamKind::Stderr => "stderr",
        StreamKind::Exit => "exit",
        StreamKind::Error => "error",
        StreamKind::Gap => "gap",
        StreamKind::Start => "start",
        StreamKind::Stopping => "stopping",
    };
    // `json_data` would search each fragment of the JSON for newlines, which is
    // slow for output with many escapes.
    let json = serde_json::to_string(event)?;
    Ok(SseEvent::default()
        .event(name)
        .id(id.to_string())
        .data(json))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use elevo_agent_link::Exit;
    use elevo_api::event_stream::Parser;

    use super::*;

    fn data(stream: Stream, offset: u64, data: &'static [u8]) -> Event {
        let data = Bytes::from_static(data);
        Event::Data {
            stream,
            offset,
            data,
        }
    }

    async fn body(answer: Response) -> Bytes {
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX);
        body.await.unwrap()
    }

    /// Decodes the events as a client would. Returns the output and the ids.
    async fn decode(events: Vec<Encoded>) -> (Vec<u8>, Vec<u64>) {
        let mut parser = Parser::default();
        let body = body(respond(stream::iter(events))).await;
        parser.add(&body).unwrap();
        let (mut bytes, mut ids) = (Vec::new(), Vec::new());
        while let Some(event) = parser.next_event().unwrap() {
            ids.push(event.id.unwrap().parse().unwrap());
            let event: StreamEvent = serde_json::from_str(&event.data).unwrap();
            let data = event.data.unwrap_or_default();
            match event.encoding {
                Encoding::Utf8 => bytes.extend(data.bytes()),
                Encoding::Base64 => bytes.extend(STANDARD.decode(data).unwrap()),
            }
        }
        (bytes, ids)
    }

    #[tokio::test]
    async fn an_event_has_a_name_an_id_and_one_line_of_data() {
        let event = encode(StreamKind::Gap, 7, &serde_json::json!({"text": "a\r\nb"}));
        let answer = respond(stream::iter([event]));
        let header = |name: &str| answer.headers()[name].to_str().unwrap();
        assert_eq!(header("content-type"), "text/event-stream");
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("x-accel-buffering"), "no");
        let body = body(answer).await;
        assert_eq!(body, "event: gap\nid: 7\ndata: {\"text\":\"a\\r\\nb\"}\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_without_events_sends_heartbeats() {
        let (sender, receiver) = mpsc::channel(1);
        let mut body = respond_in_batches(receiver).into_body().into_data_stream();
        for _ in 0..2 {
            let began = tokio::time::Instant::now();
            assert_eq!(body.next().await.unwrap().unwrap(), ": still there\n\n");
            assert_eq!(began.elapsed().as_secs(), HEARTBEAT.as_secs());
        }
        drop(sender);
        assert!(body.next().await.is_none());
    }

    #[tokio::test]
    async fn characters_are_not_cut_and_other_bytes_survive() {
        let mut encoder = Encoder::new("cmd-1".into(), None, 0);
        let exit = Exit {
            code: Some(0),
            signal: None,
            timed_out: false,
            offset: 13,
        };
        let events = [
            data(Stream::Stdout, 0, b"a\xc3"),
            data(Stream::Stdout, 2, b"\xa4\n"),
            data(Stream::Stdout, 4, b"\xff\x00"),
            data(Stream::Stdout, 6, b"\xe2\x82"),
            data(Stream::Stderr, 8, b"e"),
            data(Stream::Stdout, 9, b"\xac\xf0\x9f"),
            Event::Exit(exit),
        ];
        let encoded = events.into_iter().flat_map(|event| encoder.event(event));
        let (bytes, ids) = decode(encoded.collect()).await;
        assert_eq!(bytes, b"a\xc3\xa4\n\xff\x00\xe2\x82e\xac\xf0\x9f");
        assert_eq!(ids, [1, 4, 6, 8, 9, 12, 12]);
    }

    #[tokio::test]
    async fn output_beyond_the_limit_is_discarded_and_marked_as_truncated() {
        let mut encoder = Encoder::new("cmd-1".into(), Some(3), 0);
        let first = encoder.event(data(Stream::Stdout, 0, b"abcdef"));
        let second = encoder.event(data(Stream::Stdout, 6, b"gh"));
        let (bytes, _) = decode(first).await;
        assert_eq!(bytes, b"abc");
        assert!(second.is_empty());
        assert!(encoder.truncated);
        assert_eq!(encoder.position, 8);
    }
}
