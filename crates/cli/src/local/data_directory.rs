//! The data directory of a server on this machine: its path, the server that
//! runs with it, and the key of its owner.
//!
//! ```text
//! DATA/server.json   {"version":1,"address":"127.0.0.1:8080","metrics":"…","pid":1}
//!                    locked (flock) for as long as the server responds to requests
//! DATA/server.lock   pid and phase of the server; locked while its process exists;
//!                    see `server_lock`
//! DATA/owner.key     the secret of a key with every scope; mode 0600
//! DATA/elevo.sock    accepts commands for the server to run; see `server_socket`
//! DATA/server.log    the server's log, as JSON; DATA/server.log.1 is the previous one
//! DATA/store         snapshots
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::client::trust::Trust;
use crate::errors::FileProblem;

/// The record of a running server that other processes read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningServer {
    version: u32,
    /// Address of the API.
    pub(crate) address: SocketAddr,
    /// File of the certificate, if the API uses TLS.
    #[serde(default)]
    pub(crate) certificate: Option<PathBuf>,
    /// Address of health, readiness and metrics.
    pub(crate) metrics: SocketAddr,
    /// Process id of the server.
    pub(crate) pid: u32,
}

impl RunningServer {
    pub(crate) fn new(
        address: SocketAddr,
        metrics: SocketAddr,
        certificate: Option<PathBuf>,
    ) -> Self {
        Self {
            version: 1,
            address,
            certificate,
            metrics,
            pid: std::process::id(),
        }
    }

    /// The URL of the API.
    pub(crate) fn url(&self) -> String {
        let scheme = match self.certificate {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the certificates to trust: with TLS, only the server's own, for
    /// every host name.
    pub(crate) fn trust(&self) -> Trust {
        match &self.certificate {
            Some(path) => Trust::Only(path.clone()),
            None => Trust::System,
        }
    }
}

/// The announcement of a running server; removed when dropped.
#[derive(Debug)]
pub(crate) struct Announced {
    path: PathBuf,
    _lock: File,
}

impl Drop for Announced {
    fn drop(&mut self) {
        // If the file cannot be removed, other processes ignore it, because its
        // lock is free.
        let _ = fs::remove_file(&self.path);
    }
}

/// Maximum bytes read of a record or key file.
const LARGEST: u64 = 16 << 10;

/// A data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataDirectory(PathBuf);

impl DataDirectory {
    /// The data directory `named`, or that of `ELEVO_DATA`, or the default one of
    /// this user.
    pub(crate) fn new(named: Option<PathBuf>) -> Self {
        let named = named.or_else(of_environment);
        Self(named.unwrap_or_else(default_path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Path of the server's store.
    pub(crate) fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    /// Path of the socket on which the server accepts commands; see `server_socket`.
    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("elevo.sock")
    }

    /// Path of the lock that the process of the server holds; see `server_lock`.
    pub(crate) fn lock(&self) -> PathBuf {
        self.0.join("server.lock")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("server.log")
    }

    /// Path of the rotated log.
    pub(crate) fn previous_log(&self) -> PathBuf {
        self.0.join("server.log.1")
    }

    pub(crate) fn owner_key_path(&self) -> PathBuf {
        self.0.join("owner.key")
    }

    fn announcement(&self) -> PathBuf {
        self.0.join("server.json")
    }

    /// Returns the server that runs with this data directory. Ignores the record
    /// of a server that was killed, because its lock is free.
    pub(crate) fn running(&self) -> Option<RunningServer> {
        let file = File::open(self.announcement()).ok()?;
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            return None;
        }
        let mut text = String::new();
        file.take(LARGEST).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Records that a server is running, so that other processes find it.
    pub(crate) fn announce(&self, running: &RunningServer) -> Result<Announced, FileProblem> {
        let path = self.announcement();
        let failed = |source| FileProblem::Io {
            action: "write",
            path: path.clone(),
            source,
        };
        let mut open = OpenOptions::new();
        open.create(true).truncate(false).write(true).mode(0o644);
        let mut file = open.open(&path).map_err(failed)?;
        lock(&file).map_err(failed)?;
        let json = serde_json::to_vec(running).unwrap_or_default();
        let written = file.set_len(0).and_then(|()| file.write_all(&json));
        written.map_err(failed)?;
        Ok(Announced { path, _lock: file })
    }

    /// Returns the owner's key if it exists and is readable.
    pub(crate) fn owner_key(&self) -> Option<String> {
        read_key(&self.owner_key_path()).ok()
    }

    /// Writes the owner's key to a file that only this user can read.
    pub(crate) fn write_owner_key(&self, secret: &str) -> Result<(), FileProblem> {
        let path = self.owner_key_path();
        let written = tempfile::NamedTempFile::new_in(&self.0).and_then(|mut file| {
            // A temporary file has mode 0600 from its creation.
            writeln!(file, "{secret}")?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)
        });
        written.map_err(|source| FileProblem::Io {
            action: "write",
            path: self.owner_key_path(),
            source,
        })?;
        Ok(())
    }
}

/// Reads a key from a file.
pub(crate) fn read_key(path: &Path) -> Result<String, FileProblem> {
    let failed = |source| FileProblem::Io {
        action: "read the key in",
        path: path.into(),
        source,
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    let read = file.take(LARGEST).read_to_string(&mut text);
    read.map_err(failed)?;
    Ok(text.trim().to_owned())
}

/// Acquires the lock. Retries for a second, because [`DataDirectory::running`] in another
/// process holds a shared lock for a moment.
fn lock(file: &File) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if tries < 50 => {
                tries += 1;
                thread::sleep(Duration::from_millis(20));
            }
            locked => return locked.map_err(Into::into),
        }
    }
}

/// The data directory that `ELEVO_DATA` names. clap does not read the variable,
/// because it would then show `--data <DIR>` in the usage of every error.
pub(crate) fn of_environment() -> Option<PathBuf> {
    let path = std::env::var_os("ELEVO_DATA");
    path.filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// `/var/lib/elevo` for root, otherwise a directory in the user's data directory.
fn default_path() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/var/lib/elevo".into();
    }
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    match (absolute("XDG_DATA_HOME"), absolute("HOME")) {
        (Some(data), _) => data.join("elevo"),
        (None, Some(home)) => home.join(".local/share/elevo"),
        (None, None) => "/var/lib/elevo".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_server_is_known_only_while_it_runs() {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::new(Some(directory.path().into()));
        assert_eq!(data.running(), None);
        let address = ([127, 0, 0, 1], 8080).into();
        let running = RunningServer::new(address, address, None);
        let announced = data.announce(&running).unwrap();
        assert_eq!(data.running(), Some(running.clone()));
        assert_eq!(running.url(), "http://127.0.0.1:8080");
        // As if it were killed: the file stays, the lock goes.
        let kept = fs::read(data.announcement()).unwrap();
        drop(announced);
        assert_eq!(data.running(), None);
        fs::write(data.announcement(), kept).unwrap();
        assert_eq!(data.running(), None);
    }

    #[test]
    fn the_owners_key_is_for_the_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::new(Some(directory.path().into()));
        assert_eq!(data.owner_key(), None);
        data.write_owner_key("elv_secret").unwrap();
        assert_eq!(data.owner_key().as_deref(), Some("elv_secret"));
        let mode = fs::metadata(data.owner_key_path()).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }
}
