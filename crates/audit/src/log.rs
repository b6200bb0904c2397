//! A log with many concurrent writers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::append::Appender;
use crate::error::{Error, Result};
use crate::line::Head;
use crate::segment::Options;

/// Maximum number of records written together.
const BATCH: usize = 256;
/// Delay before a failed write is retried.
const AGAIN: Duration = Duration::from_secs(1);

type Record = Map<String, Value>;

enum Wish {
    Add(Record, oneshot::Sender<Result<()>>),
    Remove(SystemTime, oneshot::Sender<Result<usize>>),
    End,
}

/// A log that a separate thread writes: records that arrive during a sync are
/// synced together.
#[derive(Debug)]
pub struct Log {
    wishes: mpsc::Sender<Wish>,
    shared: Arc<Shared>,
    most_waiting: usize,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    is_failing: AtomicBool,
    waiting: AtomicUsize,
    lost: AtomicU64,
    head: Mutex<Head>,
}

/// A record that is being written.
#[derive(Debug)]
pub struct Ticket(oneshot::Receiver<Result<()>>);

impl Ticket {
    /// Waits until the record is durable, or until its first write has failed.
    pub async fn written(self) -> Result<()> {
        self.0.await.unwrap_or(Err(Error::Failing))
    }
}

impl Log {
    /// Opens the log in `directory`; `now` returns the time for the log's own
    /// records.
    pub fn open(
        directory: &Path,
        options: Options,
        now: impl Fn() -> String + Send + 'static,
    ) -> Result<Self> {
        let appender = Appender::open(directory, options, &now())?;
        let shared = Arc::new(Shared {
            is_failing: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            head: Mutex::new(appender.head()),
        });
        let (wishes, coming) = mpsc::channel(options.queue);
        let writer = Writer {
            appender,
            shared: shared.clone(),
            waiting: Vec::new(),
            most_waiting: options.waiting,
            cause: String::new(),
            now: Box::new(now),
        };
        let thread = thread::Builder::new()
            .name("audit".into())
            .spawn(move || writer.run(coming))
            .map_err(|source| Error::Io {
                path: directory.into(),
                source,
            })?;
        Ok(Self {
            wishes,
            shared,
            most_waiting: options.waiting,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Queues a record; waits for space in the queue, not for the disk.
    pub async fn add(&self, record: Record) -> Ticket {
        let (done, ticket) = oneshot::channel();
        // If the thread has ended, the ticket returns an error.
        let _ = self.wishes.send(Wish::Add(record, done)).await;
        Ticket(ticket)
    }

    /// Deletes old segments, like [`Appender::remove_before`].
    pub async fn remove_before(&self, before: SystemTime) -> Result<usize> {
        let (done, answer) = oneshot::channel();
        let _ = self.wishes.send(Wish::Remove(before, done)).await;
        answer.await.unwrap_or(Err(Error::Failing))
    }

    /// Returns whether the last write failed. Writes are retried automatically.
    pub fn is_failing(&self) -> bool {
        self.shared.is_failing.load(Ordering::Relaxed)
    }

    /// Returns the number of records that wait in memory until the log can be
    /// written.
    pub fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Returns whether memory has space for another waiting record.
    pub fn can_wait(&self) -> bool {
        self.waiting() < self.most_waiting
    }

    /// Returns the number of lost records that no written record has reported
    /// yet.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Returns the number and the hash of the newest durable record.
    pub fn head(&self) -> Head {
        *self.shared.head.lock()
    }

    /// Writes the waiting records, and stops the thread.
    pub async fn close(&self) {
        let _ = self.wishes.send(Wish::End).await;
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

struct Writer {
    appender: Appender,
    shared: Arc<Shared>,
    /// Records that are not written yet, in order of arrival.
    waiting: Vec<Record>,
    most_waiting: usize,
    /// Cause of the last failed write.
    cause: String,
    now: Box<dyn Fn() -> String + Send>,
}

impl Writer {
    fn run(mut self, mut wishes: mpsc::Receiver<Wish>) {
        while let Some(wish) = wishes.blocking_recv() {
            let (mut records, mut waiting) = (Vec::new(), Vec::new());
            let mut next = Some(wish);
            let mut is_over = false;
            while let Some(wish) = next.take() {
                match wish {
                    Wish::Add(record, done) => {
                        records.push(record);
                        waiting.push(done);
                    }
                    Wish::Remove(before, done) => {
                        let _ = done.send(self.appender.remove_before(before));
                    }
                    Wish::End => is_over = true,
                }
                if records.len() < BATCH && !is_over {
                    next = wishes.try_recv().ok();
                }
            }
            self.write(records, waiting);
            if is_over {
                return;
            }
            while self.is_failing() {
                thread::sleep(AGAIN);
                self.resume();
                // Callers do not wait for the disk: their records wait in
                // memory.
                while let Ok(wish) = wishes.try_recv() {
                    match wish {
                        Wish::Add(record, done) if self.is_failing() => self.keep(record, done),
                        Wish::Add(record, done) => self.write(vec![record], vec![done]),
                        Wish::Remove(before, done) => {
                            let _ = done.send(self.appender.remove_before(before));
                        }
                        Wish::End => return self.resume(),
                    }
                }
            }
        }
    }

    fn is_failing(&self) -> bool {
        self.shared.is_failing.load(Ordering::Relaxed)
    }

    /// Keeps a record in memory, or counts it as lost if too many are waiting.
    fn keep(&mut self, record: Record, done: oneshot::Sender<Result<()>>) {
        let error = match self.waiting.len() < self.most_waiting {
            true => {
                self.waiting.push(record);
                self.note_waiting();
                Error::Waiting(self.cause.clone())
            }
            false => {
                self.shared.lost.fetch_add(1, Ordering::Relaxed);
                Error::Failing
            }
        };
        // The caller may no longer wait.
        let _ = done.send(Err(error));
    }

    fn write(&mut self, records: Vec<Record>, waiting: Vec<oneshot::Sender<Result<()>>>) {
        if records.is_empty() {
            return;
        }
        let result = self.appender.append(&records);
        if let Err(Error::TooLong(_)) = result {
            // One record that is too long must not fail the other records of
            // the batch.
            for (record, done) in records.into_iter().zip(waiting) {
                let _ = done.send(self.appender.append(&[record]));
            }
            self.note_head();
            return;
        }
        if let Err(error) = result {
            self.cause = with_source(&error);
            self.shared.is_failing.store(true, Ordering::Relaxed);
            for (record, done) in records.into_iter().zip(waiting) {
                self.keep(record, done);
            }
            return;
        }
        self.note_head();
        for done in waiting {
            // The caller may no longer wait.
            let _ = done.send(Ok(()));
        }
    }

    /// Writes the waiting records, if the log can be written again, and then a
    /// record with the number of lost records.
    fn resume(&mut self) {
        if self.write_waiting().is_err() {
            return;
        }
        let lost = self.shared.lost.load(Ordering::Relaxed);
        let record = json!({
            "timestamp": (self.now)(), "level": "error", "event": "audit.resumed",
            "user": "server", "details": { "lost": lost },
        });
        let Value::Object(record) = record else {
            unreachable!("the record is an object")
        };
        if self.appender.append(&[record]).is_ok() {
            self.shared.lost.fetch_sub(lost, Ordering::Relaxed);
            self.shared.is_failing.store(false, Ordering::Relaxed);
            self.note_head();
        }
    }

    /// Writes the waiting records one at a time, so that a retry does not write
    /// a record twice.
    fn write_waiting(&mut self) -> Result<()> {
        let mut written = 0;
        let result = self.waiting.iter().try_for_each(|record| {
            match self.appender.append(std::slice::from_ref(record)) {
                Ok(()) => {}
                Err(Error::TooLong(_)) => {
                    self.shared.lost.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
            written += 1;
            Ok(())
        });
        self.waiting.drain(..written);
        self.note_waiting();
        self.note_head();
        result
    }

    fn note_waiting(&self) {
        let waiting = self.waiting.len();
        self.shared.waiting.store(waiting, Ordering::Relaxed);
    }

    fn note_head(&self) {
        *self.shared.head.lock() = self.appender.head();
    }
}

fn with_source(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
