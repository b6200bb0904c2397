//! Who calls: whoever runs this command, or somebody who has the server run it
//! for them.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use elevo_store_local::LocalStore;
use elevo_workspace::Options;

use crate::errors::{Problem, Report};
use crate::output::Sink;
use crate::session::user;

/// Where a call comes from, and where what it prints goes.
pub(crate) struct Caller {
    /// The current directory.
    pub(crate) here: PathBuf,
    /// Who makes snapshots, unless a command says otherwise.
    pub(crate) author: String,
    /// Standard input.
    pub(crate) input: Box<dyn Read + Send>,
    pub(crate) sink: Sink,
    pub(crate) notes: Notes,
    /// What this process has open already.
    pub(crate) held: Option<Arc<Held>>,
}

impl Caller {
    /// Whoever runs this command.
    pub(crate) fn local() -> Result<Self, Problem> {
        let here = std::env::current_dir().map_err(|source| Problem::Io {
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

/// Where notes go.
pub(crate) enum Notes {
    /// To standard error.
    Here,
    /// To a caller, with colours or without.
    Elsewhere {
        out: Mutex<Box<dyn Write + Send>>,
        colour: bool,
    },
}

impl Notes {
    /// There is nobody to tell if this fails.
    pub(crate) fn line(&self, text: &str) {
        let _ = match self {
            Self::Here => writeln!(anstream::stderr().lock(), "{text}"),
            Self::Elsewhere { out, colour } => {
                let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
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
                let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
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
pub(crate) struct Held {
    /// Where the store is.
    pub(crate) path: PathBuf,
    pub(crate) store: Arc<LocalStore>,
    /// Where workspaces are.
    pub(crate) workspaces: PathBuf,
    pub(crate) options: Options,
    /// Who has this workspace.
    pub(crate) used_by: Box<dyn Fn(&str) -> User + Send + Sync>,
}

/// Who has a workspace of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Nobody,
    Sandbox,
    Project,
    /// The server, which keeps it for a new sandbox.
    Parked,
}
