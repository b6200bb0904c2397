//! Examines a database for an operator: its version, its standby and its
//! settings.

use elevo_postgres::host_name;
use sqlx::{PgConnection, Row};

use super::options::PostgresOptions;
use super::{failure, found};
use crate::error::{Error, Result};

/// The oldest version that the catalog is tested with.
const OLDEST: i32 = 15;

/// One result of examining a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresCheck {
    /// Name of the check.
    pub name: &'static str,
    /// Whether the database passed it.
    pub is_ok: bool,
    /// The finding; if the check failed, with advice.
    pub message: String,
}

const SELECT: &str = "SELECT \
     current_setting('server_version_num')::int / 10000 AS major, \
     split_part(current_setting('server_version'), ' ', 1) AS version, \
     current_setting('fsync') AS fsync, \
     current_setting('full_page_writes') AS full_page_writes, \
     current_setting('synchronous_commit') AS synchronous_commit, \
     current_setting('synchronous_standby_names') AS standby_names, \
     current_setting('max_connections')::int \
         - current_setting('superuser_reserved_connections')::int AS connections, \
     (SELECT count(*) FROM pg_stat_replication) AS standbys, \
     (SELECT count(*) FROM pg_stat_replication \
         WHERE sync_state IN ('sync', 'quorum')) AS synchronous, \
     pg_has_role(current_user, 'pg_monitor', 'USAGE') AS sees_standbys";

/// The settings of a database.
#[derive(sqlx::FromRow)]
struct Found {
    major: i32,
    version: String,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    standby_names: String,
    connections: i32,
    standbys: i64,
    synchronous: i64,
    sees_standbys: bool,
}

/// Examines the database of this URL without changing it. Fails if no host can
/// be written.
pub(super) async fn examine(url: &str, options: &PostgresOptions) -> Result<Vec<PostgresCheck>> {
    let mut found = options.find_writable(url).await?;
    let at = host_name(&found.host);
    look(&mut found.connection, &at, options.connections).await
}

async fn look(
    connection: &mut PgConnection,
    at: &str,
    connections: u32,
) -> Result<Vec<PostgresCheck>> {
    let select = sqlx::query(SELECT).fetch_one(&mut *connection).await;
    let found = select.and_then(|row| sqlx::FromRow::from_row(&row));
    let found: Found = found.map_err(failure::of)?;
    let encoding = sqlx::query("SHOW server_encoding").fetch_one(&mut *connection);
    let encoding = encoding.await.and_then(|row| row.try_get(0));
    let encoding: String = encoding.map_err(failure::of)?;
    Ok(vec![
        version(&found, at),
        text(&encoding),
        durability(&found),
        standby(&found),
        room(&found, connections),
        format(connection).await?,
    ])
}

fn check(name: &'static str, is_ok: bool, message: String) -> PostgresCheck {
    PostgresCheck {
        name,
        is_ok,
        message,
    }
}

fn version(found: &Found, at: &str) -> PostgresCheck {
    let Found { version, major, .. } = found;
    match *major >= OLDEST {
        true => check(
            "version",
            true,
            format!("PostgreSQL {version} at {at} can be written"),
        ),
        false => {
            let message = format!("PostgreSQL {version}; use version {OLDEST} or newer");
            check("version", false, message)
        }
    }
}

fn text(encoding: &str) -> PostgresCheck {
    match encoding {
        "UTF8" => check("encoding", true, "UTF8".to_owned()),
        other => {
            let message = format!("{other}; create the database with ENCODING 'UTF8'");
            check("encoding", false, message)
        }
    }
}

/// Checks the settings without which an acknowledged change can be lost.
fn durability(found: &Found) -> PostgresCheck {
    let settings = [
        ("fsync", &found.fsync),
        ("full_page_writes", &found.full_page_writes),
        ("synchronous_commit", &found.synchronous_commit),
    ];
    let is_safe = |value: &str| ["on", "remote_apply"].contains(&value);
    let unsafe_one = settings.iter().find(|(_, value)| !is_safe(value));
    match unsafe_one {
        None => check("durability", true, "a commit waits for the disk".to_owned()),
        Some((name, value)) => {
            let message = format!("{name} is {value}, so a crash can lose changes; set it to `on`");
            check("durability", false, message)
        }
    }
}

fn standby(found: &Found) -> PostgresCheck {
    let advice = "set synchronous_standby_names";
    let (is_ok, message) = match found {
        Found {
            standby_names,
            standbys: 0,
            ..
        } if standby_names.is_empty() => (
            false,
            format!("none: one disk holds every change; add a standby and {advice}"),
        ),
        Found { standby_names, .. } if standby_names.is_empty() => {
            (false, format!("no commit waits for the standby; {advice}"))
        }
        Found {
            sees_standbys: false,
            standby_names,
            ..
        } => (
            true,
            format!(
                "commits wait for {standby_names}; its state is visible to the role pg_monitor"
            ),
        ),
        Found { synchronous: 0, .. } => (
            false,
            "no synchronous standby is connected, so commits wait; start the standby".to_owned(),
        ),
        Found { synchronous, .. } => (true, format!("{synchronous} synchronous")),
    };
    check("standby", is_ok, message)
}

fn room(found: &Found, connections: u32) -> PostgresCheck {
    // Two connections of each server follow the events and the host.
    let needed = i64::from(connections) + 2;
    let allowed = i64::from(found.connections);
    let message = match needed <= allowed {
        true => format!("{needed} of {allowed} for this server"),
        false => format!(
            "the server needs {needed} and the database allows {allowed}; raise max_connections or \
             lower CATALOG_CONNECTIONS"
        ),
    };
    check("connections", needed <= allowed, message)
}

async fn format(connection: &mut PgConnection) -> Result<PostgresCheck> {
    let (is_ok, message) = match found::format(connection).await {
        Ok(None) => (true, "none yet; the first start creates it".to_owned()),
        Ok(Some(format)) => (true, format!("format {format}")),
        Err(Error::Newer { found, known }) => (
            false,
            format!("format {found}, and this version reads up to {known}; upgrade Elevo"),
        ),
        Err(error) => return Err(error),
    };
    Ok(check("catalog", is_ok, message))
}
