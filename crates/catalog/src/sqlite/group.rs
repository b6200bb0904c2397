//! The connection that writes, and group commit: changes that share a sync.
//!
//! A change is a savepoint. When the first change of a transaction is done, it
//! queues for the lock again, to commit. Changes that are already waiting get the
//! lock before that and join the transaction. So one sync is enough for all
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

/// The queue of writers: one at a time, in order of arrival.
#[derive(Debug)]
pub(super) struct Group {
    turn: Arc<Mutex<Turn>>,
    /// Held by a large change while it waits for its turn and has it. So at most
    /// one large change is in the queue, and small changes never wait for
    /// several.
    large: Arc<Mutex<()>>,
    wait: Duration,
}

/// Factor by which a large change waits longer for other large changes than a
/// change waits for its turn.
const LARGE_WAITS: u32 = 6;

#[derive(Debug)]
struct Turn {
    /// `None` once it is closed.
    connection: Option<SqliteConnection>,
    /// Whether a transaction is open, and whether it has a savepoint.
    is_open: bool,
    has_savepoint: bool,
    /// Notified about the end of the transaction: one sender for each change in
    /// it.
    done: Vec<oneshot::Sender<Result<()>>>,
}

/// A change, with no concurrent writer. Rolled back when dropped.
#[derive(Debug)]
pub(super) struct Write {
    /// `None` once the change is done or dropped.
    turn: Option<OwnedMutexGuard<Turn>>,
    all: Arc<Mutex<Turn>>,
}

impl Group {
    pub(super) fn new(connection: SqliteConnection, wait: Duration) -> Self {
        let turn = Turn {
            connection: Some(connection),
            is_open: false,
            has_savepoint: false,
            done: Vec::new(),
        };
        Self {
            turn: Arc::new(Mutex::new(turn)),
            large: Arc::default(),
            wait,
        }
    }

    /// Waits until no other large change is in the queue. The guard must be held
    /// until the change is done.
    pub(super) async fn large(&self) -> Result<OwnedMutexGuard<()>> {
        let turn = timeout(self.wait * LARGE_WAITS, self.large.clone().lock_owned());
        turn.await.map_err(|_| Error::Busy)
    }

    pub(super) async fn write(&self) -> Result<Write> {
        let turn = timeout(self.wait, self.turn.clone().lock_owned()).await;
        let turn = turn.map_err(|_| Error::Busy)?;
        // Exists before the transaction begins: if this future fails or is
        // dropped, dropping `write` rolls back.
        let mut write = Write {
            turn: Some(turn),
            all: self.turn.clone(),
        };
        let turn = write.turn.as_mut().ok_or(Error::Busy)?;
        // A change that was dropped in a shared transaction leaves its
        // savepoint to the next change, because `drop` cannot wait.
        turn.undo_savepoint().await;
        turn.begin().await?;
        Ok(write)
    }

    /// Waits for running changes, and closes the connection.
    pub(super) async fn close(&self) {
        let mut turn = self.turn.lock().await;
        turn.settle().await;
        if let Some(connection) = turn.connection.take() {
            // Nothing is lost if closing fails.
            let _ = connection.close().await;
        }
    }
}

impl Turn {
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
    async fn undo_savepoint(&mut self) {
        if !mem::take(&mut self.has_savepoint) {
            return;
        }
        if let Err(error) = self.run("ROLLBACK TO change").await {
            self.give_up(&error).await;
        }
    }

    async fn give_up(&mut self, why: &Error) {
        // The transaction may already be rolled back.
        let _ = self.run("ROLLBACK").await;
        self.is_open = false;
        for done in self.done.drain(..) {
            let why = format!("the transaction with this change was rolled back: {why}");
            let _ = done.send(Err(Error::Failed(why.into())));
        }
    }

    /// Ends the transaction, if there is one, and notifies all changes in it.
    async fn settle(&mut self) {
        self.undo_savepoint().await;
        if !self.is_open {
            return;
        }
        let ended = match self.done.is_empty() {
            true => self.run("ROLLBACK").await,
            false => self.run("COMMIT").await,
        };
        if let Err(error) = ended {
            return self.give_up(&error).await;
        }
        self.is_open = false;
        for done in self.done.drain(..) {
            let _ = done.send(Ok(()));
        }
    }
}

impl Write {
    /// The change is on disk when this returns.
    pub(super) async fn commit(mut self) -> Result<()> {
        let turn = self.turn.as_mut().ok_or(Error::Busy)?;
        turn.release().await?;
        let (sender, receiver) = oneshot::channel();
        turn.done.push(sender);
        let is_first = turn.done.len() == 1;
        // Releases the lock before the wait below: the task that commits needs
        // it, and changes that wait for it may join.
        self.turn = None;
        if is_first {
            let all = self.all.clone();
            // In a task, since other changes are in the transaction too: it must
            // commit even if this future is dropped.
            tokio::spawn(async move { all.lock_owned().await.settle().await });
        }
        let told = receiver.await;
        told.unwrap_or_else(|error| Err(Error::Failed(Box::new(error))))
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        // A transaction with other changes in it is ended by the first of them.
        if let Some(mut turn) = self.turn.take()
            && turn.done.is_empty()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move { turn.settle().await });
        }
    }
}

const HAS_TURN: &str = "a change holds the lock and the connection until it is done";

impl Deref for Write {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        let turn = self.turn.as_ref();
        let connection = turn.and_then(|turn| turn.connection.as_ref());
        connection.expect(HAS_TURN)
    }
}

impl DerefMut for Write {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        let turn = self.turn.as_mut();
        let connection = turn.and_then(|turn| turn.connection.as_mut());
        connection.expect(HAS_TURN)
    }
}
