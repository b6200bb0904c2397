//! What a user sees when something goes wrong: the one place that turns errors
//! of the libraries, and our own, into a message, a name, an exit code and
//! advice.

mod library;
mod protected;
mod service;

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use elevo_core::InvalidPath;
use elevo_objects::SnapshotId;
use serde_json::{Map, Value, json};

use crate::format::{path_text, short};

pub(crate) use protected::Protected;

/// How the process ends. `docs/cli.md` has this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Conflict = 4,
    Busy = 5,
    Damaged = 6,
    Differences = 7,
    /// Some of a merge is held for review or was refused.
    Held = 8,
    /// Of `exec`, `attach` and `shell`, whose other codes are the command's.
    Itself = 125,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What goes wrong in the command line itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("there is no store in {} or above it", .from.display())]
    NoStore { from: PathBuf },
    #[error("the store of {} should be {}, and is not there", .directory.display(), .store.display())]
    StoreGone { directory: PathBuf, store: PathBuf },
    #[error("no snapshot is known as `{0}`")]
    UnknownRevision(String),
    #[error("`{text}` is the start of more than one snapshot: {} …", .candidates.join(", "))]
    AmbiguousRevision {
        text: String,
        candidates: Vec<String>,
    },
    #[error("`{0}` is not the name of a snapshot")]
    InvalidRevision(String),
    #[error("nothing has been committed to this store yet")]
    NothingCommitted,
    #[error("this directory is not known to hold a snapshot")]
    NoCheckout,
    #[error("`{text}` goes back further than the history, which ends after {steps} steps")]
    NoAncestor { text: String, steps: u64 },
    #[error("head is {}, but this directory was made from {}", known(.head), known(.here))]
    HeadElsewhere {
        here: Option<SnapshotId>,
        head: Option<SnapshotId>,
    },
    #[error(
        "a checkout of {} into {} was interrupted, and it holds parts of both that and what was there before",
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
    #[error("the tag `{name}` is there already, at {}", short(*.at))]
    TagExists { name: String, at: SnapshotId },
    #[error("there is no tag `{0}`")]
    NoSuchTag(String),
    #[error("`{name}` cannot be a tag: {why}")]
    InvalidTag { name: String, why: &'static str },
    #[error("the store {} lies inside {}", .store.display(), .directory.display())]
    StoreInside { store: PathBuf, directory: PathBuf },
    #[error("{} lies inside the working directory {}", .directory.display(), .working.display())]
    InsideWorking {
        directory: PathBuf,
        working: PathBuf,
    },
    #[error(transparent)]
    Protected(#[from] Protected),
    #[error("no directory was given, and this one belongs to no store")]
    NoWorkingDirectory,
    #[error("`{}` is not a path within a snapshot", path_text(.path))]
    NotATreePath { path: Vec<u8>, source: InvalidPath },
    #[error("renames are looked for among at most {limit} changes, and here are more")]
    TooManyChanges { limit: usize },
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    #[error("another `elevo` is at work in {}", .0.display())]
    DirectoryBusy(PathBuf),
    #[error("{} is not known to hold a snapshot", .0.display())]
    NoSeed(PathBuf),
    #[error("a server is running with the data directory {} already, at {url}", .data.display())]
    ServerRunning {
        data: PathBuf,
        url: String,
        pid: u32,
    },
    #[error("the settings cannot be used: {}", .0.join("; "))]
    Settings(Vec<String>),
    #[error("the workspace `{0}` is that of a sandbox")]
    InSandbox(String),
    #[error("the server that holds the store {} does not answer", .store.display())]
    Door { store: PathBuf, source: io::Error },
    #[error("the server that holds this store would make it for nobody else to see")]
    PrivateOfServer,
    #[error("the workspace cannot be mounted on {} in a user namespace", .path.display())]
    Enter { path: PathBuf, source: io::Error },
    #[error("ended before all requests were answered")]
    CutShort,
    #[error("there is no template yet")]
    NoTemplate,
    #[error("there is more than one template")]
    WhichTemplate,
    #[error("{} is no text, which a server could not be told", .0.display())]
    NotText(PathBuf),
    #[error("standard input or output is no terminal")]
    NoTerminal,
    #[error("exactly one of the two must be SANDBOX:PATH")]
    CopyEnds,
    #[error("{} is a directory, and what is copied is none", .0.display())]
    IsADirectory(PathBuf),
    #[error("standard input cannot be read")]
    Input(#[source] io::Error),
    #[error("the connection broke while input was sent, and how much of it arrived is not known")]
    InputLost { command: String },
    #[error("the workspace `{0}` is that of a project")]
    InProject(String),
    #[error("the workspace `{0}` is parked on the server")]
    ParkedOnServer(String),
    #[error("the workspace `{0}` is not parked")]
    NotParked(String),
    #[error("this is asked of a server, and not of a store")]
    NotHere,
    #[error("{} is in no workspace of this server", .0.display())]
    NoWorkspaceHere(PathBuf),
    #[error("the workspace `{id}` is not one of `{project}`")]
    OtherProject { id: String, project: String },
    #[error("no step of `{project}` has a snapshot or number `{text}`")]
    UnknownStep { project: String, text: String },
    #[error("{} is no policy", .path.display())]
    PolicyUnreadable {
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{} is no text", .0.display())]
    NoText(PathBuf),
    #[error("{} is empty, and no tar", .0.display())]
    EmptyTar(PathBuf),
    #[error("{} is larger than {limit} bytes", .path.display())]
    FileTooLarge { path: PathBuf, limit: u64 },
    #[error("the editor `{editor}` cannot be used")]
    Editor { editor: String, source: io::Error },
    #[error("nothing was sent: {why}")]
    NotSent { why: &'static str, kept: PathBuf },
    #[error("this cannot be edited as a text")]
    NotEditable,
    #[error("an archive is not printed to a terminal")]
    ArchiveToTerminal,
    #[error("the store {} is that of a server, whose catalog names what is needed", .store.display())]
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

/// An error as it is shown.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) exit: Exit,
    name: Cow<'static, str>,
    /// What happened, and why, outermost first.
    messages: Vec<String>,
    details: Map<String, Value>,
    remediation: Option<String>,
}

/// What is known about an error besides its message.
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
    /// Finds the first error in the chain that is known here.
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

    /// Arguments that were not understood.
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

    /// Writes it to standard error. There is nobody to tell if that fails.
    pub(crate) fn print(&self, json: bool) {
        let _ = self.print_to(&mut anstream::stderr().lock(), json);
    }

    /// Writes it, in colours if it is for people.
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

/// A message without control characters, which paths may bring in.
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
            .advice("make one with `elevo state init`, or name one with --store PATH"),
        Problem::StoreGone { directory, store } => not_found("store_not_found")
            .with(json!({ "directory": lossy(directory), "store": lossy(store) }))
            .advice("name the store with --store PATH, if it has moved"),
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
            .advice("see `elevo state --help` for what REV can be"),
        Problem::NothingCommitted => not_found("snapshot_not_found")
            .advice("`elevo state commit` makes a first snapshot; otherwise name one"),
        Problem::NoCheckout => not_found("snapshot_not_found")
            .advice("`@` is what the last commit or checkout left in this directory; name a snapshot instead"),
        Problem::NoAncestor { text, steps } => {
            not_found("snapshot_not_found").with(json!({ "revision": text, "steps": steps }))
        }
        Problem::HeadElsewhere { here, head } => conflict("head_elsewhere")
            .with(json!({
                "head": head.map(|id| id.to_string()),
                "parent": here.map(|id| id.to_string()),
            }))
            .advice(
                "`commit --parent head` keeps this directory as the successor of head, whatever \
                 head has in addition; `commit --detach` keeps it beside head",
            ),
        Problem::Interrupted { directory, to, .. } => conflict("checkout_interrupted")
            .with(json!({ "directory": lossy(directory), "to": to.to_string() }))
            .advice(format!(
                "`elevo state checkout --force {}` completes it, and takes away what was changed \
                 in the directory; to keep that, `elevo state commit --parent REV --detach` first",
                short(*to)
            )),
        Problem::Stopped { directory, to, .. } => Known::new(Exit::Failed, "checkout_stopped")
            .with(json!({ "directory": lossy(directory), "to": to.to_string() }))
            .advice(
                "the directory holds parts of both snapshots; once the cause is gone, the same \
                 checkout completes it, with --force if files were cut off",
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
            .advice("`elevo state commit` keeps all of it; `elevo state import` any part by itself"),
        Problem::Protected(refusal) => protected::known(refusal),
        Problem::NoWorkingDirectory => usage("directory_missing").advice("name a directory"),
        Problem::NotATreePath { path, .. } => usage("path_invalid")
            .with(json!({ "path": String::from_utf8_lossy(path) }))
            .advice("paths start at the root of the snapshot, without a leading slash"),
        Problem::TooManyChanges { limit } => Known::new(Exit::Failed, "too_many_changes")
            .with(json!({ "limit": limit }))
            .advice("leave out --renames, or name paths to look at fewer changes"),
        Problem::NotADirectory(path) => {
            not_found("directory_not_found").with(json!({ "directory": lossy(path) }))
        }
        Problem::DirectoryBusy(path) => Known::new(Exit::Busy, "directory_busy")
            .with(json!({ "directory": lossy(path) }))
            .advice("wait until it has finished"),
        Problem::NoSeed(path) => not_found("seed_unknown")
            .with(json!({ "directory": lossy(path) }))
            .advice("a seed is a directory that `elevo state checkout` or `commit` left as it is, since the machine was started"),
        Problem::StoreOfServer { store } => conflict("store_of_server")
            .with(json!({ "store": lossy(store) }))
            .advice(
                "start the server and run `elevo server gc --data DIR`; the server also does it by \
                 itself",
            ),
        Problem::NoAuditLog(path) => not_found("no_audit_log")
            .with(json!({ "directory": lossy(path) }))
            .advice("name the data directory of the server with --data; a server makes the log when it starts"),
        Problem::Io { path, .. } => Known::new(Exit::Failed, "io").with(json!({ "path": lossy(path) })),
        other => service::of_problem(other),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn the_first_known_error_in_a_chain_decides_and_all_are_told() {
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
