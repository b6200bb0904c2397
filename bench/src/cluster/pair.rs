//! A primary and a synchronous standby that a measure may kill. They run as an ordinary user, in a
//! directory that is deleted with them.

use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use tokio::time::sleep;

/// Debian's directory of the version that `scripts/services` uses.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
/// Longest time for a start, and for a standby to catch up.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Settings of both servers. The last one is the pause before a standby connects to a primary that was
/// restarted; commits wait for it.
const SETTINGS: &str = "listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 100
shared_buffers = 64MB
synchronous_commit = on
wal_retrieve_retry_interval = 500ms
";

/// Both servers. They are stopped when this is dropped.
pub(super) struct Pair {
    servers: [Server; 2],
    /// The index of the primary.
    primary: usize,
    /// Deleted last.
    _directory: TempDir,
}

struct Server {
    directory: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Pair {
    /// Starts both servers, with their data in a new directory below `parent`.
    pub(super) async fn start(parent: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("elevo-bench-postgres-")
            .tempdir_in(parent)?;
        if let Some((user, group)) = user()? {
            chown(directory.path(), Some(user), Some(group))?;
        }
        let server = |name: &str| -> Result<Server> {
            Ok(Server {
                directory: directory.path().join(name),
                port: free_port()?,
                process: None,
            })
        };
        let mut pair = Self {
            servers: [server("one")?, server("other")?],
            primary: 0,
            _directory: directory,
        };
        let primary = &mut pair.servers[0];
        run(program("initdb")?
            .arg("--pgdata")
            .arg(&primary.directory)
            .args(["--username", "elevo", "--auth", "trust", "--no-sync"])
            .args(["--encoding", "UTF8", "--locale", "C"]))?;
        append(&primary.directory.join("postgresql.conf"), SETTINGS)?;
        primary.start().await?;
        pair.add_standby().await?;
        Ok(pair)
    }

    /// The index of the primary.
    pub(super) const fn primary(&self) -> usize {
        self.primary
    }

    /// The addresses of both servers.
    pub(super) fn addresses(&self) -> [SocketAddr; 2] {
        self.servers.each_ref().map(Server::address)
    }

    /// Kills the primary and starts it again.
    pub(super) async fn kill_and_restart(&mut self) -> Result<()> {
        let primary = &mut self.servers[self.primary];
        primary.kill()?;
        primary.start().await
    }

    /// Promotes the standby. The old primary goes on.
    pub(super) async fn promote(&mut self) -> Result<()> {
        self.primary = 1 - self.primary;
        let mut standby = self.servers[self.primary].connect().await?;
        // It has no standby now, for which its commits would wait.
        for statement in [
            "ALTER SYSTEM SET synchronous_standby_names = ''",
            "SELECT pg_reload_conf()",
        ] {
            execute(&mut standby, statement).await?;
        }
        let promoted = sqlx::query_scalar("SELECT pg_promote(true, 60)");
        let is_promoted: bool = promoted.fetch_one(&mut standby).await?;
        ensure!(is_promoted, "the standby was not promoted");
        Ok(standby.close().await?)
    }

    /// Makes the other server a new standby of the primary, and waits until it is synchronous.
    pub(super) async fn add_standby(&mut self) -> Result<()> {
        let port = self.servers[self.primary].port;
        let standby = &mut self.servers[1 - self.primary];
        standby.stop();
        if standby.directory.exists() {
            fs::remove_dir_all(&standby.directory)?;
        }
        run(program("pg_basebackup")?
            .args(["--host", "127.0.0.1", "--username", "elevo", "--port"])
            .arg(port.to_string())
            .arg("--pgdata")
            .arg(&standby.directory)
            .args([
                "--checkpoint",
                "fast",
                "--wal-method",
                "stream",
                "--no-sync",
            ]))?;
        let source = format!("host=127.0.0.1 port={port} user=elevo application_name=standby");
        let settings = format!("primary_conninfo = '{source}'\n");
        append(&standby.directory.join("postgresql.auto.conf"), &settings)?;
        File::create(standby.directory.join("standby.signal"))?;
        standby.start().await?;
        let mut primary = self.servers[self.primary].connect().await?;
        for statement in [
            "ALTER SYSTEM SET synchronous_standby_names = 'standby'",
            "SELECT pg_reload_conf()",
        ] {
            execute(&mut primary, statement).await?;
        }
        wait_for_sync(&mut primary).await?;
        Ok(primary.close().await?)
    }
}

async fn wait_for_sync(primary: &mut PgConnection) -> Result<()> {
    let began = Instant::now();
    let is_sync = "SELECT EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync')";
    while !sqlx::query_scalar::<_, bool>(is_sync)
        .fetch_one(&mut *primary)
        .await?
    {
        ensure!(began.elapsed() < PATIENCE, "the standby does not catch up");
        sleep(POLL).await;
    }
    Ok(())
}

async fn execute(connection: &mut PgConnection, statement: &str) -> Result<()> {
    let statement = AssertSqlSafe(statement.to_owned());
    sqlx::raw_sql(statement).execute(connection).await?;
    Ok(())
}

impl Server {
    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Starts the server, and waits until it answers.
    async fn start(&mut self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let process = match &mut self.process {
                Some(process) => process,
                None => self.process.insert(spawn(&self.directory, self.port)?),
            };
            // It ends at once while a process of a killed server uses its memory.
            if process.try_wait()?.is_some() {
                self.process = None;
            } else if let Ok(connection) = self.connect().await {
                return Ok(connection.close().await?);
            }
            sleep(POLL).await;
        }
        let log = fs::read_to_string(log_of(&self.directory)).unwrap_or_default();
        bail!("PostgreSQL does not start: {log}")
    }

