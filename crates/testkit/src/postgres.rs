//! The PostgreSQL servers that `scripts/services` starts for tests, and
//! databases for single tests.

use std::net::SocketAddr;
use std::{env, thread};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tokio::runtime::Builder;

use crate::wire::{Upstream, Wire};

/// Returns the address of the primary:
/// `postgres://USER@127.0.0.1:PORT/DATABASE`. Its user can create databases.
pub fn url() -> String {
    setting("ELEVO_POSTGRES")
}

/// Returns the address of the synchronous standby.
pub fn standby_url() -> String {
    setting("ELEVO_POSTGRES_STANDBY")
}

/// Returns the address of the pooler in front of the primary, in transaction
/// mode, which keeps prepared statements.
pub fn pooler_url() -> String {
    setting("ELEVO_POSTGRES_POOLER")
}

/// Returns the address of a pooler that does not keep prepared statements.
pub fn old_pooler_url() -> String {
    setting("ELEVO_POSTGRES_OLD_POOLER")
}

fn setting(name: &str) -> String {
    let value = env::var(name).unwrap_or_default();
    assert!(
        !value.is_empty(),
        "{name} is not set: this test needs a separate PostgreSQL server. Run\n    \
         scripts/services up postgres && eval \"$(scripts/services env postgres)\""
    );
    value
}

/// An empty database on the primary. Dropping it ends its connections and
/// deletes it.
#[derive(Debug)]
pub struct Database {
    server: PgConnectOptions,
    name: String,
}

impl Database {
    /// Creates a database.
    pub fn create() -> Self {
        let server: PgConnectOptions = url().parse().expect("ELEVO_POSTGRES is an address");
        let name = format!("test_{:016x}", rand::random::<u64>());
        // Unlike `template1`, nothing can be connected to this template, which
        // would make the statement fail.
        execute(
            &server,
            format!("CREATE DATABASE {name} TEMPLATE template0"),
        )
        .unwrap_or_else(|error| panic!("no database can be created: {error}"));
        Self { server, name }
    }

    /// The name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Executes a statement on the server of the database. `{}` in the statement
    /// stands for the name of the database.
    pub fn execute(&self, statement: &str) {
        let statement = statement.replace("{}", &self.name);
        execute(&self.server, statement).expect("the statement can be executed");
    }

    /// Executes a statement in the database.
    pub fn execute_inside(&self, statement: &str) {
        let server = self.server.clone().database(&self.name);
        execute(&server, statement.to_owned()).expect("the statement can be executed");
    }

    /// Returns the only value of a statement, as text, from the server of the
    /// database.
    pub fn query(&self, statement: &str) -> String {
        let (server, statement) = (self.server.clone(), statement.to_owned());
        let work = async move {
            let mut connection = PgConnection::connect_with(&server).await?;
            let query = sqlx::query_scalar(AssertSqlSafe(statement));
            let value: String = query.fetch_one(&mut connection).await?;
            connection.close().await?;
            Ok(value)
        };
        in_a_thread(work).expect("the statement returns a value")
    }

    /// Returns the address of the database.
    pub fn url(&self) -> String {
        text(self.server.clone().database(&self.name))
    }

    /// Returns the address of the database through a proxy.
    pub fn url_through(&self, wire: &Wire) -> String {
        let (host, port) = (wire.address().ip().to_string(), wire.address().port());
        assert!(
            self.server.get_socket().is_none(),
            "ELEVO_POSTGRES needs a TCP address"
        );
        let server = self.server.clone().host(&host).port(port);
        text(server.database(&self.name))
    }

    /// Returns the address of the database through a pooler.
    pub fn url_through_pooler(&self, pooler: &str) -> String {
        let pooler: PgConnectOptions = pooler.parse().expect("an address of PostgreSQL");
        text(pooler.database(&self.name))
    }

    /// Starts a proxy for the server of the database.
    pub fn wire(&self) -> Wire {
        Wire::postgres(upstream(&self.url()))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let dropped = execute(
            &self.server,
            format!("DROP DATABASE {} WITH (FORCE)", self.name),
        );
        if !thread::panicking() {
            dropped.expect("the database can be deleted");
        }
    }
}

/// Returns the server of an address, for example for a proxy of the standby.
pub fn upstream(url: &str) -> Upstream {
    let server: PgConnectOptions = url.parse().expect("an address of PostgreSQL");
    if let Some(directory) = server.get_socket() {
        let name = format!(".s.PGSQL.{}", server.get_port());
        return Upstream::Unix(directory.join(name));
    }
    let host = server.get_host().parse().expect("an IP address");
    Upstream::Tcp(SocketAddr::new(host, server.get_port()))
}

fn text(server: PgConnectOptions) -> String {
    server.to_url_lossy().to_string()
}

fn execute(server: &PgConnectOptions, statement: String) -> Result<(), sqlx::Error> {
    let work = async {
        let mut connection = PgConnection::connect_with(server).await?;
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut connection)
            .await?;
        connection.close().await
    };
    in_a_thread(work)
}

/// Runs `work`. Tests with and without a runtime call this, so it has a thread
/// with another runtime.
fn in_a_thread<T: Send>(
    work: impl Future<Output = Result<T, sqlx::Error>> + Send,
) -> Result<T, sqlx::Error> {
    let run = || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(work)
    };
    thread::scope(|scope| scope.spawn(run).join().expect("the statement ends"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_an_address_is_found() {
        let tcp = upstream("postgres://elevo@127.0.0.1:5433/postgres");
        assert_eq!(tcp, Upstream::Tcp(([127, 0, 0, 1], 5433).into()));

        let socket = upstream("postgres://elevo@localhost:5433/postgres?host=/run/postgresql");
        let path = "/run/postgresql/.s.PGSQL.5433";
        assert_eq!(socket, Upstream::Unix(path.into()));
    }
}
