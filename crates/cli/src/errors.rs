//! Turns errors of the libraries and of the command line into what the user
//! sees: a message, a name, an exit code and advice. No other module does this.

mod library;
mod protected;
mod service;

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use elevo_core::InvalidPath;
use elevo_objects::SnapshotId;
use serde_json::{Map, Value, json};

use crate::output::format::{path_text, short};

pub(crate) use protected::Protected;

/// Exit codes of the process. `docs/cli.md` has this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    Usage,
    NotFound,
    Conflict,
    Busy,
    Damaged,
    Differences,
    /// Part of a merge is held for review or was refused.
    Held,
    /// `exec`, `attach` or `shell` itself failed; their other codes are those of
    /// the command they ran.
    Itself,
    /// The code of a command that `exec`, `attach`, `shell` or `ws run` ran.
    Of(u8),
}

impl Exit {
    /// The exit for the code of a command; one that does not fit is a failure.
    pub(crate) fn of_command(code: i32) -> Self {
        Self::Of(u8::try_from(code).unwrap_or(1))
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::Busy => 5,
            Self::Damaged => 6,
            Self::Differences => 7,
            Self::Held => 8,
            Self::Itself => 125,
            Self::Of(code) => code,
        }
    }
}

/// Errors of the command line itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("there is no store in {} or above it", .from.display())]
    NoStore { from: PathBuf },
    #[error("the store of {} should be at {}, but is not there", .directory.display(), .store.display())]
    StoreGone { directory: PathBuf, store: PathBuf },
    #[error("there is no snapshot `{0}`")]
    UnknownRevision(String),
    #[error("more than one snapshot id starts with `{text}`: {} …", .candidates.join(", "))]
    AmbiguousRevision {
        text: String,
        candidates: Vec<String>,
    },
    #[error("`{0}` is not the name of a snapshot")]
    InvalidRevision(String),
    #[error("nothing has been committed to this store yet")]
    NothingCommitted,
    #[error("no snapshot was committed from or checked out into this directory")]
    NoCheckout,
    #[error("`{text}` goes back further than the history, which ends after {steps} steps")]
    NoAncestor { text: String, steps: u64 },
    #[error("head is {}, but this directory is based on {}", known(.head), known(.here))]
    HeadElsewhere {
        here: Option<SnapshotId>,
        head: Option<SnapshotId>,
    },
    #[error(
        "a checkout of {} into {} was interrupted, and the directory holds parts of it and of the previous state",
        short(*.to), .directory.display()
    )]
    Interrupted {
        directory: PathBuf,
        to: SnapshotId,
        source: Option<elevo_engine::Error>,
    },
    #[error("the checkout of {} into {} stopped half-way", short(*.to), .directory.display())]
    Stopped {
        directory: PathBuf,
        to: SnapshotId,
        source: elevo_engine::Error,
    },
    #[error("the tag `{name}` already exists, at {}", short(*.at))]
    TagExists { name: String, at: SnapshotId },
    #[error("there is no tag `{0}`")]
    NoSuchTag(String),
    #[error("`{name}` cannot be a tag: {why}")]
    InvalidTag { name: String, why: &'static str },
    #[error("the store {} is inside {}", .store.display(), .directory.display())]
    StoreInside { store: PathBuf, directory: PathBuf },
    #[error("{} is inside the working directory {}", .directory.display(), .working.display())]
    InsideWorking {
        directory: PathBuf,
        working: PathBuf,
    },
    #[error(transparent)]
    Protected(#[from] Protected),
    #[error("no directory was given, and this one does not belong to a store")]
    NoWorkingDirectory,
    #[error("`{}` is not a path within a snapshot", path_text(.path))]
    NotATreePath { path: Vec<u8>, source: InvalidPath },
    #[error("there are more than {limit} changes, too many to detect renames")]
    TooManyChanges { limit: usize },
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    #[error("another `elevo` command is running in {}", .0.display())]
    DirectoryBusy(PathBuf),
    #[error("no snapshot was committed from or checked out into {}", .0.display())]
    NoSeed(PathBuf),
    #[error("a server is already running with the data directory {}, at {url}", .data.display())]
    ServerRunning {
        data: PathBuf,
        url: String,
        pid: u32,
    },
    #[error("the settings cannot be used: {}", .0.join("; "))]
    Settings(Vec<String>),
    #[error("the workspace `{0}` belongs to a sandbox")]
    InSandbox(String),
    #[error("the server that holds the store {} does not respond", .store.display())]
    ServerSocket { store: PathBuf, source: io::Error },
    #[error(
        "this store is held by a server, and a rootless workspace created there would be invisible to you"
    )]
    PrivateOfServer,
    #[error("cannot mount the workspace on {} in a user namespace", .path.display())]
    Enter { path: PathBuf, source: io::Error },
    #[error("ended before all requests were answered")]
    CutShort,
    #[error("there is no template yet")]
    NoTemplate,
    #[error("there is more than one template")]
    WhichTemplate,
    #[error("{} is not valid UTF-8 and cannot be sent to a server", .0.display())]
    NotText(PathBuf),
    #[error("standard input or output is not a terminal")]
    NoTerminal,
    #[error("exactly one of SRC and DST must be SANDBOX:PATH")]
    CopyEnds,
    #[error("cannot overwrite the directory {} with a file", .0.display())]
    IsADirectory(PathBuf),
    #[error("cannot read standard input")]
    Input(#[source] io::Error),
    #[error("the connection was lost while sending input; an unknown part of it has arrived")]
    InputLost { command: String },
    #[error("the workspace `{0}` belongs to a project")]
    InProject(String),
    #[error("the workspace `{0}` is parked on the server")]
    ParkedOnServer(String),
    #[error("the workspace `{0}` is not parked")]
    NotParked(String),
    #[error("{} is not in a workspace of this server", .0.display())]
    NoWorkspaceHere(PathBuf),
    #[error("the workspace `{id}` does not belong to the project `{project}`")]
    OtherProject { id: String, project: String },
    #[error("no step of `{project}` has the snapshot or sequence number `{text}`")]
    UnknownStep { project: String, text: String },
    #[error("{} is not a valid policy", .path.display())]
    PolicyUnreadable {
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{} is not valid UTF-8 text", .0.display())]
    NoText(PathBuf),
    #[error("{} is empty and not a tar archive", .0.display())]
    EmptyTar(PathBuf),
    #[error("{} is larger than {limit} bytes", .path.display())]
    FileTooLarge { path: PathBuf, limit: u64 },
    #[error("the editor `{editor}` cannot be used")]
    Editor { editor: String, source: io::Error },
    #[error("nothing was sent: {why}")]
    NotSent { why: &'static str, kept: PathBuf },
    #[error("the conflict cannot be edited as text")]
    NotEditable,
    #[error("refusing to write an archive to a terminal")]
    ArchiveToTerminal,
    #[error("the store {} belongs to a server; only its catalog knows which snapshots are needed", .store.display())]
    StoreOfServer { store: PathBuf },
    #[error("there is no audit log in {}", .0.display())]
    NoAuditLog(PathBuf),
    #[error("cannot {action} {}", .path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn known(id: &Option<SnapshotId>) -> String {
    id.map_or("nothing".into(), short)
}

/// An error in the form that is shown to the user.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) exit: Exit,
    name: Cow<'static, str>,
    /// The messages of the error and its causes, outermost first.
    messages: Vec<String>,
    details: Map<String, Value>,
    remediation: Option<String>,
}

/// Exit code, name, details and advice of an error.
struct Known {
    exit: Exit,
    name: Cow<'static, str>,
    details: Value,
    remediation: Option<String>,
}

impl Known {
    fn new(exit: Exit, name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            exit,
            name: name.into(),
            details: Value::Null,
            remediation: None,
        }
    }

    fn with(self, details: Value) -> Self {
        Self { details, ..self }
    }

    fn advice(self, remediation: impl Into<String>) -> Self {
        let remediation = Some(remediation.into());
        Self {
            remediation,
            ..self
        }
    }
}

