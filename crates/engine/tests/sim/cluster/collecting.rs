//! A collection by a process of the cluster, in the steps of `collect.rs` of the
//! real store.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use elevo_engine::{Collection, GcScope, StoreError, StoreResult, Swept};
use elevo_objects::{Kind, ObjectKey, SnapshotId};

use super::Rule;
use super::node::Node;
use super::rounds::{Beginning, Begun};
use super::tables::Tables;

/// Attempts to lock the phase beside many commits, and the pause between two.
const ATTEMPTS: usize = 100;
const AGAIN: u64 = 1000;
/// Pause between two looks at the answers of other nodes.
const LOOK: u64 = 3000;

/// A running collection, until dropped.
pub struct Collecting {
    node: Arc<Node>,
    number: u32,
    token: u64,
    /// Round of the opening.
    opening: u64,
    scope: GcScope,
    state: Mutex<State>,
    /// The last object that was swept.
    swept: Option<ObjectKey>,
    is_finished: bool,
}

#[derive(Default)]
struct State {
    marks: BTreeSet<ObjectKey>,
    /// Snapshots that have arrived.
    arrived: BTreeSet<SnapshotId>,
    /// Whether all snapshots have arrived that were committed while there were
    /// older writers.
    is_settled: bool,
    /// Whether the nodes have answered to the closing.
    is_answered: bool,
    is_closed: bool,
    /// Snapshots that other nodes hold, and that have not arrived yet.
    vetoed: Vec<SnapshotId>,
}

impl State {
    fn has(&self, id: SnapshotId) -> bool {
        self.marks.contains(&key_of(id))
    }
}

fn key_of(id: SnapshotId) -> ObjectKey {
    ObjectKey {
        kind: Kind::Snapshot,
        hash: id.0,
    }
}

impl Collecting {
    pub async fn begin(node: Arc<Node>, scope: GcScope) -> StoreResult<Self> {
        let token = node.database.lock().next();
        let began = Self::enter(&node, token).await?;
        let mut collecting = Self {
            node,
            number: began.number,
            token,
            opening: began.opening,
            scope: GcScope::Full,
            state: Mutex::default(),
            swept: None,
            is_finished: false,
        };
        collecting.node.act().await?;
        if let (GcScope::Young, Some(marks)) = (scope, began.marks) {
            collecting.scope = GcScope::Young;
            collecting.state().marks = marks;
        }
        Ok(collecting)
    }

