//! A process of the cluster. It reports at an interval, and acts on the calls of
//! collections as `node.rs` of the real store does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use elevo_engine::{StoreError, StoreResult, WriterId};
use elevo_objects::{ObjectKey, Snapshot, SnapshotId};
use futures::lock::Mutex as Turn;
use rand::RngExt;

use super::guards::Guards;
use super::sessions::{Joined, Sessions};
use super::tables::{Database, Entered, Phase, Round, Tables};
use super::{AGAIN, LEASE, Plan, Rule};
use crate::sim::executor::Sim;
use crate::sim::store::Injected;

pub struct Node {
    pub id: u32,
    pub sim: Sim,
    pub plan: Plan,
    pub database: Database,
    pub guards: Guards,
    pub sessions: Sessions,
    state: Mutex<State>,
    /// One at a time, so that no round is acted on twice.
    acting: Turn<()>,
}

#[derive(Default)]
pub struct State {
    /// Whether a call has failed because others declared this node lost.
    is_lost: bool,
    /// The time before the last report that succeeded.
    reported: u64,
    /// The process does nothing until then.
    stalled_until: u64,
    /// Openings that this node has heard of and not acknowledged, with the
    /// numbers of the last commits before them.
    openings: Vec<(u64, u64)>,
    /// The last opening that this node has heard of.
    heard: u64,
    /// Collections of this process that ended without a word.
    pub ended: Vec<u64>,
    /// Number of collections that have closed here.
    epoch: u64,
    /// Known records of snapshots, by the epoch in which they were asked for.
    records: BTreeMap<(u64, SnapshotId), Snapshot>,
    pub writers: BTreeMap<WriterId, Ahead>,
    pub last_writer: u64,
}

/// A writer, and its objects that are not in the tables.
pub struct Ahead {
    pub pending: BTreeMap<ObjectKey, Bytes>,
    pub session: Joined,
}

impl Node {
    /// Registers a process.
    pub fn join(sim: &Sim, plan: Plan, database: &Database) -> Arc<Self> {
        let id = database.lock().join(sim.now());
        sim.note("join", id);
        let state = State {
            reported: sim.now(),
            ..State::default()
        };
        Arc::new(Self {
            id,
            sim: sim.clone(),
            plan,
            database: database.clone(),
            guards: Guards::default(),
            sessions: Sessions::new(sim),
            state: Mutex::new(state),
            acting: Turn::new(()),
        })
    }

    /// Returns the number of the collection that is open. Must follow the
    /// registration.
    pub fn open_collection(&self) -> Option<u32> {
        let tables = self.database.lock();
        (tables.gc.phase != Phase::Idle).then_some(tables.gc.number)
    }

