//! Logs of earlier versions, and of later ones.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;

use elevo_audit::{Appender, Error, Head, Options, check_format, read, verify};
use elevo_testkit::fixtures;
use serde_json::{Map, json};

const NOW: &str = "2026-11-18T10:00:00.000Z";

#[test]
fn logs_of_earlier_versions_verify_and_continue() {
    for fixture in fixtures::all() {
        let unpacked = fixture.unpack("server.tar.gz");
        let log = unpacked.path().join("data/audit");
        let expected = &fixture.expected()["audit"];
        let head: Head = expected["head"].as_str().unwrap().parse().unwrap();
        let report = verify(&log, &[head], |_| {}).unwrap();
        assert_eq!(report.problems, []);
        assert_eq!(report.head, Some(head));
        assert_eq!(report.records, expected["records"].as_u64().unwrap());

        let mut appender = Appender::open(&log, Options::default(), NOW).unwrap();
        let event = json!({ "timestamp": NOW, "event": "server.started" });
        appender
            .append(&[event.as_object().unwrap().clone()])
            .unwrap();
        let new = appender.head();
        let report = verify(&log, &[head, new], |_| {}).unwrap();
        assert_eq!((report.problems, report.aside), (vec![], vec![]));
        assert_eq!(report.head, Some(new));
        assert_eq!(new.number, head.number + 1);
    }
}

#[test]
fn a_log_of_a_newer_format_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path();
    let mut appender = Appender::open(log, Options::default(), NOW).unwrap();
    appender.append(&[Map::new()]).unwrap();
    drop(appender);
    // This version cannot read the lines of the newer one.
    let segment = log.join("00000000000000000001.jsonl");
    fs::write(&segment, "lines of another kind\n").unwrap();
    fs::write(log.join("FORMAT"), "elevo audit log 3\n").unwrap();
    let attempts = [
        Appender::open(log, Options::default(), NOW).map(drop),
        verify(log, &[], |_| {}).map(drop),
        read(log, 0, |_, _| true),
        check_format(log),
    ];
    for attempt in attempts {
        let Err(error @ Error::Newer { .. }) = attempt else {
            panic!("{attempt:?}");
        };
        let text = error.to_string();
        for part in ["format 3", "up to 1", "install the version", "a backup"] {
            assert!(text.contains(part), "{text}");
        }
    }
    let kept = fs::read_to_string(segment).unwrap();
    assert_eq!(kept, "lines of another kind\n");
    fs::write(log.join("FORMAT"), "elevo audit log 1\n").unwrap();
    check_format(log).unwrap();
}
