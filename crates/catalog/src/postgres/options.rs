use std::time::Duration;

use elevo_postgres::{Hosts, InvalidUrl, Limits, NoneWritable, Writable};

use crate::error::{Error, Result};

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

impl PostgresOptions {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            connections: self.connections,
            wait: self.wait,
            statement: self.statement,
        }
    }

    /// Reads the URL of a database without a pooler.
    pub(super) fn read_hosts(&self, url: &str) -> Result<Hosts> {
        Hosts::read(url, self.wait).map_err(invalid)
    }

    /// Finds the host that can be written, without a pooler in front of it.
    pub(super) async fn find_writable(&self, url: &str) -> Result<Writable> {
        let hosts = self.read_hosts(self.direct.as_deref().unwrap_or(url))?;
        hosts.writable().await.map_err(none_writable)
    }
}

pub(super) fn check_url(url: &str) -> Result<()> {
    Hosts::read_pooled(url).map(drop).map_err(invalid)
}

pub(super) fn invalid(error: InvalidUrl) -> Error {
    Error::Refused(format!("the URL of the catalog is not valid: {error}"))
}

pub(super) fn none_writable(error: NoneWritable) -> Error {
    Error::Failed(Box::new(error))
}
