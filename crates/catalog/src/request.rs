//! Requests that may come twice and must be carried out once.

use elevo_core::{TenantId, Timestamp};

/// A request that its sender can repeat without it happening again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// Who asks.
    pub tenant: TenantId,
    /// What the sender calls this request.
    pub key: String,
    /// What is asked for.
    pub route: String,
    /// Hash of the request's content: the same key with another one, or on
    /// another route, is a mistake of the sender.
    pub fingerprint: [u8; 32],
    /// The present time.
    pub now: Timestamp,
    /// Until when its answer is kept.
    pub keep_until: Timestamp,
}

/// What is known of a request when it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Nothing: carry it out, then finish or abandon it.
    New,
    /// It was carried out; this was the answer.
    Done {
        /// Status of the answer.
        status: u16,
        /// Content of the answer.
        body: Vec<u8>,
    },
    /// It is being carried out.
    Running,
    /// Another request has that key.
    Mismatch,
}
