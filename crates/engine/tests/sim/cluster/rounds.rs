//! The statements of nodes and collections on the tables.

use std::collections::BTreeSet;

use elevo_engine::{StoreError, StoreResult};
use elevo_objects::{ObjectKey, SnapshotId};

use super::tables::{NodeRow, Phase, Round, Tables};
use super::{LEASE, Rule};

/// Result of the statement that begins a collection.
pub enum Begun {
    /// Changes hold the lock; ask again.
    Locked,
    Began(Beginning),
}

/// A collection that has begun.
pub struct Beginning {
    pub number: u32,
    /// Round of the opening.
    pub opening: u64,
    pub marks: Option<BTreeSet<ObjectKey>>,
}

fn taken_over() -> StoreError {
    StoreError::Refused("this collection was taken over by another process".into())
}

impl Tables {
    /// Registers a node.
    pub fn join(&mut self, now: u64) -> u32 {
        let id = self.nodes.len() as u32 + 1;
        let row = NodeRow {
            is_live: true,
            expires: now + LEASE,
            acked: self.last_round(),
        };
        self.nodes.insert(id, row);
        id
    }

    /// Renews a node, and returns the rounds that it has not acted on.
    pub fn renew(&mut self, node: u32, now: u64) -> StoreResult<Vec<Round>> {
        self.check_live(node)?;
        let row = self.nodes.get_mut(&node).ok_or(StoreError::Lost)?;
        row.expires = now + LEASE;
        let later = self.rounds.range(row.acked + 1..);
        Ok(later.map(|(_, round)| *round).collect())
    }

    /// Declares nodes lost that did not renew in time, except while a change of
    /// the node is under way, and ends their sessions and collections.
    pub fn lose(&mut self, now: u64) {
        let is_over = |row: &NodeRow| row.is_live && row.expires < now;
        let over = self.nodes.iter().filter(|(_, row)| is_over(row));
        let over: Vec<_> = over.map(|(id, _)| *id).collect();
        for id in over {
            if self.end(id) && self.gc.node == id && self.gc.phase != Phase::Idle {
                self.abandon();
            }
        }
    }

    /// Ends a node with its sessions, unless a change of it is under way.
    pub fn end(&mut self, node: u32) -> bool {
        let is_locked = self.entered.values().any(|of| *of == node);
        if is_locked && self.keeps(Rule::SharedLocks) {
            return false;
        }
        if let Some(row) = self.nodes.get_mut(&node) {
            row.is_live = false;
        }
        self.sessions.retain(|_, session| session.node != node);
        true
    }

    /// Number of live nodes that have not acted on a round.
    pub fn silent(&mut self, seq: u64, now: u64) -> usize {
        self.lose(now);
        let live = self.nodes.values().filter(|row| row.is_live);
        live.filter(|row| row.acked < seq).count()
    }

    pub fn acknowledge(&mut self, node: u32, acked: u64) {
        if let Some(row) = self.nodes.get_mut(&node) {
            row.acked = row.acked.max(acked);
        }
    }

    fn last_round(&self) -> u64 {
        self.rounds.last_key_value().map_or(0, |(seq, _)| *seq)
    }

    /// Calls all nodes.
    fn call(&mut self, number: u32, opens: bool) -> u64 {
        let seq = self.last_round() + 1;
        let round = Round { seq, number, opens };
        self.rounds.insert(seq, round);
        seq
    }

    /// Begins a collection. `ended` are the collections of this node that ended
    /// without a word.
    pub fn collect(
        &mut self,
        node: u32,
        token: u64,
        ended: &[u64],
        now: u64,
    ) -> StoreResult<Begun> {
        if !self.entered.is_empty() && self.keeps(Rule::SharedLocks) {
            return Ok(Begun::Locked);
        }
        self.lose(now);
        let mut marks = self.gc.marks.clone();
        if self.gc.phase != Phase::Idle {
            let has_ended = self.gc.token.is_some_and(|token| ended.contains(&token));
            if !has_ended && self.is_live(self.gc.node) {
                let message = "another collection is running";
                return Err(StoreError::Refused(message.into()));
            }
            marks = None;
            self.abandon();
        }
        self.gc.number += 1;
        self.gc.phase = Phase::Marking;
        (self.gc.node, self.gc.token) = (node, Some(token));
        let live = self.nodes.values().filter(|row| row.is_live);
        let acked = live.map(|row| row.acked).min().unwrap_or_default();
        let last = self.last_round();
        self.rounds.retain(|seq, _| *seq == last || *seq > acked);
        let number = self.gc.number;
        Ok(Begun::Began(Beginning {
            number,
            opening: self.call(number, true),
            marks,
        }))
    }

    /// Ends a collection. Its condemned snapshots stay, unless objects were
    /// deleted.
    fn abandon(&mut self) {
        if self.gc.phase == Phase::Deleting {
            self.snapshots.retain(|_, row| row.condemned.is_none());
        }
        for row in self.snapshots.values_mut() {
            row.condemned = None;
        }
        self.vetoes.clear();
        self.gc.phase = Phase::Idle;
        (self.gc.marks, self.gc.token) = (None, None);
    }

    /// Ends a collection that its process aborted, unless another one has taken
    /// over.
    pub fn abort(&mut self, token: u64) {
        if self.gc.token == Some(token) {
            self.abandon();
        }
    }

