//! Requests that a client may send twice and that must be carried out once.
//!
//! ```text
//!              begin                       finish
//! (no row) ──────────► running, by a process ─────► finished
//!     ▲                  │      ▲
//!     │ abandon          │      │ begin: again
//!     └──────────────────┤      │
//!                release ▼      │
//!                       released
//! ```
//!
//! The requests of a process that crashes stay running, until
//! [`release_of`](crate::Requests::release_of) or
//! [`release_all_but`](crate::Requests::release_all_but) releases them.

use elevo_core::{TenantId, Timestamp};

/// One server process carrying out one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRun {
    /// The tenant of the sender.
    pub tenant: TenantId,
    /// Hash of the sender's API key, the route and the `Idempotency-Key`.
    pub name: [u8; 32],
    /// The server process: a text that no other session of a server has.
    pub process: String,
}

/// A request that is carried out once, even if its sender repeats it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// The request, and the process that is about to carry it out.
    pub run: RequestRun,
    /// Hash of the request's content. Another content under the same name is an
    /// error of the sender.
    pub fingerprint: [u8; 32],
    /// A unique id for the request, used if it is new.
    pub id: String,
    /// The current time.
    pub now: Timestamp,
    /// The time until which the request is remembered.
    pub keep_until: Timestamp,
}

/// The outcome of [`begin`](crate::Requests::begin).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The request is not known: carry it out, then finish, release or abandon
    /// it.
    New,
    /// The request was begun before and not finished, and no process runs it:
    /// look for the resource that it created, then continue as with a new
    /// one.
    Again {
        /// The id that the request was begun with.
        id: String,
        /// The text of the last [`note_made`](crate::Requests::note_made).
        made: Option<String>,
    },
    /// The request was finished.
    Done {
        /// The id that the request was begun with.
        id: String,
        /// The text of the last [`note_made`](crate::Requests::note_made).
        made: Option<String>,
        /// Status of the response.
        status: u16,
        /// Body of the response, if it was stored.
        body: Option<Vec<u8>>,
    },
    /// Another process runs the request.
    Running,
    /// The request with that name had another content.
    Mismatch,
}