    /// A collection that was open then counts as heard of.
    pub fn hear(&self, open: Option<u32>) {
        if let Some(number) = open {
            self.sessions.retire(number);
            self.guards.open();
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    pub fn check_not_lost(&self) -> StoreResult<()> {
        match self.state().is_lost {
            true => Err(StoreError::Lost),
            false => Ok(()),
        }
    }

    /// Whether others have declared this process lost, known here or not.
    pub fn is_declared_lost(&self) -> bool {
        !self.database.lock().is_live(self.id)
    }

    /// Whether no other process can have declared this node lost.
    pub fn is_sure(&self) -> bool {
        self.sim.now() < self.state().reported + LEASE
    }

    /// Notes the result of a statement.
    fn note<T>(&self, result: StoreResult<T>) -> StoreResult<T> {
        if let Err(StoreError::Lost) = result {
            self.state().is_lost = true;
        }
        result
    }

    /// A message is on its way to or from the tables. This goes on while the
    /// process stalls.
    pub async fn travels(&self) {
        self.sim.step().await;
        let micros = self.sim.random(|random| self.plan.latency(random));
        if micros > 0 {
            self.sim.delay(micros).await;
            self.sim.step().await;
        }
    }

    /// The process does something, unless it stalls.
    async fn runs(&self) {
        if self.plan.stalls > 0.0 && self.sim.chance(self.plan.stalls) {
            let until = self.sim.now()
                + self
                    .sim
                    .random(|random| random.random_range(0..LEASE * 3 / 2));
            self.sim.note("stall", (self.id, until));
            let mut state = self.state();
            state.stalled_until = state.stalled_until.max(until);
        }
        loop {
            let now = self.sim.now();
            let until = self.state().stalled_until;
            if until <= now {
                break;
            }
            self.sim.delay(until - now).await;
        }
    }

    async fn sends(&self, what: &str, details: impl Hash + Debug) -> StoreResult<()> {
        self.runs().await;
        if self.plan.errors > 0.0 && self.sim.chance(self.plan.errors) {
            self.sim.note("failed", what);
            return Err(StoreError::Unavailable(Box::new(Injected)));
        }
        self.travels().await;
        self.sim.note(what, (self.id, details));
        Ok(())
    }

    async fn receives(&self) {
        self.travels().await;
        self.runs().await;
    }

    /// Runs a statement.
    pub async fn ask<T>(
        &self,
        what: &str,
        details: impl Hash + Debug,
        statement: impl FnOnce(&mut Tables) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.sends(what, details).await?;
        let answer = statement(&mut self.database.lock());
        self.receives().await;
        self.note(answer)
    }

    /// Runs a statement that reads the phase of the collection first, and holds
    /// the lock on it until the end.
    pub async fn change<T>(
        &self,
        what: &str,
        details: impl Hash + Debug,
        statement: impl FnOnce(&mut Tables, &Entered) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.sends(what, details).await?;
        let answer = match self.database.enter(self.id) {
            Ok(entered) => {
                let micros = self.sim.random(|random| self.plan.wait(random));
                self.sim.delay(micros).await;
                self.sim.step().await;
                self.sim.note("changes", (self.id, what));
                let mut tables = self.database.lock();
                let answer = statement(&mut tables, &entered);
                drop(tables);
                answer
            }
            Err(error) => Err(error),
        };
        self.receives().await;
        self.note(answer)
    }

    /// The present epoch, to be asked for before the tables are.
    pub fn epoch(&self) -> u64 {
        self.state().epoch
    }

    pub fn record(&self, epoch: u64, id: SnapshotId) -> Option<Snapshot> {
        self.state().records.get(&(epoch, id)).cloned()
    }

    pub fn keep_record(&self, epoch: u64, id: SnapshotId, record: Snapshot) {
        self.state().records.insert((epoch, id), record);
    }

    /// Whether an opening waits for commits of this process.
    pub fn has_openings(&self) -> bool {
        !self.state().openings.is_empty()
    }

    /// Reports, deletes ended sessions, and acts on the rounds since the last
    /// time.
    pub async fn act(&self) -> StoreResult<()> {
        let _acting = self.acting.lock().await;
        self.sessions.retire_idle();
        self.end_sessions().await?;
        let began = self.sim.now();
        let renew = |tables: &mut Tables| tables.renew(self.id, self.sim.now());
        let rounds = self.ask("renew", (), renew).await?;
        self.state().reported = began;
        let mut acted = None;
        for round in rounds {
            let heard = self.state().heard;
            if round.opens {
                // A second time if the acknowledgement has failed.
                if heard < round.seq {
                    self.hear_of(round);
                }
                self.report(round).await?;
            } else if heard < round.seq {
                // Once a later opening was heard of, this round was acted on, and
                // a second time would end the memory of that opening.
                self.veto(round).await?;
            }
            acted = Some(round.seq);
        }
        // Commits under way may build on snapshots that are not held any more.
        let acked = {
            let openings = &mut self.state().openings;
            openings.retain(|(_, last)| !self.guards.are_over(*last));
            let first = openings.first().map(|(seq, _)| seq - 1);
            acted.map(|acted| first.map_or(acted, |first| first.min(acted)))
        };
        if let Some(acked) = acked {
            self.end_sessions().await?;
            let acknowledge = |tables: &mut Tables| {
                tables.acknowledge(self.id, acked);
                Ok(())
            };
            self.ask("acknowledge", acked, acknowledge).await?;
        }
        let lose = |tables: &mut Tables| {
            tables.lose(self.sim.now());
            Ok(())
        };
        self.ask("lose", (), lose).await
    }

    fn hear_of(&self, round: Round) {
        self.sessions.retire(round.number);
        let last = self.guards.open();
        let mut state = self.state();
        state.heard = round.seq;
        state.openings.push((round.seq, last));
    }

    /// Reports the snapshots that this node holds.
    async fn report(&self, round: Round) -> StoreResult<()> {
        let ever = self.guards.ever();
        if ever.is_empty() {
            return Ok(());
        }
        let report = |tables: &mut Tables| {
            tables.report(round.seq, &ever);
            Ok(())
        };
        self.ask("report", ever.len(), report).await
    }

    /// Vetoes the condemned snapshots that this node holds.
    async fn veto(&self, round: Round) -> StoreResult<()> {
        // Before a look at the holds, and before the acknowledgement, after which
        // objects are deleted.
        {
            let mut state = self.state();
            state.epoch += 1;
            state.records.clear();
        }
        let remembers = self.database.lock().keeps(Rule::Memory);
        let held = match remembers {
            true => self.guards.ever(),
            false => self.guards.held(),
        };
        let veto = |tables: &mut Tables| Ok(tables.veto(round, &held));
        let vetoes = self.ask("veto", held.len(), veto).await?;
        self.sim.note("vetoes", vetoes);
        self.guards.close();
        Ok(())
    }

    /// Ends this process in an orderly way. Its later calls fail.
    pub async fn leave(&self) -> StoreResult<()> {
        loop {
            let leave = |tables: &mut Tables| Ok(tables.end(self.id));
            if self.ask("leave", (), leave).await? {
                return Ok(());
            }
            self.sim.delay(AGAIN).await;
        }
    }

    async fn end_sessions(&self) -> StoreResult<()> {
        let ended = self.sessions.ended();
        if !ended.is_empty() {
            let end = |tables: &mut Tables| {
                tables.sessions.retain(|id, _| !ended.contains(id));
                Ok(())
            };
            self.ask("end sessions", ended.len(), end).await?;
            self.sessions.forget(&ended);
        }
        self.abort_collections().await
    }

    async fn abort_collections(&self) -> StoreResult<()> {
        let ended: BTreeSet<_> = self.state().ended.iter().copied().collect();
        for token in ended {
            let abort = |tables: &mut Tables| {
                tables.abort(token);
                Ok(())
            };
            self.ask("abort", token, abort).await?;
            self.state().ended.retain(|ended| *ended != token);
        }
        Ok(())
    }
}
