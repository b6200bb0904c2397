//! A PostgreSQL server of a single test, which archives its log, for tests of
//! backups and restores.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, thread};

use tempfile::TempDir;

use crate::postgres::query_at;
use crate::wait;

/// A server with the programs that `scripts/services` uses. Dropping it stops it
/// and deletes everything.
#[derive(Debug)]
pub struct Server {
    directory: TempDir,
    /// Directory of the data on which the server runs.
    data: PathBuf,
    port: u16,
}

impl Server {
    /// Creates a server and starts it.
    pub fn start() -> Self {
        let prefix = "elevo-postgres-";
        let directory = tempfile::Builder::new().prefix(prefix).tempdir();
        let directory = directory.expect("a directory can be created");
        let server = Self {
            data: directory.path().join("data"),
            directory,
            port: free_port(),
        };
        if is_root() {
            // PostgreSQL does not run as root.
            let owned = run("chown", &["postgres:", text(server.directory.path())]);
            owned.unwrap_or_else(|error| panic!("{error}"));
        }
        let data = text(&server.data);
        server.run(
            "initdb",
            &[
                "--pgdata",
                data,
                "--username",
                "elevo",
                "--auth",
                "trust",
                "--no-sync",
            ],
        );
        let archive = server.archive();
        let archive = text(&archive);
        server.run("mkdir", &[archive]);
        server.set(&[
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", ""),
            // The machine is not turned off during a test.
            ("fsync", "off"),
            ("shared_buffers", "32MB"),
            ("max_locks_per_transaction", "256"),
            ("archive_mode", "on"),
            // A file gets its name when it is complete.
            (
                "archive_command",
                &format!("cp %p {archive}/new && mv {archive}/new {archive}/%f"),
            ),
            ("log_min_messages", "fatal"),
        ]);
        server.start_data();
        server
    }

    fn archive(&self) -> PathBuf {
        self.directory.path().join("archive")
    }

    /// The address of the database `postgres`.
    pub fn url(&self) -> String {
        format!("postgres://elevo@127.0.0.1:{}/postgres", self.port)
    }

    /// Makes a base backup, and returns its directory.
    pub fn back_up(&self) -> PathBuf {
        let backup = self.directory.path().join("backup");
        let (port, to) = (self.port.to_string(), text(&backup));
        let at = [
            "--host",
            "127.0.0.1",
            "--port",
            &port,
            "--username",
            "elevo",
        ];
        let how = ["--pgdata", to, "--checkpoint", "fast", "--no-sync"];
        self.run("pg_basebackup", &[&at[..], &how[..]].concat());
        backup
    }

    /// Gives this moment a name.
    pub fn name_moment(&self, name: &str) {
        let statement = format!("SELECT pg_create_restore_point('{name}')::text");
        query_at(&self.url(), &statement);
    }

    /// Stops the server as a crash would, after its log was archived. Starts a
    /// server on the backup at the same address, recovered to a moment.
    pub fn restore(&mut self, backup: PathBuf, moment: &str) {
        let last = query_at(&self.url(), "SELECT pg_walfile_name(pg_switch_wal())");
        let archived = self.archive().join(last);
        wait::until("the log is archived", || archived.exists().then_some(()));
        self.stop().unwrap_or_else(|error| panic!("{error}"));
        self.data = backup;
        let command = format!("cp {}/%f %p", text(&self.archive()));
        self.set(&[
            ("restore_command", &command),
            ("recovery_target_name", moment),
            ("recovery_target_action", "promote"),
        ]);
        self.run("touch", &[text(&self.data.join("recovery.signal"))]);
        self.start_data();
        wait::until("the server can be written", || {
            let state = query_at(&self.url(), "SELECT pg_is_in_recovery()::text");
            (state == "false").then_some(())
        });
    }

    fn set(&self, settings: &[(&str, &str)]) {
        let path = self.data.join("postgresql.conf");
        let file = OpenOptions::new().append(true).open(path);
        let mut file = file.expect("the settings can be written");
        for (name, value) in settings {
            writeln!(file, "{name} = '{value}'").expect("the settings can be written");
        }
    }

    fn start_data(&self) {
        let options = format!("-p {}", self.port);
        let log = self.directory.path().join("log");
        let words = ["--options", &options, "--log", text(&log), "start"];
        self.control(&words).unwrap_or_else(|error| {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            panic!("{error}{log}")
        });
    }

    fn stop(&self) -> Result<(), String> {
        self.control(&["--mode", "immediate", "stop"])
    }

    fn control(&self, arguments: &[&str]) -> Result<(), String> {
        let on = ["--pgdata", text(&self.data), "--silent", "--wait"];
        self.try_run("pg_ctl", &[&on[..], arguments].concat())
    }

    /// Runs a program as the user of the server.
    fn run(&self, program: &str, arguments: &[&str]) {
        let done = self.try_run(program, arguments);
        done.unwrap_or_else(|error| panic!("{error}"));
    }

    #[allow(clippy::unused_self, reason = "it is the server's user")]
    fn try_run(&self, program: &str, arguments: &[&str]) -> Result<(), String> {
        let installed = programs().join(program);
        let program = match installed.exists() {
            true => text(&installed),
            false => program,
        };
        match is_root() {
            true => {
                let as_user = ["--user", "postgres", "--", program];
                run("runuser", &[&as_user[..], arguments].concat())
            }
            false => run(program, arguments),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let stopped = self.stop();
        // A second panic would hide the first one.
        if !thread::panicking() {
            stopped.unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    // Its user may not enter the directory of the test.
    let mut command = Command::new(program);
    let done = command.args(arguments).current_dir("/").output();
    let done = done.map_err(|error| format!("{program} cannot be started: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&done.stderr);
    Err(format!("{program} {arguments:?}: {words}"))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The directory of PostgreSQL's programs.
fn programs() -> PathBuf {
    let directory = env::var_os("ELEVO_POSTGRES_BIN");
    directory.map_or_else(
        || {
            panic!(
                "ELEVO_POSTGRES_BIN is not set: this test starts a PostgreSQL server. Run\n    \
                 scripts/services up postgres && eval \"$(scripts/services env postgres)\""
            )
        },
        PathBuf::from,
    )
}

/// A port below the range of outgoing connections.
fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut random = std::iter::repeat_with(|| 20_000 + rand::random::<u16>() % 10_000);
    random.find(is_free).expect("a port is free")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}
