//! The hosts of a database: a primary and its standbys, of which one can be
//! written. `sqlx` knows one host for each pool.

use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection};
use tokio::time::timeout;

use super::failure;
use crate::error::{Error, Result};

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
pub(super) struct Hosts(Vec<PgConnectOptions>);

/// A period during which a host keeps its connections: it is on one timeline,
/// and was not restarted. Later periods are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Period {
    timeline: i64,
    started: i64,
}

/// A host that can be written, and a connection to it.
pub(super) struct Writable {
    pub(super) host: PgConnectOptions,
    pub(super) period: Period,
    pub(super) connection: PgConnection,
}

/// No host can be written. Has the cause for each.
#[derive(Debug, thiserror::Error)]
pub(super) struct NoneWritable(Vec<String>);

impl fmt::Display for NoneWritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no host of the catalog's database can be written: {}",
            self.0.join("; ")
        )
    }
}

impl Hosts {
    /// Reads a URL with one host or several:
    /// `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?OPTIONS`.
    pub(super) fn read(url: &str, options: &[(&str, &str)]) -> Result<Self> {
        let read = |url: &str| {
            let read = url.parse::<PgConnectOptions>();
            // The text of the error names no part of the URL, which can have a
            // password.
            let read = read.map_err(|_| invalid())?;
            let read = read.application_name("elevo").disable_statement_logging();
            // A pooler rejects even an empty list.
            Ok(match options {
                [] => read,
                _ => read.options(options.iter().copied()),
            })
        };
        let hosts: Result<_> = urls(url)?.iter().map(|url| read(url)).collect();
        hosts.map(Self)
    }

    /// Reads a URL of a pooler in transaction mode, which rejects the options of
    /// a connection.
    pub(super) fn read_pooled(url: &str) -> Result<Self> {
        let Self(hosts) = Self::read(url, &[])?;
        let plain = |host: PgConnectOptions| host.extra_float_digits(None);
        Ok(Self(hosts.into_iter().map(plain).collect()))
    }

    /// Connects to the host that can be written.
    pub(super) async fn writable(&self) -> Result<Writable> {
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
                Ok((_, None)) => causes.push(format!("{} is read-only", name(host))),
                Err(cause) => causes.push(format!("{}: {cause}", name(host))),
            }
        }
        best.ok_or_else(|| Error::Failed(Box::new(NoneWritable(causes))))
    }
}

/// Connects to a host and reads its period.
async fn look(
    host: &PgConnectOptions,
) -> std::result::Result<(PgConnection, Option<Period>), String> {
    let looking = async {
        let mut connection = host.connect().await?;
        let period = period(&mut connection).await?;
        Ok((connection, period))
    };
    match timeout(ANSWER, looking).await {
        Ok(looked) => looked.map_err(|error: sqlx::Error| match failure::of(error) {
            Error::Failed(cause) => cause.to_string(),
            other => other.to_string(),
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
pub(super) async fn check_writable(connection: &mut PgConnection) -> Result<()> {
    let period = period(connection).await.map_err(failure::of)?;
    period.map(drop).ok_or(Error::Busy)
}

/// Returns the address of a host for messages.
pub(super) fn name(host: &PgConnectOptions) -> String {
    match host.get_socket() {
        Some(directory) => directory.display().to_string(),
        None => format!("{}:{}", host.get_host(), host.get_port()),
    }
}

/// Returns a URL for each host of a URL.
fn urls(url: &str) -> Result<Vec<String>> {
    let (scheme, rest) = url.split_once("://").ok_or_else(invalid)?;
    if !["postgres", "postgresql"].contains(&scheme) {
        return Err(invalid());
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

fn invalid() -> Error {
    let form = "postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?OPTIONS";
    Error::Refused(format!(
        "the URL of the catalog does not have the form {form}"
    ))
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
    fn an_invalid_url_is_refused_without_its_password() {
        for url in ["one", "mysql://one/db", "postgres://u:secret@one:x/db"] {
            let refused = Hosts::read(url, &[]).unwrap_err().to_string();
            assert!(refused.contains("does not have the form"), "{refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
