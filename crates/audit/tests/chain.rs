//! Any modification of the files is found, and every acknowledged record exists.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs::{self, FileTimes, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use elevo_audit::{Appender, Error, Head, Log, Options, Report, read, verify};
use elevo_testkit::disk;
use elevo_testkit::wait::until_async;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

const NOW: &str = "2026-11-16T10:00:00.000Z";

fn now() -> String {
    NOW.into()
}

fn record(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(record) => record,
        other => panic!("{other} is not a record"),
    }
}

fn numbered(n: u64) -> Map<String, Value> {
    record(json!({ "timestamp": NOW, "event": "command.run", "details": { "number": n } }))
}

/// Options with a few records per segment.
fn small() -> Options {
    Options {
        segment_bytes: 600,
        queue: 16,
        waiting: 2,
    }
}

fn written(directory: &Path, count: u64) -> Head {
    let mut log = Appender::open(directory, small(), NOW).unwrap();
    for n in 1..=count {
        log.append(&[numbered(n)]).unwrap();
    }
    log.head()
}

fn checked(directory: &Path, expected: &[Head]) -> Report {
    verify(directory, expected, |_| {}).unwrap()
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    files.sort();
    files
}

fn numbers(directory: &Path, after: u64) -> Vec<u64> {
    let mut found = Vec::new();
    read(directory, after, |n, record| {
        found.push(n);
        record.contains_key("event")
    })
    .unwrap();
    found
}

#[test]
fn written_records_verify_and_are_read_back() {
    let directory = TempDir::new().unwrap();
    let head = written(directory.path(), 20);
    assert!(segments(directory.path()).len() > 3);
    let report = checked(directory.path(), &[head]);
    assert_eq!(
        report,
        Report {
            records: 20,
            first: Some(1),
            head: Some(head),
            ..Report::default()
        }
    );
    assert_eq!(numbers(directory.path(), 0), (1..=20).collect::<Vec<u64>>());
    assert_eq!(
        numbers(directory.path(), 13),
        (14..=20).collect::<Vec<u64>>()
    );
    assert_eq!(head.to_string().parse::<Head>().unwrap(), head);
    // A log that is opened again continues.
    let mut log = Appender::open(directory.path(), small(), NOW).unwrap();
    assert_eq!(log.head(), head);
    log.append(&[numbered(21), numbered(22)]).unwrap();
    let report = checked(directory.path(), &[head, log.head()]);
    assert_eq!((report.records, report.problems), (22, vec![]));
}

