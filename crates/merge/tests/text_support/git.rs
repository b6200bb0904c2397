//! Merges many three-way cases with git: one commit for each version, with a
//! file for each case, and one `git merge-tree` of all.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cases::Case;

/// The result of git for a case.
#[derive(Debug)]
pub(crate) struct ByGit {
    pub(crate) conflict: bool,
    pub(crate) bytes: Vec<u8>,
}

/// A repository with all cases.
pub(crate) struct Git {
    directory: tempfile::TempDir,
    cases: usize,
}

impl Git {
    pub(crate) fn new(cases: &[Case]) -> Self {
        let directory = tempfile::tempdir().expect("a directory for a repository");
        let git = Self {
            directory,
            cases: cases.len(),
        };
        git.run(&["init", "--quiet", "--bare", "."]);
        let stream = git.path().join("stream");
        fs::write(&stream, import(cases)).expect("a stream of commits");
        git.run_on(&["fast-import", "--quiet"], &stream);
        git
    }

    /// The label of the base in git's markers.
    pub(crate) fn base_label(&self) -> String {
        let label = self.run(&["rev-parse", "--short", "base"]);
        String::from_utf8(label).expect("a hash").trim().to_owned()
    }

    /// All cases, merged in one of git's conflict styles.
    pub(crate) fn merged(&self, style: &str) -> Vec<ByGit> {
        let style = format!("merge.conflictStyle={style}");
        let mut command = self.command(&["-c", "merge.renames=false", "-c", &style]);
        command.args(["merge-tree", "--write-tree", "--name-only", "--no-messages"]);
        let output = command
            .args(["-z", "ours", "theirs"])
            .output()
            .expect("git");
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let output = String::from_utf8(output.stdout).expect("names of files");
        let mut fields = output.split('\0');
        let tree = fields.next().expect("a tree");
        let conflicts: HashSet<&str> = fields.collect();
        let contents = self.contents(tree);
        let named = contents.into_iter().enumerate();
        named
            .map(|(i, bytes)| ByGit {
                conflict: conflicts.contains(file_name(i).as_str()),
                bytes,
            })
            .collect()
    }

    fn contents(&self, tree: &str) -> Vec<Vec<u8>> {
        let requests: String = (0..self.cases)
            .map(|i| format!("{tree}:{}\n", file_name(i)))
            .collect();
        let file = self.path().join("requests");
        fs::write(&file, requests).expect("a list of files");
        let output = self.run_on(&["cat-file", "--batch"], &file);
        let mut rest = &output[..];
        (0..self.cases).map(|_| take_content(&mut rest)).collect()
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            // The objects are temporary, so they need neither fsync nor
            // compression.
            .args(["-c", "core.fsync=none", "-c", "core.compression=0"])
            .args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Vec<u8> {
        self.run_on(arguments, Path::new("/dev/null"))
    }

    fn run_on(&self, arguments: &[&str], input: &Path) -> Vec<u8> {
        let input = File::open(input).expect("input");
        let mut command = self.command(arguments);
        let output = command.stdin(Stdio::from(input)).output().expect("git");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {words}");
        output.stdout
    }
}

fn file_name(case: usize) -> String {
    format!("case{case:06}")
}

/// Takes one object of `git cat-file --batch`.
fn take_content(rest: &mut &[u8]) -> Vec<u8> {
    let end = rest
        .iter()
        .position(|&byte| byte == b'\n')
        .expect("a header");
    let header = std::str::from_utf8(&rest[..end]).expect("a header");
    let size = header.rsplit(' ').next().expect("a size");
    let size: usize = size.parse().unwrap_or_else(|_| panic!("{header}"));
    let content = rest[end + 1..][..size].to_vec();
    *rest = &rest[end + size + 2..];
    content
}

/// All versions, for `git fast-import`.
fn import(cases: &[Case]) -> Vec<u8> {
    let mut out = Vec::new();
    put_commit(&mut out, "base", cases, |case| case.base.as_deref());
    put_commit(&mut out, "ours", cases, |case| Some(&case.ours));
    put_commit(&mut out, "theirs", cases, |case| Some(&case.theirs));
    out
}

fn put_commit<'a>(
    out: &mut Vec<u8>,
    branch: &str,
    cases: &'a [Case],
    version: impl Fn(&'a Case) -> Option<&'a [u8]>,
) {
    let committer = "committer A <a@example.com> 1 +0000\ndata 0";
    writeln!(out, "commit refs/heads/{branch}\n{committer}").expect("memory");
    if branch != "base" {
        writeln!(out, "from refs/heads/base").expect("memory");
    }
    for (i, case) in cases.iter().enumerate() {
        if let Some(bytes) = version(case) {
            let name = file_name(i);
            writeln!(out, "M 100644 inline {name}\ndata {}", bytes.len()).expect("memory");
            out.extend_from_slice(bytes);
            out.push(b'\n');
        }
    }
}
