//! The PostgreSQL servers that `scripts/services` starts for tests, and
//! databases for single tests.

use std::net::SocketAddr;
use std::{env, thread};

use sha2::{Digest, Sha256};
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use tokio::runtime::Builder;

use crate::wire::{Upstream, Wire};

/// The code of PostgreSQL for a database that does not exist.
const NO_SUCH_DATABASE: &str = "3D000";

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

/// A database of a test. Dropping it ends its connections and deletes it.
#[derive(Debug)]
pub struct Database {
    server: PgConnectOptions,
    name: String,
}

impl Database {
    /// Creates an empty database on the primary.
    pub fn create() -> Self {
        // Unlike `template1`, nothing can be connected to this template, which
        // would make the statement fail.
        let created = Self::copy(&url(), "template0");
        created.unwrap_or_else(|error| panic!("no database can be created: {error}"))
    }

    /// Creates a database on the primary with the schema of these migrations: a
    /// copy of a template, which the first caller creates. Its name contains a hash
    /// of the migrations.
    pub fn migrated(migrations: &Migrator) -> Self {
        let (url, template) = (url(), template_of(migrations));
        let copied = match Self::copy(&url, &template) {
            Err(error) if is(&error, NO_SUCH_DATABASE) => {
                make_template(&url, &template, migrations);
                Self::copy(&url, &template)
            }
            copied => copied,
        };
        copied.unwrap_or_else(|error| panic!("no database can be created: {error}"))
    }

    fn copy(url: &str, template: &str) -> Result<Self, sqlx::Error> {
        let server: PgConnectOptions = url.parse().expect("an address of PostgreSQL");
        let name = format!("test_{:016x}", rand::random::<u64>());
        let statement = format!("CREATE DATABASE {name} TEMPLATE {template}");
        execute(&server, statement)?;
        Ok(Self { server, name })
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
        query(&self.server, statement)
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

/// The name of the template with the schema of these migrations.
fn template_of(migrations: &Migrator) -> String {
    let mut hash = Sha256::new();
    hash.update(migrations.table_name.as_bytes());
    for migration in migrations.iter() {
        hash.update(migration.version.to_le_bytes());
        hash.update(&migration.checksum);
    }
    let hash: String = hash.finalize()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("template_{hash}")
}

/// Creates a template, unless another process has just done so. It gets its name
/// when it is complete, so that one of a process that was killed is never copied.
fn make_template(url: &str, name: &str, migrations: &Migrator) {
    let server: PgConnectOptions = url.parse().expect("an address of PostgreSQL");
    let making = format!("{name}_making");
    let work = async || {
        let mut connection = PgConnection::connect_with(&server).await?;
        // Until the connection ends.
        sqlx::query("SELECT pg_advisory_lock(hashtextextended($1, 0))")
            .bind(name)
            .execute(&mut connection)
            .await?;
        let exists: bool =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
                .bind(name)
                .fetch_one(&mut connection)
                .await?;
        if !exists {
            let begin = [
                format!("DROP DATABASE IF EXISTS {making} WITH (FORCE)"),
                format!("CREATE DATABASE {making} TEMPLATE template0"),
            ];
            for statement in begin {
                connection.execute(AssertSqlSafe(statement)).await?;
            }
            let mut inside = PgConnection::connect_with(&server.clone().database(&making)).await?;
            migrations.run(&mut inside).await?;
            inside.close().await?;
            // Waits until the connection has ended. Nothing may be connected to a
            // database that is copied.
            let end = [
                format!("ALTER DATABASE {making} ALLOW_CONNECTIONS false"),
                format!("ALTER DATABASE {making} RENAME TO {name}"),
            ];
            for statement in end {
                connection.execute(AssertSqlSafe(statement)).await?;
            }
        }
        connection.close().await
    };
    in_a_thread(work).unwrap_or_else(|error| panic!("no template can be created: {error}"));
}

fn is(error: &sqlx::Error, code: &str) -> bool {
    let error = error.as_database_error();
    error.and_then(|error| error.code()).as_deref() == Some(code)
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
    let work = async || {
        let mut connection = PgConnection::connect_with(server).await?;
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut connection)
            .await?;
        connection.close().await
    };
    in_a_thread(work)
}

fn query(server: &PgConnectOptions, statement: &str) -> String {
    let work = async || {
        let mut connection = PgConnection::connect_with(server).await?;
        let query = sqlx::query_scalar(AssertSqlSafe(statement.to_owned()));
        let value: String = query.fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(value)
    };
    in_a_thread(work).expect("the statement returns a value")
}

/// Returns the only value of a statement, as text.
pub fn query_at(url: &str, statement: &str) -> String {
    query(&url.parse().expect("an address of PostgreSQL"), statement)
}

/// Runs `work`. Tests with and without a runtime call this, so it has a thread
/// with another runtime.
fn in_a_thread<T: Send>(
    work: impl AsyncFnOnce() -> Result<T, sqlx::Error> + Send,
) -> Result<T, sqlx::Error> {
    let run = || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(work())
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