#[test]
fn a_field_of_a_record_cannot_replace_a_field_of_the_chain() {
    let directory = TempDir::new().unwrap();
    let mut log = Appender::open(directory.path(), small(), NOW).unwrap();
    let forged = json!({ "n": 7, "prev": "x", "hash": "y", "event": "\",\"hash\":\"\n\u{0}" });
    log.append(&[record(forged), numbered(2)]).unwrap();
    let report = checked(directory.path(), &[log.head()]);
    assert_eq!((report.records, report.problems), (2, vec![]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn one_changed_bit_is_found(place in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let directory = TempDir::new().unwrap();
        let head = written(directory.path(), 12);
        let files = segments(directory.path());
        let sizes: Vec<usize> = files.iter().map(|file| fs::read(file).unwrap().len()).collect();
        let mut place = place.index(sizes.iter().sum());
        let mut file = 0;
        while place >= sizes[file] {
            place -= sizes[file];
            file += 1;
        }
        let mut bytes = fs::read(&files[file]).unwrap();
        bytes[place] ^= 1 << bit;
        fs::write(&files[file], bytes).unwrap();
        let report = checked(directory.path(), &[head]);
        prop_assert!(!report.problems.is_empty(), "{place} {bit}");
        // The problem is reported for the changed line or for the line after
        // it.
        prop_assert!(report.problems[0].file == files[file] || file + 1 < files.len()
            || report.unfinished > 0, "{report:?}");
    }

    #[test]
    fn lines_that_are_moved_removed_or_doubled_are_found(one in 0..12_usize, other in 0..12_usize, what in 0..3) {
        let directory = TempDir::new().unwrap();
        let head = written(directory.path(), 12);
        let files = segments(directory.path());
        let lines = |file: &PathBuf| -> Vec<String> {
            fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
        };
        let mut all: Vec<Vec<String>> = files.iter().map(lines).collect();
        let place = |mut n: usize| {
            for (file, lines) in all.iter().enumerate() {
                if n < lines.len() {
                    return (file, n);
                }
                n -= lines.len();
            }
            unreachable!()
        };
        let ((file, line), (to, at)) = (place(one), place(other));
        let taken = all[file][line].clone();
        match what {
            0 => drop(all[file].remove(line)),
            1 => all[to].insert(at, taken),
            _ if one == other => return Ok(()),
            _ => {
                let second = std::mem::replace(&mut all[to][at], taken);
                all[file][line] = second;
            }
        }
        for (file, lines) in files.iter().zip(all) {
            fs::write(file, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        }
        prop_assert!(!checked(directory.path(), &[head]).problems.is_empty());
    }

    #[test]
    fn any_bytes_are_read_within_bounds(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("00000000000000000001.jsonl"), &bytes).unwrap();
        let report = checked(directory.path(), &[]);
        prop_assert_eq!(report.records, 0);
        prop_assert!(numbers(directory.path(), 0).is_empty());
        // Such a file is set aside entirely, and the log continues.
        let mut log = Appender::open(directory.path(), small(), NOW).unwrap();
        log.append(&[numbered(1)]).unwrap();
        let report = checked(directory.path(), &[log.head()]);
        prop_assert_eq!(report.problems, vec![]);
        let aside: Vec<u8> = report.aside.iter().flat_map(|file| fs::read(file).unwrap()).collect();
        prop_assert_eq!(aside, bytes);
    }
}

#[test]
fn one_changed_record_is_one_problem() {
    let directory = TempDir::new().unwrap();
    written(directory.path(), 12);
    let file = &segments(directory.path())[1];
    let text = fs::read_to_string(file).unwrap();
    // The first change is to the content of a record, the second to its hash.
    for (old, new) in [("\"number\":5", "\"number\":6"), ("\"hash\":\"", "")] {
        let changed = match new.is_empty() {
            false => text.replacen(old, new, 1),
            true => {
                let digit = text.find(old).unwrap() + old.len();
                let other = if text.as_bytes()[digit] == b'0' {
                    "1"
                } else {
                    "0"
                };
                format!("{}{other}{}", &text[..digit], &text[digit + 1..])
            }
        };
        assert_ne!(changed, text);
        fs::write(file, changed).unwrap();
        let report = checked(directory.path(), &[]);
        assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
        assert_eq!(report.problems[0].file, *file);
        assert_eq!(report.records, 12);
    }
}

#[test]
fn a_truncated_log_is_found_by_a_recorded_head() {
    let directory = TempDir::new().unwrap();
    let head = written(directory.path(), 12);
    let last = segments(directory.path()).pop().unwrap();
    fs::remove_file(last).unwrap();
    assert_eq!(checked(directory.path(), &[]).problems, vec![]);
    let report = checked(directory.path(), &[head]);
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].what.contains("record 12"));
}

#[test]
fn the_rest_of_an_interrupted_write_is_set_aside_and_reported() {
    let directory = TempDir::new().unwrap();
    let head = written(directory.path(), 5);
    let last = segments(directory.path()).pop().unwrap();
    let mut file = OpenOptions::new().append(true).open(&last).unwrap();
    file.write_all(b"{\"n\":6,\"event\":\"half a").unwrap();
    let report = checked(directory.path(), &[head]);
    assert_eq!((report.problems, report.unfinished), (vec![], 22));
    let log = Appender::open(directory.path(), small(), NOW).unwrap();
    assert_eq!(log.head().number, 6);
    let report = checked(directory.path(), &[head, log.head()]);
    assert_eq!((report.problems, report.unfinished), (vec![], 0));
    assert_eq!(report.aside.len(), 1);
    assert_eq!(
        fs::read(&report.aside[0]).unwrap(),
        b"{\"n\":6,\"event\":\"half a"
    );
    let mut said = None;
    read(directory.path(), 5, |_, record| {
        said = Some(record);
        true
    })
    .unwrap();
    assert_eq!(said.unwrap()["event"], "audit.set_aside");
}

#[test]
fn a_log_has_one_writer() {
    let directory = TempDir::new().unwrap();
    let first = Appender::open(directory.path(), small(), NOW).unwrap();
    let second = Appender::open(directory.path(), small(), NOW);
    assert!(matches!(second, Err(Error::InUse(_))));
    drop(first);
    Appender::open(directory.path(), small(), NOW).unwrap();
}