    async fn connect(&self) -> Result<PgConnection> {
        let url = format!("postgres://elevo@{}/postgres", self.address());
        Ok(PgConnection::connect(&url).await?)
    }

    /// Kills the server. Its processes notice that, and end.
    fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Stops the server with all of its processes, without a checkpoint.
    fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = kill_process(Pid::from_child(&process), Signal::QUIT);
            let _ = process.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The log is beside the data, which a standby is deleted with.
fn log_of(directory: &Path) -> PathBuf {
    directory.with_extension("log")
}

fn spawn(directory: &Path, port: u16) -> Result<Child> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(log_of(directory))?;
    let mut command = program("postgres")?;
    command
        .arg("-D")
        .arg(directory)
        .args(["-p", &port.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    Ok(command.spawn()?)
}

/// A program of PostgreSQL, which does not run as root.
fn program(name: &str) -> Result<Command> {
    let path = Path::new(PROGRAMS).join(name);
    ensure!(
        path.is_file(),
        "{} is missing; install it (apt-get install postgresql-15)",
        path.display()
    );
    let mut command = Command::new(path);
    command.current_dir("/").env("LC_ALL", "C");
    if let Some((user, group)) = user()? {
        command.uid(user).gid(group);
    }
    Ok(command)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {complaint}");
    Ok(())
}

/// The ids of the user and the group of the servers, unless this process may run them itself.
fn user() -> Result<Option<(u32, u32)>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let id = |option| -> Result<u32> {
        let output = Command::new("id").args([option, "postgres"]).output()?;
        let text = String::from_utf8(output.stdout)?;
        let id = text.trim().parse();
        id.context("there is no user `postgres`; install postgresql-15")
    };
    Ok(Some((id("-u")?, id("-g")?)))
}

/// A file that another program has created keeps its owner.
fn append(path: &Path, text: &str) -> Result<()> {
    let mut file = File::options().append(true).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

/// A free port below the range of outgoing connections.
fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let port = rand::random_range(20_000..30_000);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free")
}
