//! The caller of a command: this process, or another `elevo` process that has
//! the server run the command.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use elevo_store_local::LocalStore;
use elevo_workspace::Options;
use parking_lot::Mutex;

use crate::errors::{FileProblem, Report};
use crate::output::Sink;

/// The environment of a call: current directory, author, input and output.
pub(crate) struct Caller {
    /// The caller's current directory.
    pub(crate) here: PathBuf,
    /// Author of new snapshots, unless an option names another.
    pub(crate) author: String,
    /// The caller's standard input.
    pub(crate) input: Box<dyn Read + Send>,
    pub(crate) sink: Sink,
    pub(crate) notes: Notes,
    /// The store that this process holds already, if it is a server.
    pub(crate) held: Option<Arc<HeldStore>>,
}

impl Caller {
    /// Returns the user of this process as the caller.
    pub(crate) fn local() -> Result<Self, FileProblem> {
        let here = std::env::current_dir().map_err(|source| FileProblem::Io {
            action: "find",
            path: ".".into(),
            source,
        })?;
        Ok(Self {
            here,
            author: user(),
            input: Box::new(io::stdin()),
            sink: Sink::stdout(),
            notes: Notes::Here,
            held: None,
        })
    }
}

/// Destination of notes.
pub(crate) enum Notes {
    /// Standard error.
    Here,
    /// The connection of a remote caller, with or without colours.
    Elsewhere {
        out: Mutex<Box<dyn Write + Send>>,
        colour: bool,
    },
}

impl Notes {
    /// Writes a line. Ignores a failure, because there is nowhere to report it.
    pub(crate) fn line(&self, text: &str) {
        let _ = match self {
            Self::Here => writeln!(anstream::stderr().lock(), "{text}"),
            Self::Elsewhere { out, colour } => {
                let mut out = out.lock();
                match colour {
                    true => writeln!(out, "{text}"),
                    false => writeln!(anstream::StripStream::new(&mut **out), "{text}"),
                }
            }
        };
    }

    /// Writes an error that does not end the command.
    pub(crate) fn report(&self, report: &Report, json: bool) {
        let _ = match self {
            Self::Here => {
                report.print(json);
                Ok(())
            }
            Self::Elsewhere { out, colour } => {
                let mut out = out.lock();
                match colour {
                    true => report.print_to(&mut *out, json),
                    false => report.print_to(&mut anstream::StripStream::new(&mut **out), json),
                }
            }
        };
    }

    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Elsewhere { .. })
    }
}

/// The store and the workspaces of a server, open in this process.
pub(crate) struct HeldStore {
    /// Directory of the store.
    pub(crate) path: PathBuf,
    pub(crate) store: Arc<LocalStore>,
    /// Directory of the workspaces.
    pub(crate) workspaces: PathBuf,
    pub(crate) options: Options,
    /// Returns the user of a workspace, given its id.
    pub(crate) used_by: Box<dyn Fn(&str) -> WorkspaceUser + Send + Sync>,
}

/// The user of a workspace on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkspaceUser {
    Nobody,
    Sandbox,
    Project,
    /// The server keeps the workspace for a new sandbox.
    Parked,
}

/// `user@host`, the default author.
pub(crate) fn user() -> String {
    let named = ["USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()));
    let uid = rustix::process::getuid().as_raw();
    let known = || user_name(&std::fs::read_to_string("/etc/passwd").ok()?, uid);
    let user = named.or_else(known).unwrap_or_else(|| format!("uid{uid}"));
    let system = rustix::system::uname();
    format!("{user}@{}", system.nodename().to_string_lossy())
}

/// Finds the name of a user in the password database.
fn user_name(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let found = fields.nth(1)?.parse::<u32>().ok()?;
        (found == uid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_variables_has_the_name_of_the_password_database() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\n# comment\n:x:7:7::/:\nada:x:1000:1000::/:\n";
        assert_eq!(user_name(passwd, 0).as_deref(), Some("root"));
        assert_eq!(user_name(passwd, 1000).as_deref(), Some("ada"));
        assert_eq!(user_name(passwd, 7), None);
        assert_eq!(user_name(passwd, 9), None);
    }
}