#[test]
fn deletes_old_segments_in_order_and_keeps_the_chain_valid() {
    let directory = TempDir::new().unwrap();
    let head = written(directory.path(), 20);
    let files = segments(directory.path());
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    // The second last segment is old as well, but follows a segment that is not
    // old.
    for file in [&files[0], &files[1], &files[files.len() - 2]] {
        let file = OpenOptions::new().append(true).open(file).unwrap();
        file.set_times(FileTimes::new().set_modified(long_ago))
            .unwrap();
    }
    let mut log = Appender::open(directory.path(), small(), NOW).unwrap();
    let removed = log
        .remove_before(long_ago + Duration::from_secs(1))
        .unwrap();
    assert_eq!(removed, 2);
    let report = checked(directory.path(), &[head]);
    assert_eq!(report.problems, vec![]);
    assert!(report.first.unwrap() > 1);
    // The segment that is being written stays, however old it is.
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
    let all = log.remove_before(far);
    assert_eq!(all.unwrap(), files.len() - 3);
    assert_eq!(segments(directory.path()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_records_are_written_together_and_none_is_lost() {
    let directory = TempDir::new().unwrap();
    let log = Log::open(directory.path(), Options::default(), now).unwrap();
    let log = std::sync::Arc::new(log);
    let tasks: Vec<_> = (0..50_u64)
        .map(|task| {
            let log = log.clone();
            tokio::spawn(async move {
                for n in 0..20 {
                    let ticket = log.add(numbered(task * 100 + n)).await;
                    ticket.written().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let head = log.head();
    assert_eq!(head.number, 1000);
    let report = checked(directory.path(), &[head]);
    assert_eq!((report.records, report.problems), (1000, vec![]));
    let mut found: Vec<u64> = Vec::new();
    read(directory.path(), 0, |_, record| {
        found.push(record["details"]["number"].as_u64().unwrap());
        true
    })
    .unwrap();
    // The records of each task are in the order in which the task added them.
    for task in 0..50 {
        let own: Vec<u64> = found
            .iter()
            .filter(|n| **n / 100 == task)
            .map(|n| n % 100)
            .collect();
        assert_eq!(own, (0..20).collect::<Vec<u64>>());
    }
    log.close().await;
    assert!(log.add(numbered(1)).await.written().await.is_err());
}

#[tokio::test]
async fn rejects_only_the_record_that_is_too_long() {
    let directory = TempDir::new().unwrap();
    let log = Log::open(directory.path(), Options::default(), now).unwrap();
    let long = record(json!({ "event": "x".repeat(70 << 10) }));
    let (first, long) = (log.add(numbered(1)).await, log.add(long).await);
    let last = log.add(numbered(2)).await;
    first.written().await.unwrap();
    assert!(matches!(long.written().await, Err(Error::TooLong(_))));
    last.written().await.unwrap();
    assert!(!log.is_failing());
    log.close().await;
    assert_eq!(checked(directory.path(), &[]).records, 2);
}

#[test]
fn records_wait_for_a_full_disk_and_those_that_are_lost_are_counted() {
    let test = "records_wait_for_a_full_disk_and_those_that_are_lost_are_counted";
    if !disk::in_own_namespace(test) {
        return;
    }
    let directory = TempDir::new().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
        .arg(directory.path())
        .status();
    assert!(mounted.unwrap().success());
    let audit = directory.path().join("audit");
    let tokio = tokio::runtime::Runtime::new().unwrap();
    tokio.block_on(async {
        let log = Log::open(&audit, small(), now).unwrap();
        log.add(numbered(1)).await.written().await.unwrap();
        let ballast = directory.path().join("ballast");
        let mut file = fs::File::create(&ballast).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        // The file system is full, but records that fit into allocated pages
        // may still be written.
        let (mut waiting, mut lost) = (Vec::new(), 0);
        for n in 100..300 {
            match log.add(numbered(n)).await.written().await {
                Ok(()) => {}
                Err(Error::Waiting(cause)) => {
                    assert!(cause.contains("No space left"), "{cause}");
                    waiting.push(n);
                }
                Err(error) => {
                    assert!(matches!(error, Error::Failing), "{error}");
                    lost += 1;
                }
            }
            if lost > 2 {
                break;
            }
        }
        assert!(lost > 2);
        assert!(log.is_failing() && !log.can_wait());
        assert_eq!((waiting.len(), log.waiting()), (2, 2));
        drop(file);
        fs::remove_file(&ballast).unwrap();
        until_async("the log writes again", async || {
            (!log.is_failing()).then_some(())
        })
        .await;
        log.add(numbered(9)).await.written().await.unwrap();
        log.close().await;
        let report = checked(&audit, &[log.head()]);
        assert_eq!((report.problems, report.unfinished), (vec![], 0));
        let mut counted = 0;
        read(&audit, 0, |_, record| {
            waiting.retain(|n| record["details"]["number"] != *n);
            if record["event"] == "audit.resumed" {
                counted += record["details"]["lost"].as_u64().unwrap();
            }
            true
        })
        .unwrap();
        assert_eq!(counted, lost);
        assert!(waiting.is_empty(), "not written: {waiting:?}");
    });
}
