//! A PostgreSQL server of one test, apart from those of `scripts/services`.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use elevo_testkit::postgres;
use elevo_testkit::wait::until;
use rustix::process::{Pid, Signal, kill_process};

const BIN: &str = "/usr/lib/postgresql/15/bin";

/// A server in a separate directory, which is deleted with this value.
pub(crate) struct PostgresServer {
    directory: tempfile::TempDir,
    running: Option<Child>,
}

impl PostgresServer {
    /// Creates a server without databases of tests.
    pub(crate) fn empty() -> Self {
        let server = Self::new();
        let data = server.data();
        let places = ["--pgdata", data.to_str().unwrap()];
        let ways = [
            "--username",
            "elevo",
            "--auth",
            "trust",
            "--encoding",
            "UTF8",
        ];
        run(
            "initdb",
            &[places.as_slice(), &ways, &["--no-sync"]].concat(),
        );
        server
    }

    /// Copies the primary of `scripts/services`, with all databases.
    pub(crate) fn copy_of_the_primary() -> Self {
        let server = Self::new();
        let (url, data) = (postgres::url(), server.data());
        let places = ["--dbname", &url, "--pgdata", data.to_str().unwrap()];
        let ways = [
            "--checkpoint",
            "fast",
            "--wal-method",
            "stream",
            "--no-sync",
        ];
        run("pg_basebackup", &[places.as_slice(), &ways].concat());
        server
    }

    fn new() -> Self {
        let mut directory = tempfile::Builder::new();
        // The user of the server may not enter a directory of root.
        let directory = directory.prefix("elevo-postgres-").tempdir_in("/var/tmp");
        let server = Self {
            directory: directory.unwrap(),
            running: None,
        };
        give_away(server.directory.path());
        server
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Returns an address on loopback that no other process uses: no two tests
    /// run in one process.
    pub(crate) fn address(&self) -> Ipv4Addr {
        let [_, high, middle, low] = std::process::id().to_be_bytes();
        Ipv4Addr::new(127, 64 + (high & 63), middle, low)
    }

    /// Returns the URL of a database on this server.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://elevo@{}:5432/{database}", self.address())
    }

    /// Writes a file into the directory of the server.
    pub(crate) fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.data().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        give_away(&path);
        path
    }

    /// Starts the server with settings, and waits until it can be written.
    pub(crate) fn start(&mut self, settings: &str) {
        let own = format!(
            "port = 5432\nlisten_addresses = '{}'\nunix_socket_directories = ''\n\
             synchronous_standby_names = ''\nshared_buffers = 32MB\n{settings}",
            self.address()
        );
        self.put("postgresql.auto.conf", &own);
        let mut server = as_postgres("postgres");
        server.arg("-D").arg(self.data()).stderr(Stdio::null());
        self.running = Some(server.spawn().unwrap());
        let url = self.url("postgres");
        until("the database can be written", || {
            let asked = Command::new(Path::new(BIN).join("psql"))
                .args(["--no-psqlrc", "-tAc", "SELECT pg_is_in_recovery()", &url])
                .output()
                .unwrap();
            (asked.stdout == b"f\n").then_some(())
        });
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            // Ends the connections and the server at once.
            let _ = kill_process(Pid::from_child(&running), Signal::QUIT);
            let _ = running.wait();
        }
    }
}

/// Returns a program of PostgreSQL, which does not run as root.
fn as_postgres(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid",
        "postgres",
        "--regid",
        "postgres",
        "--init-groups",
    ]);
    command.arg(Path::new(BIN).join(program)).current_dir("/");
    command
}

fn run(program: &str, arguments: &[&str]) {
    let output = as_postgres(program).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {stderr}");
}

/// Gives a file to the user of the server.
fn give_away(path: &Path) {
    let given = Command::new("chown").arg("postgres:").arg(path).status();
    assert!(given.unwrap().success(), "{}", path.display());
}
