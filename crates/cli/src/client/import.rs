//! Imports files into a project.

use std::io::Cursor;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use elevo_api as api;
use reqwest::{Body, Method};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use crate::client::call::Call;
use crate::client::error::ClientError;
use crate::client::merge;
use crate::client::paths::project_path;
use crate::errors::{Exit, FileProblem, ProjectProblem};
use crate::input::file::absolute_text;
use crate::output::format::{count, first_line};

/// The source of an import.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A directory on the server's machine.
    Directory(PathBuf),
    /// A git repository on the server's machine.
    Git(PathBuf),
    /// A tar on this machine; `-` is standard input.
    Tar(PathBuf),
    /// The id of a snapshot.
    Snapshot(String),
}

/// Digits of the id of a snapshot.
const DIGITS: usize = 64;

impl Source {
    /// Returns the source that an argument means: a file is a tar, a bare
    /// repository is a git repository, 64 digits are a snapshot, and everything
    /// else is a directory.
    pub(crate) fn parse(argument: PathBuf) -> Self {
        if argument.as_os_str() == "-" || argument.is_file() {
            return Self::Tar(argument);
        }
        if is_bare_repository(&argument) {
            return Self::Git(argument);
        }
        match argument.to_str() {
            Some(id) if is_snapshot_id(id) && !argument.exists() => Self::Snapshot(id.into()),
            _ => Self::Directory(argument),
        }
    }
}

fn is_bare_repository(path: &Path) -> bool {
    let (head, objects) = (path.join("HEAD"), path.join("objects"));
    head.is_file() && objects.is_dir() && path.join("refs").is_dir()
}

fn is_snapshot_id(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Options of an import.
#[derive(Debug, Default)]
pub(crate) struct ImportOptions {
    /// Revision of a git repository; by default HEAD.
    pub(crate) revision: Option<String>,
    /// Whether each commit of a git repository becomes a step.
    pub(crate) history: bool,
    /// Directory of the project to replace; the whole project by default.
    pub(crate) path: Option<String>,
    pub(crate) dry_run: bool,
    pub(crate) message: String,
}

/// Replaces the files of a project with those of a source, and returns the
/// result.
pub(crate) fn import(
    call: &Call,
    project: &str,
    source: Source,
    options: ImportOptions,
) -> anyhow::Result<api::ImportResult> {
    let mut wish = api::ImportSource {
        directory: None,
        git: None,
        revision: options.revision,
        history: options.history,
        snapshot: None,
        path: options.path,
        message: options.message,
        dry_run: options.dry_run,
    };
    match source {
        Source::Tar(tar) => {
            if !wish.message.is_empty() {
                return Err(ProjectProblem::MessageOfTar.into());
            }
            let into = wish.path.as_deref().unwrap_or_default();
            return send_tar(call, project, &tar, into, wish.dry_run);
        }
        Source::Directory(path) => wish.directory = Some(absolute_text(path)?),
        Source::Git(path) => wish.git = Some(absolute_text(path)?),
        Source::Snapshot(id) => wish.snapshot = Some(id),
    }
    let path = project_path(project, &["import"]);
    Ok(call.watch("importing", call.client.create(&path, &wish))?)
}

/// Bytes of an archive that are read at a time.
const PIECE: usize = 128 << 10;

fn send_tar(
    call: &Call,
    name: &str,
    tar: &Path,
    into: &str,
    dry_run: bool,
) -> anyhow::Result<api::ImportResult> {
    let path = project_path(name, &["archive"]);
    let failed = |source| FileProblem::Io {
        action: "read",
        path: tar.into(),
        source,
    };
    call.watch("importing", async {
        let mut file = match tar.as_os_str() == "-" {
            true => {
                let input = std::io::stdin().as_fd().try_clone_to_owned();
                tokio::fs::File::from_std(input.map_err(failed)?.into())
            }
            false => tokio::fs::File::open(tar).await.map_err(failed)?,
        };
        // Even an empty tar archive has bytes. Without any, the program that
        // wrote the archive has probably failed.
        let mut first = vec![0; 512];
        let length = file.read(&mut first).await.map_err(failed)?;
        first.truncate(length);
        if first.is_empty() {
            return Err(ProjectProblem::EmptyTar(tar.into()).into());
        }
        let all = Cursor::new(first).chain(file);
        let body = Body::wrap_stream(ReaderStream::with_capacity(all, PIECE));
        let request = call.client.request(Method::PUT, &path);
        let request = request
            .query(&[("path", into)])
            .query(&[("dryRun", dry_run)])
            .header("content-type", "application/x-tar")
            .body(body);
        let answer = call.client.send(request).await?;
        let body = call.client.body(answer).await?;
        let result = serde_json::from_slice(&body);
        result.map_err(|error| anyhow::Error::from(ClientError::Answer(error)))
    })
}

/// Prints the result of an import.
pub(crate) fn print_import(call: &mut Call, result: &api::ImportResult) -> anyhow::Result<Exit> {
    if call.output.is_json() {
        call.output.value(result)?;
        return Ok(merge::merge_exit(&result.merge));
    }
    if result.steps > 1 {
        let steps = count(result.steps, "step", "steps");
        call.output.line(format!("Added {steps} to the log"))?;
    }
    let code = merge::print_merge(call, &result.merge)?;
    if !result.not_kept.is_empty() {
        let not_kept = result.not_kept.join(", ");
        call.note(&format!("not kept: {}", first_line(&not_kept)));
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_source_decides_its_kind() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("a.tar"), "x").unwrap();
        std::fs::create_dir_all(at("tree/.git")).unwrap();
        for below in ["bare/objects", "bare/refs"] {
            std::fs::create_dir_all(at(below)).unwrap();
        }
        std::fs::write(at("bare/HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(Source::parse("-".into()), Source::Tar("-".into()));
        assert_eq!(Source::parse(at("a.tar")), Source::Tar(at("a.tar")));
        assert_eq!(Source::parse(at("tree")), Source::Directory(at("tree")));
        assert_eq!(Source::parse(at("bare")), Source::Git(at("bare")));
        let id = "1a".repeat(32);
        assert_eq!(Source::parse(id.clone().into()), Source::Snapshot(id));
        assert_eq!(Source::parse(at("none")), Source::Directory(at("none")));
    }
}
