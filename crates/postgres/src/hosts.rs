//! The hosts of a database: a primary and its standbys, of which one can be
//! written. `sqlx` knows one host for each pool.

use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection};
use tokio::time::timeout;

use crate::keeper::Lost;
use crate::pool::forgets_statements;

/// Maximum time for a host to report its role. A host that does not answer in
/// this time is not used.
const ANSWER: Duration = Duration::from_secs(2);

/// The timeline on which a host writes, and the moment of its start; NULL on a
/// standby, and on a primary that was set to read only. Each promotion begins a
/// timeline with a greater number, so of two hosts that can be written, the one
/// with the smaller number was replaced.
const WRITES_ON: &str = "SELECT CASE WHEN pg_is_in_recovery() \
         OR current_setting('transaction_read_only') = 'on' THEN NULL \
     ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END, \
     (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";

/// The hosts of the URL of a database.
#[derive(Clone, Debug)]
pub struct Hosts(Vec<PgConnectOptions>);

/// A period during which a host keeps its connections: it is on one timeline,
/// and was not restarted. Later periods are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period {
    timeline: i64,
    started: i64,
}

/// A host that can be written, and a connection to it.
pub struct Writable {
    /// The host.
    pub host: PgConnectOptions,
    /// The period at the time of the choice.
    pub period: Period,
    /// The connection.
    pub connection: PgConnection,
}

/// The URL of a database is not valid. Names no part of it, since it can have a
/// password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the URL does not have the form postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?OPTIONS"
)]
pub struct InvalidUrl;

/// No host can be written. Has the cause for each.
#[derive(Debug, thiserror::Error)]
pub struct NoneWritable(Vec<String>);

impl fmt::Display for NoneWritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no host of the database can be written: {}",
            self.0.join("; ")
        )
    }
}

impl Hosts {
    /// Reads a URL with one host or several:
    /// `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?OPTIONS`. A
    /// statement that waits for a lock, and a transaction that waits for its
    /// client, end after `wait`.
    pub fn read(url: &str, wait: Duration) -> Result<Self, InvalidUrl> {
        let wait = wait.as_millis().to_string();
        // One value for each would also be valid for a statement that only
        // computes, and none of ours does so for that long.
        let settings = [
            ("lock_timeout", wait.as_str()),
            ("idle_in_transaction_session_timeout", wait.as_str()),
        ];
        let Self(hosts) = Self::read_plain(url)?;
        let with = |host: PgConnectOptions| host.options(settings);
        Ok(Self(hosts.into_iter().map(with).collect()))
    }

    fn read_plain(url: &str) -> Result<Self, InvalidUrl> {
        let read = |url: &String| {
            let read = url.parse::<PgConnectOptions>().map_err(|_| InvalidUrl)?;
            Ok(read.application_name("elevo").disable_statement_logging())
        };
        let hosts: Result<_, _> = urls(url)?.iter().map(read).collect();
        hosts.map(Self)
    }

    /// Reads a URL of a pooler in transaction mode, which rejects the settings of
    /// a connection, even an empty list.
    pub fn read_pooled(url: &str) -> Result<Self, InvalidUrl> {
        let Self(hosts) = Self::read_plain(url)?;
        let plain = |host: PgConnectOptions| host.extra_float_digits(None);
        Ok(Self(hosts.into_iter().map(plain).collect()))
    }

    /// Connects to the host that can be written.
    pub async fn writable(&self) -> Result<Writable, NoneWritable> {
        let looks = join_all(self.0.iter().map(look)).await;
        let (mut best, mut causes) = (None, Vec::new());
        for (host, look) in self.0.iter().zip(looks) {
            match look {
                Ok((connection, Some(period))) => {
                    let is_newer = |best: &Writable| period.timeline > best.period.timeline;
                    if best.as_ref().is_none_or(is_newer) {
                        best = Some(Writable {
                            host: host.clone(),
                            period,
                            connection,
                        });
                    }
                }
                Ok((_, None)) => causes.push(format!("{} is read-only", host_name(host))),
                Err(cause) => causes.push(format!("{}: {cause}", host_name(host))),
            }
        }
        best.ok_or(NoneWritable(causes))
    }
}

/// Connects to a host and reads its period.
async fn look(host: &PgConnectOptions) -> Result<(PgConnection, Option<Period>), String> {
    let looking = async {
        let mut connection = host.connect().await?;
        let period = period(&mut connection).await?;
        Ok((connection, period))
    };
    match timeout(ANSWER, looking).await {
        Ok(looked) => looked.map_err(|error: sqlx::Error| match forgets_statements(&error) {
            Some(advice) => advice.to_owned(),
            None => error.to_string(),
        }),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

/// Reads the period of the host of a connection; `None` if the host cannot be
/// written.
async fn period(connection: &mut PgConnection) -> sqlx::Result<Option<Period>> {
    let period = sqlx::query_as(WRITES_ON).fetch_one(connection);
    let (timeline, started): (Option<i64>, i64) = period.await?;
    Ok(timeline.map(|timeline| Period { timeline, started }))
}

/// Fails unless the host of a connection can still be written.
pub(crate) async fn check_writable(connection: &mut PgConnection) -> Result<(), Lost> {
    period(connection).await?.map(drop).ok_or(Lost::ReadOnly)
}

/// Returns the address of a host for messages.
pub fn host_name(host: &PgConnectOptions) -> String {
    match host.get_socket() {
        Some(directory) => directory.display().to_string(),
        None => format!("{}:{}", host.get_host(), host.get_port()),
    }
}

/// Returns a URL for each host of a URL.
fn urls(url: &str) -> Result<Vec<String>, InvalidUrl> {
    let (scheme, rest) = url.split_once("://").ok_or(InvalidUrl)?;
    if !["postgres", "postgresql"].contains(&scheme) {
        return Err(InvalidUrl);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let each = hosts.split(',');
    Ok(each
        .map(|host| format!("{scheme}://{user}{host}{path}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_several_hosts_is_one_url_for_each() {
        let both = urls("postgres://a:b%40c@one:1,[::1]:2/db?sslmode=require").unwrap();
        let expected = [
            "postgres://a:b%40c@one:1/db?sslmode=require",
            "postgres://a:b%40c@[::1]:2/db?sslmode=require",
        ];
        assert_eq!(both, expected);
        assert_eq!(urls("postgresql://one").unwrap(), ["postgresql://one"]);
        assert_eq!(
            urls("postgres:///db?host=/run").unwrap(),
            ["postgres:///db?host=/run"]
        );
    }

    #[test]
    fn an_invalid_url_is_refused() {
        for url in ["one", "mysql://one/db", "postgres://u:secret@one:x/db"] {
            let refused = Hosts::read(url, Duration::ZERO).unwrap_err();
            assert_eq!(refused, InvalidUrl);
        }
    }
}