impl Report {
    /// Builds a report from the first error in the chain that this module knows.
    pub(crate) fn new(error: &anyhow::Error) -> Self {
        let known = error
            .chain()
            .find_map(|cause| {
                if let Some(problem) = cause.downcast_ref() {
                    return Some(of_problem(problem));
                }
                if let Some(refusal) = cause.downcast_ref() {
                    return Some(protected::known(refusal));
                }
                library::known(cause).or_else(|| service::known(cause))
            })
            .unwrap_or_else(|| Known::new(Exit::Failed, "failed"));
        let mut messages: Vec<String> = error.chain().map(one_line).collect();
        messages.dedup();
        Self {
            exit: known.exit,
            name: known.name,
            messages,
            details: known.details.as_object().cloned().unwrap_or_default(),
            remediation: known.remediation,
        }
    }

    /// Builds a report of arguments that clap rejected.
    pub(crate) fn usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let message = text.trim().trim_start_matches("error: ");
        Self {
            exit: Exit::Usage,
            name: "usage".into(),
            messages: vec![message.lines().next().unwrap_or_default().into()],
            details: json!({ "text": message })
                .as_object()
                .cloned()
                .unwrap_or_default(),
            remediation: Some("see `elevo --help` and `elevo COMMAND --help`".into()),
        }
    }

    /// Writes the report to standard error. Ignores a failure, because there is
    /// nowhere else to report it.
    pub(crate) fn print(&self, json: bool) {
        let _ = self.print_to(&mut anstream::stderr().lock(), json);
    }

    /// Writes the report as JSON, or as text with colours.
    pub(crate) fn print_to(&self, out: &mut impl Write, json: bool) -> io::Result<()> {
        match json {
            true => writeln!(out, "{}", self.json()),
            false => self.write(out),
        }
    }

    fn json(&self) -> Value {
        json!({ "error": {
            "name": self.name,
            "message": self.messages.join(": "),
            "details": self.details,
            "remediation": self.remediation,
        } })
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let error = AnsiColor::Red.on_default().bold();
        let help = AnsiColor::Cyan.on_default().bold();
        let dim = Style::new().dimmed();
        let mut messages = self.messages.iter();
        let first = messages.next().map_or("something failed", String::as_str);
        writeln!(out, "{error}error{error:#}: {first}")?;
        for message in messages {
            writeln!(out, "  {dim}because{dim:#}: {message}")?;
        }
        match &self.remediation {
            Some(remediation) => writeln!(out, "  {help}help{help:#}: {remediation}"),
            None => Ok(()),
        }
    }
}

