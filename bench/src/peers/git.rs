//! Git with its defaults, but without automatic garbage collection and without a user's settings.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::command::{clean_command, time_to_run};
use crate::data::Dataset;

const BRANCH: &str = "main";

/// A repository and its separate work tree: the work tree contains only the data.
#[derive(Debug)]
pub(crate) struct Git {
    repository: PathBuf,
    work_tree: PathBuf,
}

impl Git {
    /// Creates an empty repository.
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

    /// Creates a repository whose only commit holds `data`, which is already in `work_tree`. All of
    /// it is in one pack, as after a clone; the index has the files' state on disk.
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

    /// Times `git add -A`.
    pub(crate) fn time_to_add_all(&self) -> Result<f64> {
        time_to_run(self.command().args(["add", "-A"]))
    }

    /// Times `git status` with the untracked cache.
    pub(crate) fn time_of_status(&self) -> Result<f64> {
        let status = ["-c", "core.untrackedCache=true", "status", "--porcelain"];
        time_to_run(self.command().args(status))
    }

    /// Times `git add -A` and `git commit` together.
    pub(crate) fn time_to_commit_all(&self) -> Result<f64> {
        self.time_to_commit("-A")
    }

    /// Times `git add FILE` and `git commit` together.
    pub(crate) fn time_to_commit(&self, file: &str) -> Result<f64> {
        let add = time_to_run(self.command().args(["add", file]))?;
        let commit = time_to_run(self.command().args(["commit", "--quiet", "-m", "edit"]))?;
        Ok(add + commit)
    }

    /// Times `git checkout` into the work tree of a new clone at `directory`. The clone itself,
    /// which shares all objects, does not count.
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

    /// Times `git worktree add` with a detached head at `directory`.
    pub(crate) fn time_to_add_worktree(&self, directory: &Path) -> Result<f64> {
        let add = ["worktree", "add", "--quiet", "--detach"];
        let mut command = clean_git();
        command.env("GIT_DIR", &self.repository);
        time_to_run(command.args(add).arg(directory))
    }

    /// Creates a branch that changes `files` of the main branch.
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

    /// Times `git merge` of a branch into the main branch and the work tree.
    pub(crate) fn time_to_merge(&self, branch: &str) -> Result<f64> {
        time_to_run(
            self.command()
                .args(["merge", "--quiet", "--no-edit", branch]),
        )
    }

    /// Times `git merge-tree` of two branches, without a work tree.
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

/// The input of `git fast-import`.
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
