//! Messages of earlier versions can still be read, and so can the known parts
//! of messages of later versions.
//!
//! Each `.bin` file in `fixtures/VERSION` is one message that a real agent and
//! a real server of that version exchanged; the text file next to it shows the
//! decoded message.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fmt::Debug;
use std::path::Path;

use elevo_agent_proto::Message;
use elevo_agent_proto::v1::{
    AgentMessage, ServerMessage, TunnelPiece, agent_message, pty_output, server_message,
};

/// Encodes a Protobuf field that holds bytes.
fn bytes_field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    varint(&mut field, u64::from(number) << 3 | 2);
    varint(&mut field, content.len() as u64);
    field.extend_from_slice(content);
    field
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn check<M: Message + Default + Debug>(path: &Path) {
    let encoded = std::fs::read(path).unwrap();
    let meaning = std::fs::read_to_string(path.with_extension("txt")).unwrap();
    let message = M::decode(&encoded[..]).unwrap();
    assert_eq!(format!("{message:#?}\n"), meaning, "{}", path.display());
}

#[test]
fn messages_of_earlier_versions_keep_their_meaning() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut count = 0;
    for version in fixtures.read_dir().unwrap() {
        for file in version.unwrap().path().read_dir().unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "bin") {
                continue;
            }
            let name = path.file_name().unwrap().to_str().unwrap();
            match name.split('-').next() {
                Some("agent") => check::<AgentMessage>(&path),
                Some("server") => check::<ServerMessage>(&path),
                Some("piece") => check::<TunnelPiece>(&path),
                _ => panic!("neither agent- nor server- nor piece-: {name}"),
            }
            count += 1;
        }
    }
    assert!(count >= 20, "only {count} fixtures");
}

#[test]
fn an_unknown_message_is_read_as_a_message_without_content() {
    let mut encoded = bytes_field(1, b"sbx-1");
    encoded.extend(bytes_field(99, b"\x0a\x03new"));
    let message = AgentMessage::decode(&encoded[..]).unwrap();
    assert_eq!(message.sandbox_id, "sbx-1");
    assert_eq!(message.payload, None);

    // Field 20 is the request id, 7.
    let mut encoded = vec![0xa0, 0x01, 0x07];
    encoded.extend(bytes_field(77, b"whatever"));
    let message = ServerMessage::decode(&encoded[..]).unwrap();
    assert_eq!(message.request_id, 7);
    assert_eq!(message.payload, None);
}

#[test]
fn an_unknown_field_does_not_hide_the_others() {
    let mut output = bytes_field(1, b"terminal");
    output.extend(bytes_field(2, b"hello"));
    output.extend(bytes_field(15, b"from the future"));
    output.extend([0x28, 0x05]);
    let message = AgentMessage::decode(&bytes_field(5, &output)[..]).unwrap();
    let Some(agent_message::Payload::PtyOutput(output)) = message.payload else {
        panic!("{message:?}");
    };
    assert_eq!(output.pty_id, "terminal");
    assert_eq!(output.subscription_id, 5);
    let data = Some(pty_output::Payload::Data(b"hello"[..].into()));
    assert_eq!(output.payload, data);
}

#[test]
fn an_unknown_enum_value_is_read_as_unspecified() {
    // The contract defines neither kind 9 of a process nor kind 42 of a
    // failure.
    let process = [bytes_field(1, b"p"), vec![0x10, 9]].concat();
    let message = AgentMessage::decode(&bytes_field(7, &process)[..]).unwrap();
    let Some(agent_message::Payload::Process(process)) = message.payload else {
        panic!("{message:?}");
    };
    assert_eq!(process.kind().as_str_name(), "PROCESS_KIND_UNSPECIFIED");
    let answer = [vec![0x08, 1], bytes_field(2, &[0x08, 42])].concat();
    let message = AgentMessage::decode(&bytes_field(6, &answer)[..]).unwrap();
    let Some(agent_message::Payload::Answer(answer)) = message.payload else {
        panic!("{message:?}");
    };
    let kind = answer.failure.unwrap().kind();
    assert_eq!(kind.as_str_name(), "FAILURE_KIND_UNSPECIFIED");
}

#[test]
fn field_numbers_of_the_first_version_are_kept() {
    // A command in the first version of the contract.
    let run = [
        bytes_field(1, b"c"),
        bytes_field(2, b"true"),
        bytes_field(3, b"/tmp"),
        vec![0x28, 0x88, 0x27],
    ]
    .concat();
    let message = ServerMessage::decode(&bytes_field(2, &run)[..]).unwrap();
    let Some(server_message::Payload::RunCommand(run)) = message.payload else {
        panic!("{message:?}");
    };
    assert_eq!((run.command.as_str(), run.timeout_ms), ("true", 5000));
    assert!(run.subscribe.is_none() && run.stdin.is_empty());
}
