use std::time::Duration;

use super::hosts::Hosts;
use crate::error::Result;

/// Options for opening a catalog in PostgreSQL.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Maximum number of connections of this process for its calls. Two more
    /// follow the events and the host.
    pub connections: u32,
    /// Time after which a call that waits for a connection, or a statement that
    /// waits for a lock, fails with `Busy`.
    pub wait: Duration,
    /// Time after which a statement without an answer fails; whether it changed
    /// something is then unknown.
    pub statement: Duration,
    /// Interval between two checks that the host can be written.
    pub check: Duration,
    /// Another URL of the same database for notifications, which reach only a
    /// connection that stays with its client.
    pub direct: Option<String>,
    /// Whether the URL is that of a pooler in transaction mode. Such a pooler
    /// keeps no settings of a connection. It must keep prepared statements.
    pub is_pooled: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            connections: 16,
            wait: Duration::from_secs(10),
            statement: Duration::from_secs(60),
            check: Duration::from_secs(1),
            direct: None,
            is_pooled: false,
        }
    }
}

pub(super) fn read_hosts(url: &str, wait: Duration) -> Result<Hosts> {
    let wait = wait.as_millis().to_string();
    // One value for each would also be valid for a statement that only computes,
    // and none of ours does so for that long.
    let options = [
        ("lock_timeout", wait.as_str()),
        ("idle_in_transaction_session_timeout", wait.as_str()),
    ];
    Hosts::read(url, &options)
}