    async fn enter(node: &Node, token: u64) -> StoreResult<Beginning> {
        for _ in 0..ATTEMPTS {
            let ended = node.state().ended.clone();
            let collect =
                |tables: &mut Tables| tables.collect(node.id, token, &ended, node.sim.now());
            match node.ask("collect", token, collect).await? {
                Begun::Began(began) => return Ok(began),
                Begun::Locked => node.sim.delay(AGAIN).await,
            }
        }
        Err(StoreError::Refused("changes hold the lock".into()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    async fn silent(&self, seq: u64) -> StoreResult<usize> {
        let now = || self.node.sim.now();
        let silent = |tables: &mut Tables| Ok(tables.silent(seq, now()));
        self.node.ask("silent", seq, silent).await
    }

    /// Waits until every live node has acted on a round.
    async fn wait_for(&self, seq: u64) -> StoreResult<()> {
        self.node.act().await?;
        while self.silent(seq).await? > 0 {
            self.node.sim.delay(LOOK).await;
        }
        Ok(())
    }

    /// Returns the answers of the nodes to a round.
    async fn answers(&self, seq: u64) -> StoreResult<Vec<SnapshotId>> {
        let answers = |tables: &mut Tables| Ok(tables.vetoed(seq));
        self.node.ask("answers", seq, answers).await
    }

    /// Returns those of `ids` that were committed since the beginning.
    async fn kept(&self, ids: &[SnapshotId]) -> StoreResult<BTreeSet<SnapshotId>> {
        let number = self.number;
        let kept = |tables: &mut Tables| {
            let is_kept = |id: &&SnapshotId| {
                let row = tables.snapshots.get(id);
                row.is_some_and(|row| row.seen >= number)
            };
            Ok(ids.iter().filter(is_kept).copied().collect())
        };
        self.node.ask("kept", ids.len(), kept).await
    }

    /// Condemns all snapshots without a mark, and calls the nodes.
    async fn condemn(&self) -> StoreResult<u64> {
        let mut after = None;
        loop {
            let limit = 1 + self.node.sim.below(16);
            let page = |tables: &mut Tables| Ok(tables.condemnable(self.number, after, limit));
            let page = self.node.ask("condemnable", limit, page).await?;
            let Some(last) = page.last().copied() else {
                break;
            };
            let condemned = page.into_iter().filter(|id| !self.state().has(*id));
            let condemned: Vec<_> = condemned.collect();
            let condemn = |tables: &mut Tables| tables.condemn(self.token, &condemned);
            self.node.ask("condemn", condemned.len(), condemn).await?;
            after = Some(last);
        }
        let call = |tables: &mut Tables| tables.call_closing(self.token);
        self.node.ask("call", (), call).await
    }

    /// Returns the snapshots that nodes hold and that have not arrived yet.
    /// These and the marked ones are not condemned any more.
    async fn pardon(&self, closing: u64) -> StoreResult<Vec<SnapshotId>> {
        let opening = self.opening;
        let check = |tables: &mut Tables| tables.check_answers(opening, closing);
        self.node.ask("check answers", closing, check).await?;
        let mut vetoed = self.answers(closing).await?;
        if !self.node.database.lock().keeps(Rule::Vetoes) {
            return Ok(Vec::new());
        }
        {
            let state = self.state();
            vetoed.retain(|id| state.has(*id) || !state.arrived.contains(id));
        }
        let pardon = |tables: &mut Tables| tables.pardon(self.token, &vetoed);
        self.node.ask("pardon", vetoed.len(), pardon).await?;
        Ok(vetoed)
    }

    async fn delete_snapshots(&self, ids: &[SnapshotId]) -> StoreResult<BTreeSet<SnapshotId>> {
        if ids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let name = (self.token, self.number);
        let delete = |tables: &mut Tables| Ok(tables.delete_snapshots(name, ids));
        self.node.ask("delete snapshots", ids.len(), delete).await
    }

    async fn delete_objects(&self, keys: &[ObjectKey]) -> StoreResult<BTreeSet<ObjectKey>> {
        if keys.is_empty() {
            return Ok(BTreeSet::new());
        }
        let delete = |tables: &mut Tables| tables.sweep(self.token, keys);
        let deleted = self.node.ask("sweep", keys.len(), delete).await?;
        self.node.sim.note("swept", deleted.len());
        Ok(deleted)
    }

    async fn remove_some(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        let unmarked: Vec<_> = {
            let state = self.state();
            let unmarked = keys.iter().filter(|key| !state.marks.contains(key));
            unmarked.copied().collect()
        };
        let (snapshots, objects): (Vec<_>, Vec<_>) = unmarked
            .into_iter()
            .partition(|key| key.kind == Kind::Snapshot);
        let snapshots: Vec<_> = snapshots
            .into_iter()
            .map(|key| SnapshotId(key.hash))
            .collect();
        let gone = self.delete_snapshots(&snapshots).await?;
        let mut removed = self.delete_objects(&objects).await?;
        removed.extend(gone.into_iter().map(key_of));
        Ok(keys.iter().map(|key| removed.contains(key)).collect())
    }

    /// Whether this process holds a snapshot that is neither known nor kept.
    async fn has_unknown(&self) -> StoreResult<bool> {
        let mut unknown = self.node.guards.arrived();
        {
            let state = self.state();
            unknown.retain(|id| !state.arrived.contains(id) && !state.has(*id));
        }
        if unknown.is_empty() {
            return Ok(false);
        }
        let kept = self.kept(&unknown).await?;
        Ok(unknown.iter().any(|id| !kept.contains(id)))
    }
}

#[async_trait]
impl Collection for Collecting {
    fn scope(&self) -> GcScope {
        self.scope
    }

    async fn older_writers(&self) -> StoreResult<usize> {
        self.node.act().await?;
        let ended = self.node.sessions.ended();
        let number = self.number;
        let older = |tables: &mut Tables| Ok(tables.older_sessions(number, &ended));
        let sessions = self.node.ask("older writers", number, older).await?;
        let silent = self.silent(self.opening).await?;
        let waits = self.node.database.lock().keeps(Rule::Acknowledgement);
        Ok(sessions + if waits { silent } else { 0 })
    }

    async fn arrivals(&self) -> StoreResult<Vec<SnapshotId>> {
        let mut new = self.answers(self.opening).await?;
        new.extend(self.node.guards.arrived());
        new.append(&mut self.state().vetoed);
        let is_settled = self.state().is_settled;
        if !is_settled {
            let settles = self.older_writers().await? == 0;
            let number = self.number;
            let seen = |tables: &mut Tables| {
                let rows = tables.snapshots.iter();
                let rows = rows.filter(|(_, row)| row.seen >= number);
                Ok(rows.map(|(id, _)| *id).collect::<Vec<_>>())
            };
            new.extend(self.node.ask("seen", number, seen).await?);
            self.state().is_settled = settles;
        }
        let arrived = &mut self.state().arrived;
        new.retain(|id| arrived.insert(*id));
        Ok(new)
    }

    async fn marked(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        let marks = &self.state().marks;
        Ok(keys.iter().map(|key| marks.contains(key)).collect())
    }

    async fn mark(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.node.travels().await;
        let marks = &mut self.state().marks;
        Ok(keys.iter().map(|key| marks.insert(*key)).collect())
    }

    async fn close(&self) -> StoreResult<bool> {
        if self.state().is_closed {
            return Ok(true);
        }
        if self.has_unknown().await? {
            return Ok(false);
        }
        let is_answered = self.state().is_answered;
        if !is_answered {
            let closing = self.condemn().await?;
            self.wait_for(closing).await?;
            let mut vetoed = self.pardon(closing).await?;
            let mut state = self.state();
            vetoed.retain(|id| !state.has(*id));
            state.is_answered = true;
            state.vetoed = vetoed;
        }
        if !self.state().vetoed.is_empty() {
            return Ok(false);
        }
        let close = |tables: &mut Tables| tables.begin_sweep(self.token);
        self.node.ask("close", (), close).await?;
        self.state().is_closed = true;
        Ok(true)
    }

    async fn unmarked_snapshots(
        &self,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let number = self.number;
        let unmarked = |tables: &mut Tables| {
            let rows = tables.snapshots.iter();
            let rows = rows.filter(|(_, row)| row.condemned == Some(number));
            let ids = rows.map(|(id, _)| *id).filter(|id| Some(*id) > after);
            Ok(ids.take(limit).collect())
        };
        self.node.ask("unmarked snapshots", limit, unmarked).await
    }

    async fn remove(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        let size = 1 + self.node.sim.below(16);
        let mut removed = Vec::with_capacity(keys.len());
        for some in keys.chunks(size) {
            removed.extend(self.remove_some(some).await?);
        }
        Ok(removed)
    }

    async fn sweep(&mut self, only_count: bool) -> StoreResult<Option<Swept>> {
        let limit = 1 + self.node.sim.below(32);
        let (after, number) = (self.swept, self.number);
        let page = |tables: &mut Tables| {
            let rows = tables.objects.iter();
            let rows = rows.filter(|(key, _)| Some(**key) > after);
            let rows = rows.map(|(key, row)| (*key, row.seen >= number));
            Ok(rows.take(limit).collect::<Vec<_>>())
        };
        let page = self.node.ask("objects", limit, page).await?;
        let Some((last, _)) = page.last() else {
            return Ok(None);
        };
        self.swept = Some(*last);
        let seen = page.len() as u64;
        let garbage: Vec<_> = {
            let state = self.state();
            let is_kept =
                |(key, is_seen): &(ObjectKey, bool)| *is_seen || state.marks.contains(key);
            let garbage = page.into_iter().filter(|row| !is_kept(row));
            garbage.map(|(key, _)| key).collect()
        };
        let removed = match only_count {
            true => garbage.len(),
            false => self.delete_objects(&garbage).await?.len(),
        };
        let removed = removed as u64;
        Ok(Some(Swept { seen, removed }))
    }

    async fn finish(mut self: Box<Self>) -> StoreResult<()> {
        let marks = std::mem::take(&mut self.state().marks);
        let finish = |tables: &mut Tables| tables.finish(self.token, marks);
        self.node.ask("finish", (), finish).await?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        if !self.is_finished {
            // The next collection of this process takes over at once; others
            // when the process has said so at its next report.
            self.node.state().ended.push(self.token);
        }
    }
}
