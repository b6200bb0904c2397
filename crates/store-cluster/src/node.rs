//! This process as a node of the cluster. It reports at an interval, and acts on
//! the calls of collections:
//!
//! ```text
//! a collection opens   new writers get a new session; from now on this node
//!                      remembers every snapshot that is held, and reports those
//!                      of this moment; when the commits under way have ended, it
//!                      acknowledges
//! one closes           this node forgets the places of objects and the records
//!                      of snapshots, vetoes the condemned snapshots that it
//!                      holds, or has held since the opening, and acknowledges
//! ```
//!
//! Others declare a node lost that does not report in time. Its changes then
//! fail, and its sessions end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use elevo_engine::{StoreError, StoreResult};
use elevo_postgres::Pool;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::failure;
use crate::guards::Guards;
use crate::places::Places;
use crate::session::Sessions;
use crate::snapshots::snapshot_ids;

/// Pause before another attempt to acknowledge an opening.
const AGAIN: Duration = Duration::from_millis(10);

/// This process as a node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: i32,
    pool: Pool,
    lease: Duration,
    is_lost: watch::Sender<bool>,
    /// Number of the last report that was answered. A database of an earlier
    /// moment knows only smaller ones, or those of another process.
    beat: AtomicI64,
    /// The time before the last report that succeeded.
    reported: Mutex<Instant>,
    pub(crate) guards: Guards,
    pub(crate) sessions: Sessions,
    pub(crate) places: Places,
    /// Tasks of the background.
    task: Mutex<Option<JoinHandle<()>>>,
    /// Openings that this node has heard of and not acknowledged.
    openings: Mutex<Vec<Opening>>,
    /// The last opening of each tenant that this node has heard of.
    heard: Mutex<HashMap<i32, i64>>,
    /// One at a time, so that no round is acted on twice.
    acting: tokio::sync::Mutex<()>,
}

/// An opening, and the last commit before it.
#[derive(Clone, Copy, Debug)]
struct Opening {
    seq: i64,
    tenant: i32,
    last: u64,
}

/// A call to all nodes.
#[derive(sqlx::FromRow)]
struct Round {
    seq: i64,
    tenant: i32,
    number: i32,
    opens: bool,
}

impl Node {
    /// Registers this process.
    pub(crate) async fn join(
        pool: &Pool,
        beat: Duration,
        lease: Duration,
    ) -> StoreResult<Arc<Self>> {
        let began = Instant::now();
        let first = first_beat();
        let id = sqlx::query_scalar("SELECT store.join_1($1, $2)")
            .bind(lease)
            .bind(first)
            .fetch_one(pool)
            .await
            .map_err(failure::of)?;
        let node = Arc::new(Self {
            id,
            pool: pool.clone(),
            lease,
            is_lost: watch::Sender::new(false),
            beat: first.into(),
            reported: Mutex::new(began),
            guards: Guards::default(),
            sessions: Sessions::default(),
            places: Places::default(),
            task: Mutex::default(),
            openings: Mutex::default(),
            heard: Mutex::default(),
            acting: tokio::sync::Mutex::default(),
        });
        // A collection that is open now counts as heard of.
        node.hear_of_open().await?;
        let weak = Arc::downgrade(&node);
        let task = tokio::spawn(async move {
            while let Some(node) = weak.upgrade() {
                if let Err(error) = node.act().await {
                    if matches!(error, StoreError::Lost) {
                        tracing::error!("other processes declared this store lost");
                        return;
                    }
                    tracing::warn!(%error, "cannot report to the database of the store");
                }
                let pause = match node.openings.lock().is_empty() {
                    true => beat,
                    false => AGAIN,
                };
                let sessions = node.sessions.clone();
                drop(node);
                let _ = timeout(pause, sessions.wait_for_end()).await;
            }
        });
        *node.task.lock() = Some(task);
        Ok(node)
    }

    async fn hear_of_open(&self) -> StoreResult<()> {
        let open: Vec<(i32, i32)> =
            sqlx::query_as("SELECT tenant, number FROM store.gc WHERE phase <> 'i'")
                .fetch_all(&self.pool)
                .await
                .map_err(failure::of)?;
        for (tenant, number) in open {
            self.sessions.retire(tenant, number);
            self.guards.open(tenant);
        }
        Ok(())
    }

    pub(crate) fn check_not_lost(&self) -> StoreResult<()> {
        match *self.is_lost.borrow() {
            true => Err(StoreError::Lost),
            false => Ok(()),
        }
    }

    /// Waits until this node was declared lost.
    pub(crate) async fn lost(&self) {
        let mut lost = self.is_lost.subscribe();
        if lost.wait_for(|lost| *lost).await.is_err() {
            // The sender is a part of `self`.
            std::future::pending().await
        }
    }

    /// Whether no other process can have declared this node lost.
    pub(crate) fn is_sure(&self) -> bool {
        self.reported.lock().elapsed() < self.lease
    }

    /// Notes the result of a call.
    pub(crate) fn note<T>(&self, result: StoreResult<T>) -> StoreResult<T> {
        if let Err(StoreError::Lost) = result {
            self.is_lost.send_replace(true);
        }
        result
    }

