//! The sessions of the writers of a process. A session is kept for the next
//! writer, until a collection opens or some time has passed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::sim::executor::Sim;

/// Time for which a session without writers is kept, in microseconds.
const KEPT: u64 = 50_000;

#[derive(Clone)]
pub struct Sessions {
    sim: Sim,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<u64, Session>,
    /// The session that new writers join.
    current: Option<u64>,
    /// The last collection that this process has heard of.
    heard: u32,
    /// Sessions that have ended, and still have a row.
    ended: BTreeSet<u64>,
}

struct Session {
    writers: usize,
    idle_since: u64,
}

impl State {
    /// Ends a session if it has no writers and no new ones can join.
    fn end_if_over(&mut self, id: u64) {
        let is_unused = |session: &Session| session.writers == 0;
        if self.current != Some(id) && self.sessions.get(&id).is_some_and(is_unused) {
            self.sessions.remove(&id);
            self.ended.insert(id);
        }
    }

    fn retire(&mut self) {
        if let Some(id) = self.current.take() {
            self.end_if_over(id);
        }
    }
}

impl Sessions {
    pub fn new(sim: &Sim) -> Self {
        Self {
            sim: sim.clone(),
            state: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Joins the current session, if there is one.
    pub fn join(&self) -> Option<Joined> {
        let mut state = self.lock();
        let id = state.current?;
        state.sessions.get_mut(&id)?.writers += 1;
        drop(state);
        Some(self.joined(id))
    }

    /// Adds a session whose row was just made, and joins it. Later writers join
    /// it too, unless a later collection was heard of.
    pub fn add(&self, id: u64, number: u32) -> Joined {
        let mut state = self.lock();
        let session = Session {
            writers: 1,
            idle_since: self.sim.now(),
        };
        state.sessions.insert(id, session);
        if number >= state.heard {
            state.retire();
            state.current = Some(id);
        }
        drop(state);
        self.joined(id)
    }

    fn joined(&self, id: u64) -> Joined {
        Joined {
            sessions: self.clone(),
            id,
        }
    }

    /// A collection has opened: new writers need a new session.
    pub fn retire(&self, number: u32) {
        let mut state = self.lock();
        state.heard = number;
        state.retire();
    }

    /// Retires the current session if it had no writers for a while.
    pub fn retire_idle(&self) {
        let now = self.sim.now();
        let mut state = self.lock();
        let current = state.current.and_then(|id| state.sessions.get(&id));
        let is_idle = |session: &Session| session.writers == 0 && session.idle_since + KEPT <= now;
        if current.is_some_and(is_idle) {
            state.retire();
        }
    }

    /// The sessions that have ended. Their rows do not count.
    pub fn ended(&self) -> BTreeSet<u64> {
        self.lock().ended.clone()
    }

    /// Forgets sessions whose rows were deleted.
    pub fn forget(&self, deleted: &BTreeSet<u64>) {
        self.lock().ended.retain(|id| !deleted.contains(id));
    }
}

/// The place of a writer in a session, until dropped.
pub struct Joined {
    sessions: Sessions,
    id: u64,
}

impl Drop for Joined {
    fn drop(&mut self) {
        let now = self.sessions.sim.now();
        let mut state = self.sessions.lock();
        if let Some(session) = state.sessions.get_mut(&self.id) {
            session.writers -= 1;
            session.idle_since = now;
        }
        state.end_if_over(self.id);
    }
}