/// Returns the error's message with control characters replaced; a path in it
/// may contain some.
fn one_line(error: &(dyn std::error::Error + 'static)) -> String {
    error.to_string().replace(char::is_control, "\u{fffd}")
}

fn of_problem(problem: &Problem) -> Known {
    let not_found = |name| Known::new(Exit::NotFound, name);
    let conflict = |name| Known::new(Exit::Conflict, name);
    let usage = |name| Known::new(Exit::Usage, name);
    match problem {
        Problem::NoStore { from } => not_found("store_not_found")
            .with(json!({ "directory": lossy(from) }))
            .advice("create one with `elevo state init`, or name one with --store PATH"),
        Problem::StoreGone { directory, store } => not_found("store_not_found")
            .with(json!({ "directory": lossy(directory), "store": lossy(store) }))
            .advice("if the store has moved, name it with --store PATH"),
        Problem::UnknownRevision(text) => not_found("snapshot_not_found")
            .with(json!({ "revision": text }))
            .advice(
                "give at least 6 digits of an id, a tag, `head` or `@`; `elevo state tag` lists \
                 tags and `elevo state log --all` all snapshots",
            ),
        Problem::AmbiguousRevision { text, candidates } => not_found("snapshot_ambiguous")
            .with(json!({ "revision": text, "candidates": candidates }))
            .advice("give more digits"),
        Problem::InvalidRevision(text) => usage("revision_invalid")
            .with(json!({ "revision": text }))
            .advice("`elevo state --help` lists the forms of REV"),
        Problem::NothingCommitted => not_found("snapshot_not_found")
            .advice("`elevo state commit` creates the first snapshot"),
        Problem::NoCheckout => not_found("snapshot_not_found")
            .advice("`@` is the snapshot of the last commit or checkout of this directory; name another snapshot"),
        Problem::NoAncestor { text, steps } => {
            not_found("snapshot_not_found").with(json!({ "revision": text, "steps": steps }))
        }
        Problem::HeadElsewhere { here, head } => conflict("head_elsewhere")
            .with(json!({
                "head": head.map(|id| id.to_string()),
                "parent": here.map(|id| id.to_string()),
            }))
            .advice(
                "`commit --parent head` saves this directory as the successor of head, without the \
                 changes that only head has; `commit --detach` saves it without moving head",
            ),
        Problem::Interrupted { directory, to, .. } => conflict("checkout_interrupted")
            .with(json!({ "directory": lossy(directory), "to": to.to_string() }))
            .advice(format!(
                "`elevo state checkout --force {}` completes it and discards changes in the \
                 directory; to keep them, run `elevo state commit --parent REV --detach` first",
                short(*to)
            )),
        Problem::Stopped { directory, to, .. } => Known::new(Exit::Failed, "checkout_stopped")
            .with(json!({ "directory": lossy(directory), "to": to.to_string() }))
            .advice(
                "the directory holds parts of both snapshots; fix the cause and run the same \
                 checkout again, with --force if files were cut off",
            ),
        Problem::TagExists { name, at } => conflict("tag_exists")
            .with(json!({ "tag": name, "snapshot": at.to_string() }))
            .advice("--force moves it"),
        Problem::NoSuchTag(name) => not_found("tag_not_found")
            .with(json!({ "tag": name }))
            .advice("`elevo state tag` lists tags"),
        Problem::InvalidTag { name, .. } => usage("tag_invalid").with(json!({ "tag": name })),
        Problem::StoreInside { store, directory } => usage("store_inside")
            .with(json!({ "store": lossy(store), "directory": lossy(directory) }))
            .advice("import a directory that does not contain the store, or move the store"),
        Problem::InsideWorking { directory, working } => usage("inside_working_directory")
            .with(json!({ "directory": lossy(directory), "working": lossy(working) }))
            .advice("`elevo state commit` saves the whole working directory; `elevo state import` saves a part of it"),
        Problem::Protected(refusal) => protected::known(refusal),
        Problem::NoWorkingDirectory => usage("directory_missing").advice("name a directory"),
        Problem::NotATreePath { path, .. } => usage("path_invalid")
            .with(json!({ "path": String::from_utf8_lossy(path) }))
            .advice("paths start at the root of the snapshot, without a leading slash"),
        Problem::TooManyChanges { limit } => Known::new(Exit::Failed, "too_many_changes")
            .with(json!({ "limit": limit }))
            .advice("leave out --renames, or name paths to compare fewer files"),
        Problem::NotADirectory(path) => {
            not_found("directory_not_found").with(json!({ "directory": lossy(path) }))
        }
        Problem::DirectoryBusy(path) => Known::new(Exit::Busy, "directory_busy")
            .with(json!({ "directory": lossy(path) }))
            .advice("wait until it has finished"),
        Problem::NoSeed(path) => not_found("seed_unknown")
            .with(json!({ "directory": lossy(path) }))
            .advice("a seed is a directory that `elevo state checkout` or `commit` was run on since the machine was started"),
        Problem::StoreOfServer { store } => conflict("store_of_server")
            .with(json!({ "store": lossy(store) }))
            .advice(
                "start the server and run `elevo server gc --data DIR`; the server also collects \
                 garbage regularly",
            ),
        Problem::NoAuditLog(path) => not_found("no_audit_log")
            .with(json!({ "directory": lossy(path) }))
            .advice("name the data directory of the server with --data; a server creates the log when it starts"),
        Problem::Io { path, .. } => Known::new(Exit::Failed, "io").with(json!({ "path": lossy(path) })),
        other => service::of_problem(other),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn the_first_known_error_in_a_chain_decides_and_all_are_shown() {
        let id = SnapshotId(elevo_objects::Hash::from_bytes([7; 32]));
        let error = Err::<(), _>(elevo_engine::Error::NoSuchSnapshot(id))
            .context("cannot do it")
            .unwrap_err();
        let report = Report::new(&error);
        assert_eq!(report.exit, Exit::NotFound);
        let mut text = Vec::new();
        report
            .write(&mut anstream::StripStream::new(&mut text))
            .unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            format!("error: cannot do it\n  because: snapshot {id} is not stored\n")
        );
        assert_eq!(
            report.json()["error"]["message"],
            format!("cannot do it: snapshot {id} is not stored")
        );
    }

    #[test]
    fn an_unknown_error_is_a_plain_failure() {
        let report = Report::new(&anyhow::anyhow!("odd"));
        assert_eq!((report.exit, &*report.name), (Exit::Failed, "failed"));
    }

    #[test]
    fn advice_follows_the_message() {
        let report = Report::new(&Problem::NothingCommitted.into());
        let mut text = Vec::new();
        report
            .write(&mut anstream::StripStream::new(&mut text))
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\n  help: `elevo state commit`"), "{text}");
    }
}
