//! Checks the receiver of messages with arbitrary bytes. Only tests and fuzzers
//! compile this module.

use std::sync::Arc;

use elevo_agent_proto::v1::agent_message::Payload;
use elevo_agent_proto::v1::server_message::Payload as ServerPayload;
use elevo_agent_proto::v1::tunnel_piece::Content;
use elevo_agent_proto::v1::{AgentMessage, KillCommandRequest, TunnelPiece};
use elevo_agent_proto::{MAX_CHUNKS_IN_FLIGHT, MAX_SHOWN_COMMAND, Message};
use futures::FutureExt;
use tokio::sync::mpsc;

use crate::error::LinkError;
use crate::guard::Gate;
use crate::link::Link;
use crate::outgoing::Notes;
use crate::reader::{Output, Violation};
use crate::receive::{MAX_ID, MAX_PROCESSES};
use crate::tunnel::files::{FileStat, Listing, MAX_NAME, MAX_TARGET, stat_of};
use crate::types::Event;

/// The window of each reader. It is small, so that a fuzzer reaches the limit.
const WINDOW: u32 = 1000;

/// Processes arbitrary bytes as length-delimited messages of an agent. Of two
/// readers, one consumes each message immediately, and the other reads only at
/// the end.
///
/// # Panics
///
/// If the link stores more than its limits allow, or a reader receives an
/// impossible event.
pub fn receive_any_messages(mut messages: &[u8]) {
    let (requests, _taken) = mpsc::channel(1);
    let parts = (requests, Arc::new(Notes::default()), Gate::new());
    let link = Link::new("sandbox".into(), "1".into(), 0, (WINDOW, None), parts);
    let link = Arc::new(link);
    let (Ok(quick), Ok(slow)) = (link.begin_reader(0), link.begin_reader(7)) else {
        unreachable!("the link allows two readers");
    };
    // Leaves a pending request, whose answer may arrive although its caller is
    // gone.
    let kill = ServerPayload::KillCommand(KillCommandRequest::default());
    let _ = link.request(kill).now_or_never();
    let mut quick = Reading::new(quick);
    while let Ok(message) = AgentMessage::decode_length_delimited(&mut messages) {
        reads_back(&message);
        if take_in(&link, message).is_err() {
            break;
        }
        quick.read();
        let state = link.lock();
        assert!(state.processes.len() <= MAX_PROCESSES);
        for (id, entry) in &state.processes {
            assert!(id.len() <= MAX_ID && entry.process.command.len() <= MAX_SHOWN_COMMAND);
        }
    }
    link.close();
    let mut slow = Reading::new(slow);
    slow.read();
    assert!(slow.bytes <= WINDOW as usize && slow.events <= MAX_CHUNKS_IN_FLIGHT + 1);
    for reading in [&mut quick, &mut slow] {
        reading.read();
        assert!(reading.end.is_some(), "every reader sees the end");
    }
}

/// Processes arbitrary bytes as length-delimited pieces of a tunnel with an
/// operation on files. The first byte is the limit of a list.
///
/// # Panics
///
/// If the server accepts a list or metadata beyond their limits.
pub fn receive_any_pieces(bytes: &[u8]) {
    let Some((&limit, mut pieces)) = bytes.split_first() else {
        return;
    };
    let mut listing = Listing::new(Vec::new(), limit.into());
    while let Ok(piece) = TunnelPiece::decode_length_delimited(&mut pieces) {
        let encoded = piece.encode_to_vec();
        let again = TunnelPiece::decode(&encoded[..]).map(|again| again.encode_to_vec());
        assert_eq!(again.as_ref(), Ok(&encoded));
        let is_bad = match piece.content {
            Some(Content::Entries(entries)) => listing.add(entries).is_err(),
            Some(Content::File(result)) => {
                let _ = stat_of(result.stat).map(|stat| check_stat(&stat));
                false
            }
            _ => false,
        };
        if is_bad {
            break;
        }
    }
    let entries = listing.list.entries;
    assert!(entries.len() <= usize::from(limit));
    assert!(entries.is_sorted_by(|one, two| one.0 < two.0));
    for (name, stat) in &entries {
        assert!((1..=MAX_NAME).contains(&name.len()) && !name.contains(&b'/'));
        check_stat(stat);
    }
}

fn check_stat(stat: &FileStat) {
    let nanos = [stat.modified.1, stat.changed.1];
    assert!(nanos.iter().all(|nanos| *nanos < 1_000_000_000));
    assert!(stat.mode <= 0o7777 && stat.target.len() <= MAX_TARGET);
    assert!(i64::try_from(stat.size).is_ok());
}

/// Handles a message as the service does: a registration contains the agent's
/// current processes.
fn take_in(link: &Link, message: AgentMessage) -> Result<(), Violation> {
    if let Some(Payload::Register(register)) = message.payload {
        let mut state = link.lock();
        let mut processes = register.processes.into_iter();
        return processes.try_for_each(|process| state.put_process(process));
    }
    link.receive(message)
}

/// Checks that a message that is encoded and decoded again stays the same. The
/// received bytes may differ, because Protobuf has many encodings of a message.
fn reads_back(message: &AgentMessage) {
    let encoded = message.encode_to_vec();
    let again = AgentMessage::decode(&encoded[..]).map(|again| again.encode_to_vec());
    assert_eq!(again.as_ref(), Ok(&encoded));
}

/// The events of one reader.
struct Reading {
    output: Output,
    bytes: usize,
    events: usize,
    end: Option<LinkError>,
}

impl Reading {
    fn new(output: Output) -> Self {
        Self {
            output,
            bytes: 0,
            events: 0,
            end: None,
        }
    }

    /// Reads all events so far, and checks that each piece starts where the
    /// previous piece ended.
    fn read(&mut self) {
        loop {
            let at = self.output.offset();
            match self.output.next().now_or_never() {
                None => return,
                Some(Err(end)) => {
                    self.end = Some(end);
                    return;
                }
                Some(Ok(event)) => self.take(at, &event),
            }
        }
    }

    fn take(&mut self, at: u64, event: &Event) {
        self.events += 1;
        match event {
            Event::Data { offset, data, .. } => {
                assert_eq!(*offset, at);
                self.bytes += data.len();
            }
            Event::Gap { from, to } => assert!(*from == at && to > from),
            Event::Exit(_) => {}
        }
        assert!(self.output.offset() >= at);
    }
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "shared with the fuzz targets")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[cfg(test)]
mod tests {
    use super::{corpus, receive_any_messages, receive_any_pieces};

    #[test]
    fn every_message_of_the_corpus_is_received_within_bounds() {
        corpus::replay("agent_messages", receive_any_messages);
    }

    #[test]
    fn every_piece_of_the_corpus_is_received_within_bounds() {
        corpus::replay("agent_pieces", receive_any_pieces);
    }
}
