//! Git, with its defaults, except that it neither cleans up on its own nor reads a user's settings.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::command::{clean_command, time_to_run};
use crate::data::Dataset;

const BRANCH: &str = "main";

/// A repository and its work tree, which know nothing of each other on disk: the work tree holds
/// the data and nothing else.
#[derive(Debug)]
pub(crate) struct Git {
    repository: PathBuf,
    work_tree: PathBuf,
}

impl Git {
    /// Makes an empty repository.
    pub(crate) fn init(repository: &Path, work_tree: &Path) -> Result<Self> {
        fs::create_dir_all(repository)?;
        let git = Self {
            repository: repository.to_owned(),
            work_tree: work_tree.to_owned(),
        };
        let branch = format!("--initial-branch={BRANCH}");
        time_to_run(git.command().args(["init", "--quiet", &branch]))?;
        Ok(git)
    }

    /// Makes a repository whose only commit holds `data`, which `work_tree` holds already. All of
    /// it is in one pack, as after a clone; the index knows the files' state on disk.
    pub(crate) fn with_commit(
        repository: &Path,
        work_tree: &Path,
        data: &dyn Dataset,
    ) -> Result<Self> {
        let git = Self::init(repository, work_tree)?;
        git.fast_import(|stream| feed(stream, data))
            .context("git fast-import")?;
        time_to_run(git.command().args(["read-tree", "HEAD"]))?;
        time_to_run(git.command().args(["update-index", "--refresh"]))?;
        Ok(git)
    }

    /// How long `git add -A` takes.
    pub(crate) fn time_to_add_all(&self) -> Result<f64> {
        time_to_run(self.command().args(["add", "-A"]))
    }

    /// How long `git status` takes where git remembers the directories it has seen.
    pub(crate) fn time_of_status(&self) -> Result<f64> {
        let status = ["-c", "core.untrackedCache=true", "status", "--porcelain"];
        time_to_run(self.command().args(status))
    }

    /// How long `git add -A` and `git commit` take together.
    pub(crate) fn time_to_commit_all(&self) -> Result<f64> {
        self.time_to_commit("-A")
    }

    /// How long `git add FILE` and `git commit` take together.
    pub(crate) fn time_to_commit(&self, file: &str) -> Result<f64> {
        let add = time_to_run(self.command().args(["add", file]))?;
        let commit = time_to_run(self.command().args(["commit", "--quiet", "-m", "edit"]))?;
        Ok(add + commit)
    }

    /// How long `git checkout` takes to fill the work tree of a new clone at `directory`. The
    /// clone itself, which borrows all objects, is not counted.
    pub(crate) fn time_to_check_out(&self, directory: &Path) -> Result<f64> {
        let clone = ["clone", "--quiet", "--shared", "--no-checkout"];
        let mut command = clean_git();
        time_to_run(command.args(clone).arg(&self.repository).arg(directory))?;
        let mut command = clean_git();
        time_to_run(
            command
                .arg("-C")
                .arg(directory)
                .args(["checkout", "--quiet", BRANCH]),
        )
    }

    /// How long `git worktree add` takes for a new branch at `directory`.
    pub(crate) fn time_to_add_worktree(&self, directory: &Path) -> Result<f64> {
        let add = ["worktree", "add", "--quiet", "--detach"];
        let mut command = clean_git();
        command.env("GIT_DIR", &self.repository);
        time_to_run(command.args(add).arg(directory))
    }

    /// Makes a branch that changes `files` of the main one.
    pub(crate) fn branch(
        &self,
        name: &str,
        files: impl Iterator<Item = (String, Vec<u8>)>,
    ) -> Result<()> {
        self.fast_import(|stream| {
            begin_commit(stream, name)?;
            writeln!(stream, "from refs/heads/{BRANCH}^0")?;
            files
                .into_iter()
                .try_for_each(|(path, content)| put(stream, &path, &content))
        })
        .context("git fast-import")
    }

    /// How long `git merge` takes to bring a branch into the main one and into the work tree.
    pub(crate) fn time_to_merge(&self, branch: &str) -> Result<f64> {
        time_to_run(
            self.command()
                .args(["merge", "--quiet", "--no-edit", branch]),
        )
    }

    /// How long `git merge-tree` takes to merge two branches into a tree, without a work tree.
    pub(crate) fn time_to_merge_trees(&self, ours: &str, theirs: &str) -> Result<f64> {
        time_to_run(
            self.command()
                .args(["merge-tree", "--write-tree", ours, theirs]),
        )
    }

    fn command(&self) -> Command {
        let mut command = clean_git();
        command
            .current_dir(&self.work_tree)
            .env("GIT_DIR", &self.repository)
            .env("GIT_WORK_TREE", &self.work_tree);
        command
    }

    fn fast_import(&self, feed: impl FnOnce(&mut Stream) -> Result<()>) -> Result<()> {
        let mut child = self
            .command()
            .args(["fast-import", "--quiet", "--depth=0"])
            .stdin(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().context("it has no input")?;
        let mut stream = BufWriter::with_capacity(1 << 20, stdin);
        let fed = feed(&mut stream).and_then(|()| Ok(stream.flush()?));
        drop(stream);
        let status = child.wait()?;
        ensure!(status.success(), "it failed ({status})");
        fed
    }
}

/// What `git fast-import` reads.
type Stream = BufWriter<ChildStdin>;

fn feed(stream: &mut Stream, data: &dyn Dataset) -> Result<()> {
    begin_commit(stream, BRANCH)?;
    (0..data.files()).try_for_each(|index| put(stream, &data.path(index), &data.content(index)))
}

fn begin_commit(stream: &mut Stream, branch: &str) -> Result<()> {
    writeln!(stream, "commit refs/heads/{branch}")?;
    writeln!(stream, "committer Bench <bench@localhost> 1700000000 +0000")?;
    Ok(writeln!(stream, "data 4\nbase")?)
}

fn put(stream: &mut Stream, path: &str, content: &[u8]) -> Result<()> {
    writeln!(stream, "M 100644 inline {path}")?;
    writeln!(stream, "data {}", content.len())?;
    stream.write_all(content)?;
    Ok(stream.write_all(b"\n")?)
}

fn clean_git() -> Command {
    let mut command = clean_command("git");
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "Bench")
        .env("GIT_AUTHOR_EMAIL", "bench@localhost")
        .env("GIT_COMMITTER_NAME", "Bench")
        .env("GIT_COMMITTER_EMAIL", "bench@localhost")
        .args(["-c", "gc.auto=0"]);
    command
}
