//! The peers: programs that Elevo is compared with. Each runs as its users run it, with its
//! defaults.

mod command;
mod git;
mod hash;
mod restic;
mod rocksdb;
mod walk;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

pub(crate) use self::rocksdb::{BareRocksDb, Puts, puts};
pub(crate) use command::{clean_command, time_to_run};
pub(crate) use git::Git;
pub(crate) use hash::read_and_hash;
pub(crate) use restic::Restic;
pub(crate) use walk::walk;

/// A program that a measure needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    Git,
    Restic,
    Cp,
    Tar,
    Docker,
}

impl Peer {
    /// Returns the program, its option that prints the version, and its Debian package.
    const fn program(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Git => ("git", "--version", "git"),
            Self::Restic => ("restic", "version", "restic"),
            Self::Cp => ("cp", "--version", "coreutils"),
            Self::Tar => ("tar", "--version", "tar"),
            Self::Docker => ("docker", "--version", "docker.io"),
        }
    }

    fn version(self) -> Result<String> {
        let (program, question, package) = self.program();
        let output = Command::new(program).arg(question).output();
        let output = output.with_context(|| {
            format!("`{program}` cannot be run; install it (apt-get install {package})")
        })?;
        if !output.status.success() {
            bail!("`{program} {question}` failed; is it from the package `{package}`?");
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().next().unwrap_or(program).to_owned())
    }
}

/// Returns the versions of all `peers`; an error for one that is not installed.
pub(crate) fn required<'a>(peers: impl Iterator<Item = &'a Peer>) -> Result<Vec<String>> {
    let peers: BTreeSet<_> = peers.collect();
    peers.into_iter().map(|peer| peer.version()).collect()
}

/// Times `cp -a` of a directory to a new one.
pub(crate) fn time_to_copy(from: &Path, to: &Path) -> Result<f64> {
    time_to_run(clean_command("cp").arg("-a").arg(from).arg(to))
}
