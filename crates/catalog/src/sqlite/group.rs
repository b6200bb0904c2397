//! The connection that writes, and changes that share a sync.
//!
//! A change is a savepoint. When it is done, the first of a transaction asks for
//! its turn again, to commit: whoever has been waiting for a turn comes before
//! that, and is in the same transaction. So one sync is enough for all that came
//! while another was being synced, nobody waits for others to come, and nothing
//! is seen or acknowledged before it is on the disk.

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

/// Takes the write lock at once: a transaction that takes it later fails when
/// somebody else has written meanwhile.
const BEGIN: &str = "BEGIN IMMEDIATE";

/// Whoever writes, one at a time, in the order of coming.
#[derive(Debug)]
pub(super) struct Group {
    turn: Arc<Mutex<Turn>>,
    /// Held by a large change for as long as it waits for its turn and has it. So
    /// at most one is in the line, and small changes never wait for several.
    large: Arc<Mutex<()>>,
    wait: Duration,
}

/// A large change waits for others of its kind this many times as long as a
/// change waits for its turn.
const LARGE_WAITS: u32 = 6;

#[derive(Debug)]
struct Turn {
    /// Until it is closed.
    connection: Option<SqliteConnection>,
    /// Whether there is a transaction, and a savepoint in it.
    is_open: bool,
    has_savepoint: bool,
    /// Whose changes are in the transaction.
    done: Vec<oneshot::Sender<Result<()>>>,
}

/// A change that nobody else writes beside. Undone when dropped.
#[derive(Debug)]
pub(super) struct Write {
    /// Until it is done or dropped.
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

    /// Waits until no other large change is in the line. To be held until the
    /// change is done.
    pub(super) async fn large(&self) -> Result<OwnedMutexGuard<()>> {
        let turn = timeout(self.wait * LARGE_WAITS, self.large.clone().lock_owned());
        turn.await.map_err(|_| Error::Busy)
    }

    pub(super) async fn write(&self) -> Result<Write> {
        let turn = timeout(self.wait, self.turn.clone().lock_owned()).await;
        let turn = turn.map_err(|_| Error::Busy)?;
        let mut write = Write {
            turn: Some(turn),
            all: self.turn.clone(),
        };
        let turn = write.turn.as_mut().ok_or(Error::Busy)?;
        turn.undo_savepoint().await;
        turn.begin().await?;
        Ok(write)
    }

    /// Waits for what is under way, and closes the connection.
    pub(super) async fn close(&self) {
        let mut turn = self.turn.lock().await;
        turn.settle().await;
        if let Some(connection) = turn.connection.take() {
            // Nothing is lost with it.
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

    // Whoever waits for a statement may be dropped, and the statement is carried
    // out all the same. What is noted of it must be right either way.

    async fn begin(&mut self) -> Result<()> {
        if !self.is_open {
            self.is_open = true;
            let begun = self.run(BEGIN).await;
            begun.inspect_err(|_| self.is_open = false)?;
        }
        self.run("SAVEPOINT change").await?;
        self.has_savepoint = true;
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        self.has_savepoint = false;
        let released = self.run("RELEASE change").await;
        released.inspect_err(|_| self.has_savepoint = true)
    }

    /// Undoes a change that was dropped. After some errors SQLite has undone the
    /// whole transaction, and all that are in it have failed.
    async fn undo_savepoint(&mut self) {
        if !mem::take(&mut self.has_savepoint) {
            return;
        }
        if let Err(error) = self.run("ROLLBACK TO change").await {
            self.give_up(&error).await;
        }
    }

    async fn give_up(&mut self, why: &Error) {
        // It may be gone already.
        let _ = self.run("ROLLBACK").await;
        self.is_open = false;
        for done in self.done.drain(..) {
            let why = format!("the transaction that it was part of was undone: {why}");
            let _ = done.send(Err(Error::Failed(why.into())));
        }
    }

    /// Ends the transaction, if there is one, and tells all that are in it.
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
    /// It is on the disk when this returns.
    pub(super) async fn commit(mut self) -> Result<()> {
        let turn = self.turn.as_mut().ok_or(Error::Busy)?;
        turn.release().await?;
        let (sender, receiver) = oneshot::channel();
        turn.done.push(sender);
        let is_first = turn.done.len() == 1;
        self.turn = None;
        if is_first {
            let all = self.all.clone();
            // By itself: others are in it too, whatever becomes of this one.
            tokio::spawn(async move { all.lock_owned().await.settle().await });
        }
        let told = receiver.await;
        told.unwrap_or_else(|error| Err(Error::Failed(Box::new(error))))
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        // One that others are in is ended by the first of them.
        if let Some(mut turn) = self.turn.take()
            && turn.done.is_empty()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move { turn.settle().await });
        }
    }
}

const HAS_TURN: &str = "it has its turn, and the connection, until it is done";

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
