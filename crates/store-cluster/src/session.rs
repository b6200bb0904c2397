//! The sessions of writers: rows that say which collection a writer has seen. A
//! later collection waits for it.
//!
//! The writers of a tenant share a session of this process until a collection
//! opens, and the session is kept for the next writers for a while. So most
//! writers need no statement.
//!
//! The row of a session may exist although the call that began it failed. Rows of
//! this process that it does not know are deleted after such a failure, and when a
//! collection opens: by then, every row for which it waits is there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Time for which a session without writers is kept.
const KEPT: Duration = Duration::from_secs(30);

/// The sessions of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when sessions have ended whose rows must be deleted.
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<i64, Session>,
    /// The session that new writers of a tenant join.
    current: HashMap<i32, i64>,
    /// The last collection of each tenant that this process has heard of.
    heard: HashMap<i32, i32>,
    /// Sessions that have ended, and still have a row.
    ended: HashSet<i64>,
    /// Sessions whose rows are being added.
    starting: HashSet<i64>,
    /// Whether there may be rows that this process does not know.
    has_unknown: bool,
}

#[derive(Debug)]
struct Session {
    tenant: i32,
    writers: usize,
    idle_since: Instant,
}

impl State {
    /// Ends a session if it has no writers and no new ones can join.
    fn end_if_over(&mut self, id: i64) -> bool {
        let Some(session) = self.sessions.get(&id) else {
            return false;
        };
        let is_over = session.writers == 0 && self.current.get(&session.tenant) != Some(&id);
        if is_over {
            self.sessions.remove(&id);
            self.ended.insert(id);
        }
        is_over
    }
}

impl Sessions {
    /// Joins the current session of a tenant, if there is one.
    pub(crate) fn join(&self, tenant: i32) -> Option<Joined> {
        let mut state = self.0.state.lock();
        let id = *state.current.get(&tenant)?;
        state.sessions.get_mut(&id)?.writers += 1;
        Some(Joined {
            sessions: self.clone(),
            id,
        })
    }

    /// Begins a session, whose row must be added now.
    pub(crate) fn start(&self, id: i64) -> Starting {
        self.0.state.lock().starting.insert(id);
        Starting {
            sessions: self.clone(),
            id,
        }
    }

    /// Adds a session whose row was just added, and joins it. Later writers join
    /// it too, unless a collection with a greater number was heard of.
    fn add(&self, tenant: i32, id: i64, number: i32) -> Joined {
        let mut state = self.0.state.lock();
        let session = Session {
            tenant,
            writers: 1,
            idle_since: Instant::now(),
        };
        state.sessions.insert(id, session);
        let is_present = state
            .heard
            .get(&tenant)
            .is_none_or(|heard| number >= *heard);
        if is_present && let Some(earlier) = state.current.insert(tenant, id) {
            self.end(&mut state, earlier);
        }
        Joined {
            sessions: self.clone(),
            id,
        }
    }

    /// A collection of the tenant has opened: new writers need a new session.
    pub(crate) fn retire(&self, tenant: i32, number: i32) {
        let mut state = self.0.state.lock();
        state.heard.insert(tenant, number);
        state.has_unknown = true;
        if let Some(id) = state.current.remove(&tenant) {
            self.end(&mut state, id);
        }
    }

    /// Retires the sessions that had no writers for a while.
    pub(crate) fn retire_idle(&self) {
        let mut state = self.0.state.lock();
        let is_idle =
            |session: &Session| session.writers == 0 && session.idle_since.elapsed() >= KEPT;
        let idle: Vec<_> = state
            .sessions
            .iter()
            .filter(|(_, session)| is_idle(session))
            .map(|(id, session)| (*id, session.tenant))
            .collect();
        for (id, tenant) in idle {
            state.current.remove(&tenant);
            self.end(&mut state, id);
        }
    }

    fn end(&self, state: &mut State, id: i64) {
        if state.end_if_over(id) {
            self.0.ended.notify_one();
        }
    }

    /// The sessions that have ended. Their rows do not count.
    pub(crate) fn ended(&self) -> Vec<i64> {
        self.0.state.lock().ended.iter().copied().collect()
    }

    /// If there may be rows that this process does not know: all others. Returns
    /// `None` the next time.
    pub(crate) fn known(&self) -> Option<Vec<i64>> {
        let mut state = self.0.state.lock();
        if !std::mem::take(&mut state.has_unknown) {
            return None;
        }
        let known = state.sessions.keys().chain(&state.starting);
        Some(known.copied().collect())
    }

    /// There may be rows that this process does not know.
    pub(crate) fn suspect(&self) {
        self.0.state.lock().has_unknown = true;
    }

    /// Forgets sessions whose rows were deleted.
    pub(crate) fn forget(&self, deleted: &[i64]) {
        let mut state = self.0.state.lock();
        for id in deleted {
            state.ended.remove(id);
        }
    }

    /// Waits until a session ends.
    pub(crate) async fn wait_for_end(&self) {
        self.0.ended.notified().await;
    }
}

/// A session whose row is being added. Failed if it is dropped.
#[derive(Debug)]
pub(crate) struct Starting {
    sessions: Sessions,
    id: i64,
}

impl Starting {
    pub(crate) const fn id(&self) -> i64 {
        self.id
    }

    /// The row was added.
    pub(crate) fn begun(self, tenant: i32, number: i32) -> Joined {
        self.sessions.add(tenant, self.id, number)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let has_begun = {
            let mut state = self.sessions.0.state.lock();
            state.starting.remove(&self.id);
            state.sessions.contains_key(&self.id)
        };
        if !has_begun {
            self.sessions.suspect();
            self.sessions.0.ended.notify_one();
        }
    }
}

/// The place of a writer in a session, until dropped.
#[derive(Debug)]
pub(crate) struct Joined {
    sessions: Sessions,
    id: i64,
}

impl Drop for Joined {
    fn drop(&mut self) {
        let mut state = self.sessions.0.state.lock();
        if let Some(session) = state.sessions.get_mut(&self.id) {
            session.writers -= 1;
            session.idle_since = Instant::now();
        }
        self.sessions.end(&mut state, self.id);
    }
}