    pub fn finish(&mut self, token: u64, marks: BTreeSet<ObjectKey>) -> StoreResult<()> {
        self.check_phase(token, &[Phase::Sweeping, Phase::Deleting])?;
        self.abandon();
        self.gc.marks = Some(marks);
        self.counts.collections += 1;
        Ok(())
    }

    fn check_phase(&self, token: u64, phases: &[Phase]) -> StoreResult<()> {
        match self.gc.token == Some(token) && phases.contains(&self.gc.phase) {
            true => Ok(()),
            false => Err(taken_over()),
        }
    }

    /// Number of sessions that began before a collection, except those that
    /// have ended.
    pub fn older_sessions(&self, number: u32, ended: &BTreeSet<u64>) -> usize {
        if !self.keeps(Rule::Sessions) {
            return 0;
        }
        let sessions = self.sessions.iter().filter(|(id, _)| !ended.contains(id));
        sessions.filter(|(_, row)| row.number < number).count()
    }

    /// Records the snapshots that a node holds at an opening.
    pub fn report(&mut self, seq: u64, held: &[SnapshotId]) {
        self.vetoes.extend(held.iter().map(|id| (seq, *id)));
    }

    /// Records the condemned snapshots among those that a node holds at a
    /// closing, and returns their number.
    pub fn veto(&mut self, round: Round, held: &[SnapshotId]) -> usize {
        let is_condemned = |id: &&SnapshotId| {
            let row = self.snapshots.get(id);
            row.is_some_and(|row| row.condemned == Some(round.number))
        };
        let vetoes = held.iter().filter(is_condemned);
        let vetoes: Vec<_> = vetoes.map(|id| (round.seq, *id)).collect();
        self.counts.vetoes += vetoes.len();
        self.vetoes.extend(&vetoes);
        vetoes.len()
    }

    /// Returns the answers to a round.
    pub fn vetoed(&self, seq: u64) -> Vec<SnapshotId> {
        let answers = self.vetoes.iter().filter(|(of, _)| *of == seq);
        answers.map(|(_, id)| *id).collect()
    }

    /// Returns the next snapshots that were not committed since the beginning.
    pub fn condemnable(
        &self,
        number: u32,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> Vec<SnapshotId> {
        let rows = self.snapshots.iter();
        let rows = rows.filter(|(id, row)| Some(**id) > after && row.seen < number);
        rows.map(|(id, _)| *id).take(limit).collect()
    }

    /// Condemns snapshots, except those that were committed again.
    pub fn condemn(&mut self, token: u64, ids: &[SnapshotId]) -> StoreResult<()> {
        self.check_phase(token, &[Phase::Marking])?;
        let number = self.gc.number;
        for id in ids {
            if let Some(row) = self.snapshots.get_mut(id)
                && row.seen < number
            {
                row.condemned = Some(number);
            }
        }
        Ok(())
    }

    /// Calls all nodes to veto condemned snapshots.
    pub fn call_closing(&mut self, token: u64) -> StoreResult<u64> {
        self.check_phase(token, &[Phase::Marking])?;
        Ok(self.call(self.gc.number, false))
    }

    /// Rejects a collection if a node has ended after it began to remember what
    /// was held, and without an answer to the closing.
    pub fn check_answers(&self, opening: u64, closing: u64) -> StoreResult<()> {
        let owes = |row: &NodeRow| !row.is_live && (opening..closing).contains(&row.acked);
        match self.nodes.values().any(owes) {
            true => Err(StoreError::Refused("a process has ended; retry".into())),
            false => Ok(()),
        }
    }

    /// Ends the condemnation of snapshots.
    pub fn pardon(&mut self, token: u64, ids: &[SnapshotId]) -> StoreResult<()> {
        self.check_phase(token, &[Phase::Marking])?;
        for id in ids {
            if let Some(row) = self.snapshots.get_mut(id) {
                row.condemned = None;
            }
        }
        Ok(())
    }

    pub fn begin_sweep(&mut self, token: u64) -> StoreResult<()> {
        self.check_phase(token, &[Phase::Marking])?;
        self.gc.phase = Phase::Sweeping;
        Ok(())
    }

    /// Deletes condemned snapshots, and returns which.
    pub fn delete_snapshots(
        &mut self,
        (token, number): (u64, u32),
        ids: &[SnapshotId],
    ) -> BTreeSet<SnapshotId> {
        let phases = [Phase::Sweeping, Phase::Deleting];
        let mut deleted = BTreeSet::new();
        if self.check_phase(token, &phases).is_ok() {
            for id in ids {
                let row = self.snapshots.get(id);
                if row.is_some_and(|row| row.condemned == Some(number)) {
                    self.snapshots.remove(id);
                    deleted.insert(*id);
                }
            }
        }
        deleted
    }

    /// Deletes objects that were not seen since the collection began, and
    /// returns which.
    pub fn sweep(&mut self, token: u64, keys: &[ObjectKey]) -> StoreResult<BTreeSet<ObjectKey>> {
        self.check_phase(token, &[Phase::Sweeping, Phase::Deleting])?;
        self.gc.phase = Phase::Deleting;
        let mut deleted = BTreeSet::new();
        for key in keys {
            let row = self.objects.get(key);
            if row.is_some_and(|row| row.seen < self.gc.number) {
                self.objects.remove(key);
                deleted.insert(*key);
            }
        }
        self.counts.swept += deleted.len();
        Ok(deleted)
    }
}