    /// Reports, deletes ended sessions, and acts on the rounds since the last
    /// time.
    pub(crate) async fn act(&self) -> StoreResult<()> {
        let _acting = self.acting.lock().await;
        self.sessions.retire_idle();
        self.end_sessions().await?;
        let began = Instant::now();
        let renewed = sqlx::query_as("SELECT * FROM store.renew_1($1, $2, $3)")
            .bind(self.id)
            .bind(self.lease)
            .bind(self.beat.load(Ordering::Relaxed))
            .fetch_all(&self.pool)
            .await
            .map_err(failure::of);
        let rounds: Vec<Round> = self.note(renewed)?;
        self.beat.fetch_add(1, Ordering::Relaxed);
        *self.reported.lock() = began;
        let mut acted = None;
        for round in rounds {
            // A round comes again if its acknowledgement has failed.
            let heard = self.heard.lock().get(&round.tenant).copied();
            let is_new = heard.is_none_or(|heard| heard < round.seq);
            if round.opens {
                if is_new {
                    self.hear(&round);
                }
                self.report(&round).await?;
            } else if is_new {
                self.veto(&round).await?;
            }
            acted = Some(round.seq);
        }
        // Commits under way may build on snapshots that are not held any more.
        let acked = {
            let mut openings = self.openings.lock();
            openings.retain(|opening| !self.guards.are_over(opening.tenant, opening.last));
            let first = openings.first().map(|opening| opening.seq - 1);
            acted.map(|acted| first.map_or(acted, |first| first.min(acted)))
        };
        if let Some(acked) = acked {
            self.end_sessions().await?;
            sqlx::query("UPDATE store.nodes SET acked = $2 WHERE id = $1 AND acked < $2")
                .bind(self.id)
                .bind(acked)
                .execute(&self.pool)
                .await
                .map_err(failure::of)?;
        }
        // Others may have died, and this process may wait for them.
        let lose = sqlx::query("SELECT store.lose_1()").execute(&self.pool);
        lose.await.map(drop).map_err(failure::of)
    }

    fn hear(&self, round: &Round) {
        self.heard.lock().insert(round.tenant, round.seq);
        self.sessions.retire(round.tenant, round.number);
        let last = self.guards.open(round.tenant);
        self.openings.lock().push(Opening {
            seq: round.seq,
            tenant: round.tenant,
            last,
        });
    }

    /// Reports the snapshots that this node holds, so that they are marked early.
    async fn report(&self, round: &Round) -> StoreResult<()> {
        let ever = self.guards.ever(round.tenant);
        if ever.is_empty() {
            return Ok(());
        }
        sqlx::query(
            "INSERT INTO store.vetoes (tenant, seq, snapshot) \
             SELECT $1, $2, unnest($3::bytea[]) ON CONFLICT DO NOTHING",
        )
        .bind(round.tenant)
        .bind(round.seq)
        .bind(snapshot_ids(&ever))
        .execute(&self.pool)
        .await
        .map(drop)
        .map_err(failure::of)
    }

    /// Vetoes the condemned snapshots that this node holds. A snapshot that is
    /// held after this was read without the mark, or is rejected by `hold`.
    async fn veto(&self, round: &Round) -> StoreResult<()> {
        // Before a look at the holds, and before the acknowledgement, after which
        // objects are deleted.
        self.places.forget(round.tenant);
        let ever = self.guards.ever(round.tenant);
        sqlx::query(
            "INSERT INTO store.vetoes (tenant, seq, snapshot) \
             SELECT $1, $2, id FROM store.snapshots \
             WHERE tenant = $1 AND condemned = $3 AND id = ANY ($4) ON CONFLICT DO NOTHING",
        )
        .bind(round.tenant)
        .bind(round.seq)
        .bind(round.number)
        .bind(snapshot_ids(&ever))
        .execute(&self.pool)
        .await
        .map_err(failure::of)?;
        self.guards.close(round.tenant);
        Ok(())
    }

    async fn end_sessions(&self) -> StoreResult<()> {
        if let Some(known) = self.sessions.known() {
            let deleted =
                sqlx::query("DELETE FROM store.sessions WHERE node = $1 AND NOT id = ANY ($2)")
                    .bind(self.id)
                    .bind(known)
                    .execute(&self.pool)
                    .await;
            if let Err(error) = deleted {
                self.sessions.suspect();
                return Err(failure::of(error));
            }
        }
        let ended = self.sessions.ended();
        if ended.is_empty() {
            return Ok(());
        }
        sqlx::query("DELETE FROM store.sessions WHERE id = ANY ($1)")
            .bind(&ended)
            .execute(&self.pool)
            .await
            .map_err(failure::of)?;
        self.sessions.forget(&ended);
        Ok(())
    }

    /// Ends this node in an orderly way.
    pub(crate) async fn leave(&self) -> StoreResult<()> {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
        let leave = sqlx::query("SELECT store.leave_1($1)").bind(self.id);
        let left = leave.execute(&self.pool).await;
        left.map(drop).map_err(failure::of)
    }
}

/// The number of a node's first report.
#[expect(
    clippy::disallowed_methods,
    reason = "two processes must not have the same numbers, also if a test repeats its seed"
)]
fn first_beat() -> i64 {
    i64::from(rand::random::<u32>()) << 16
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}
