//! The connection that writes, and group commit: changes that share a sync.
//!
//! A change is a savepoint. When the first change of a transaction is done, it
//! queues for the writer again, to commit. Changes that are already waiting get
//! the writer before that and join the transaction. So one sync is enough for all
//! changes that arrived during the previous sync, no change waits for others to
//! arrive, and no change is visible or acknowledged before it is on disk.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::time::timeout;

use super::failure;
use crate::error::{Error, Result};

/// Takes the write lock at once: a transaction that takes it later fails if
/// another process has written in the meantime.
const BEGIN: &str = "BEGIN IMMEDIATE";

/// The queue of changes: one has the writer at a time, in order of arrival.
#[derive(Debug)]
pub(super) struct WriteQueue {
    writer: Arc<Mutex<Writer>>,
    /// Held by a large change while it waits for the writer and has it. So at most
    /// one large change is in the queue, and small changes never wait for several.
    large: Arc<Mutex<()>>,
    wait: Duration,
}

/// A large change waits for other large changes this many times longer than a
/// change waits for the writer.
const LARGE_WAIT_FACTOR: u32 = 6;

/// The writing connection and its transaction.
#[derive(Debug)]
struct Writer {
    /// `None` once it is closed.
    connection: Option<SqliteConnection>,
    /// Whether a transaction is open, and whether it has a savepoint.
    is_open: bool,
    has_savepoint: bool,
    /// One sender for each change that is done, to notify it about the end of
    /// the transaction.
    done: Vec<oneshot::Sender<Result<()>>>,
}

/// A change that has the writer, so that no other change runs. It is rolled
/// back if it is dropped.
#[derive(Debug)]
pub(super) struct Change {
    /// `None` once the change is done or dropped.
    writer: Option<OwnedMutexGuard<Writer>>,
    queue: Arc<Mutex<Writer>>,
}

impl WriteQueue {
    pub(super) fn new(connection: SqliteConnection, wait: Duration) -> Self {
        let writer = Writer {
            connection: Some(connection),
            is_open: false,
            has_savepoint: false,
            done: Vec::new(),
        };
        Self {
            writer: Arc::new(Mutex::new(writer)),
            large: Arc::default(),
            wait,
        }
    }

    /// Waits until no other large change is in the queue. The guard must be held
    /// until the change is done.
    pub(super) async fn large(&self) -> Result<OwnedMutexGuard<()>> {
        let guard = timeout(
            self.wait * LARGE_WAIT_FACTOR,
            self.large.clone().lock_owned(),
        );
        guard.await.map_err(|_| Error::Busy)
    }

    /// Waits for the writer and begins a change.
    pub(super) async fn write(&self) -> Result<Change> {
        let writer = timeout(self.wait, self.writer.clone().lock_owned()).await;
        let writer = writer.map_err(|_| Error::Busy)?;
        // Exists before the transaction begins: if this future fails or is
        // dropped, dropping `change` rolls back.
        let mut change = Change {
            writer: Some(writer),
            queue: self.writer.clone(),
        };
        let writer = change.writer.as_mut().ok_or(Error::Busy)?;
        // A change that was dropped in a shared transaction leaves its
        // savepoint to the next change, because `drop` cannot wait.
        writer.roll_back_savepoint().await;
        writer.begin().await?;
        Ok(change)
    }

    /// Waits for running changes, and closes the connection.
    pub(super) async fn close(&self) {
        let mut writer = self.writer.lock().await;
        writer.end_transaction().await;
        if let Some(connection) = writer.connection.take() {
            // Nothing is lost if closing fails.
            let _ = connection.close().await;
        }
    }
}

impl Writer {
    fn connection(&mut self) -> Result<&mut SqliteConnection> {
        let closed = || Error::Failed(Box::new(sqlx::Error::PoolClosed));
        self.connection.as_mut().ok_or_else(closed)
    }

    async fn run(&mut self, statement: &'static str) -> Result<()> {
        let connection = self.connection()?;
        let done = sqlx::query(statement).execute(connection).await;
        done.map(drop).map_err(failure::of)
    }

    // A future may be dropped while its statement runs, and the statement is
    // executed all the same. So the flags must be right either way.

    async fn begin(&mut self) -> Result<()> {
        if !self.is_open {
            self.is_open = true;
            let begun = self.run(BEGIN).await;
            begun.inspect_err(|_| self.is_open = false)?;
        }
        self.run("SAVEPOINT change").await?;
        // Set last: an extra savepoint is empty and harmless, but rolling back
        // to a missing one would fail all changes.
        self.has_savepoint = true;
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        self.has_savepoint = false;
        let released = self.run("RELEASE change").await;
        released.inspect_err(|_| self.has_savepoint = true)
    }

    /// Rolls back a change that was dropped. After some errors SQLite has rolled
    /// back the whole transaction; then all changes in it fail.
    async fn roll_back_savepoint(&mut self) {
        if !mem::take(&mut self.has_savepoint) {
            return;
        }
        if let Err(error) = self.run("ROLLBACK TO change").await {
            self.fail_all(&error).await;
        }
    }

    /// Rolls back the transaction, and notifies all changes in it that they have
    /// failed.
    async fn fail_all(&mut self, why: &Error) {
        // The transaction may already be rolled back.
        let _ = self.run("ROLLBACK").await;
        self.is_open = false;
        for done in self.done.drain(..) {
            let why = format!("the transaction with this change was rolled back: {why}");
            let _ = done.send(Err(Error::Failed(why.into())));
        }
    }

    /// Ends the transaction, if there is one, and notifies all changes in it.
    async fn end_transaction(&mut self) {
        self.roll_back_savepoint().await;
        if !self.is_open {
            return;
        }
        let ended = if self.done.is_empty() {
            self.run("ROLLBACK").await
        } else {
            self.run("COMMIT").await
        };
        if let Err(error) = ended {
            return self.fail_all(&error).await;
        }
        self.is_open = false;
        for done in self.done.drain(..) {
            let _ = done.send(Ok(()));
        }
    }
}

impl Change {
    /// Commits the change. It is on disk when this returns `Ok`.
    pub(super) async fn commit(mut self) -> Result<()> {
        let writer = self.writer.as_mut().ok_or(Error::Busy)?;
        writer.release().await?;
        let (sender, receiver) = oneshot::channel();
        writer.done.push(sender);
        let is_first = writer.done.len() == 1;
        // Releases the writer before the wait below: the task that commits needs
        // it, and changes that wait for it may join the transaction.
        self.writer = None;
        if is_first {
            let queue = self.queue.clone();
            // Commits in a separate task: other changes are in the transaction
            // too, so it must be committed even if this future is dropped.
            tokio::spawn(async move { queue.lock_owned().await.end_transaction().await });
        }
        let ended = receiver.await;
        ended.unwrap_or_else(|error| Err(Error::Failed(Box::new(error))))
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        // If other changes of the transaction are done, the task of the first
        // of them ends the transaction.
        if let Some(mut writer) = self.writer.take()
            && writer.done.is_empty()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move { writer.end_transaction().await });
        }
    }
}

const HAS_WRITER: &str = "a change has the writer and its connection until it is done";

impl Deref for Change {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        let writer = self.writer.as_ref();
        let connection = writer.and_then(|writer| writer.connection.as_ref());
        connection.expect(HAS_WRITER)
    }
}

impl DerefMut for Change {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        let writer = self.writer.as_mut();
        let connection = writer.and_then(|writer| writer.connection.as_mut());
        connection.expect(HAS_WRITER)
    }
}
