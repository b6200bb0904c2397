//! Concurrent imports share their threads, and do not wait for a slow one.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use elevo_engine::{POOLS, Progress};
use support::{Raw, files, options, read, repository};

/// An archive whose rest arrives when the sender is dropped.
struct Stalled {
    first: io::Cursor<Vec<u8>>,
    rest: io::Cursor<Vec<u8>>,
    come: Receiver<()>,
}

impl Read for Stalled {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.first.read(into)? {
            0 => {
                let _dropped = self.come.recv();
                self.rest.read(into)
            }
            length => Ok(length),
        }
    }
}

#[test]
fn uploads_that_stall_keep_no_threads() {
    let mut senders = Vec::new();
    thread::scope(|scope| {
        let mut slow = Vec::new();
        for _ in 0..5 * POOLS {
            let (sender, come) = channel();
            senders.push(sender);
            // More than a batch, so that a part of the archive is hashed before
            // the rest arrives.
            let archive = Raw::default().file("a", &vec![b'a'; 5 << 20]);
            let length = archive.0.len() - 512;
            let mut first = archive.end();
            let rest = first.split_off(length);
            let stalled = Stalled {
                first: io::Cursor::new(first),
                rest: io::Cursor::new(rest),
                come,
            };
            slow.push(scope.spawn(move || {
                let received =
                    elevo_archive::import(&repository(), stalled, &options(), &Progress::new());
                received.unwrap().tree.count
            }));
        }
        // All of these imports finish while the slow ones wait for the rest of
        // their archives.
        for _ in 0..5 {
            let archive = Raw::default().file("b", b"quick").end();
            let received = read(&repository(), &archive).unwrap();
            assert_eq!(files(&received)["b"], b"quick");
        }
        assert!(slow.iter().all(|import| !import.is_finished()));
        senders.clear();
        for import in slow {
            assert_eq!(import.join().unwrap(), 1);
        }
    });
    let workers = count_workers();
    assert!(workers <= POOLS * options().threads, "{workers}");
}

/// The number of worker threads. They never exit, so it is the maximum that
/// ever ran.
fn count_workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("elevo-files")).count()
}
