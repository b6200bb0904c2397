//! Requests that may come twice and must be carried out once.
//!
//! ```text
//!              begin                       finish
//! (no row) ──────────► at work, by a process ─────► answered
//!     ▲                  │      ▲
//!     │ abandon          │      │ begin: again
//!     └──────────────────┤      │
//!                release ▼      │
//!                       left unfinished
//! ```
//!
//! A process that dies leaves its requests at work;
//! [`release_all_but`](crate::Catalog::release_all_but) then says that it did.

use elevo_core::{TenantId, Timestamp};

/// One server process carrying out one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRun {
    /// The tenant of the sender.
    pub tenant: TenantId,
    /// Hash of the sender's API key, the route and the `Idempotency-Key`.
    pub name: [u8; 32],
    /// The server process.
    pub process: String,
}

/// A request that its sender can repeat without it happening again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// The request, and the process that is about to carry it out.
    pub run: RequestRun,
    /// Hash of the request's content. Another content under the same name is a
    /// mistake of the sender.
    pub fingerprint: [u8; 32],
    /// An id that no other request has, for a request that is new.
    pub id: String,
    /// The present time.
    pub now: Timestamp,
    /// The time until which the request is remembered.
    pub keep_until: Timestamp,
}

/// The outcome of [`begin`](crate::Catalog::begin).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The request is not known: carry it out, then finish, release or abandon
    /// it.
    New,
    /// The request was begun before and not finished, and no process is at work
    /// on it: look for what it has made, then go on as with a new one.
    Again {
        /// The id that the request was begun with.
        id: String,
        /// The text of the last [`note_made`](crate::Catalog::note_made).
        made: Option<String>,
    },
    /// The request was answered.
    Done {
        /// The id that the request was begun with.
        id: String,
        /// The text of the last [`note_made`](crate::Catalog::note_made).
        made: Option<String>,
        /// Status of the answer.
        status: u16,
        /// Content of the answer, if it was kept.
        body: Option<Vec<u8>>,
    },
    /// Another process is carrying the request out.
    Running,
    /// The request of that name had another content.
    Mismatch,
}
