//! Merges three trees with git.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Model, Node};

/// The result of git.
pub(crate) struct ByGit {
    /// Conflicting paths.
    pub(crate) conflicts: BTreeSet<String>,
    /// Files and links of the result.
    pub(crate) tree: Model,
}

/// A repository with the three trees as commits.
pub(crate) struct Git(tempfile::TempDir);

impl Git {
    pub(crate) fn new(base: &Model, ours: &Model, theirs: &Model) -> Self {
        let git = Self(tempfile::tempdir().expect("a directory for a repository"));
        git.run(&["init", "--quiet", "--bare", "."]);
        let mut stream = Vec::new();
        for (branch, model) in [("base", base), ("ours", ours), ("theirs", theirs)] {
            put_commit(&mut stream, branch, model);
        }
        let file = git.0.path().join("stream");
        fs::write(&file, stream).expect("a stream of commits");
        git.run_on(&["fast-import", "--quiet"], &file);
        git
    }

    /// Merges with `git merge-tree`, which always follows renames, and before
    /// 2.46 cannot be limited to exact renames.
    pub(crate) fn merged(&self) -> ByGit {
        let mut command = self.command(&["-c", "merge.directoryRenames=false"]);
        // With this limit, git searches for inexact renames only among files of
        // the same name.
        command.args(["-c", "merge.renameLimit=1"]);
        command.args(["merge-tree", "--write-tree", "--name-only", "--no-messages"]);
        let output = command
            .args(["-z", "ours", "theirs"])
            .output()
            .expect("git");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{words}");
        let output = String::from_utf8(output.stdout).expect("names of files");
        let mut fields = output.split('\0').filter(|field| !field.is_empty());
        let tree = fields.next().expect("a tree");
        ByGit {
            conflicts: fields.map(str::to_owned).collect(),
            tree: self.tree(tree),
        }
    }

    fn tree(&self, tree: &str) -> Model {
        let listed = self.run(&["ls-tree", "-r", "-z", tree]);
        let listed = String::from_utf8(listed).expect("names of files");
        let entries: Vec<_> = listed
            .split('\0')
            .filter_map(|line| {
                let (what, name) = line.split_once('\t')?;
                let mut what = what.split(' ');
                let mode = what.next()?;
                Some((name.to_owned(), mode, what.nth(1)?))
            })
            .collect();
        let wanted: String = entries.iter().map(|(_, _, id)| format!("{id}\n")).collect();
        let file = self.0.path().join("wanted");
        fs::write(&file, wanted).expect("a list of objects");
        let contents = self.run_on(&["cat-file", "--batch"], &file);
        let mut rest = &contents[..];
        let entries = entries.into_iter().map(|(name, mode, _)| {
            let bytes = take_content(&mut rest);
            let node = match mode {
                "120000" => Node::Link(bytes),
                "100755" => Node::File(0o755, bytes),
                _ => Node::File(0o644, bytes),
            };
            (name, node)
        });
        entries.collect()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .current_dir(self.0.path())
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

/// Takes one object of `git cat-file --batch`.
fn take_content(rest: &mut &[u8]) -> Vec<u8> {
    let end = rest.iter().position(|&byte| byte == b'\n');
    let end = end.expect("a header");
    let header = std::str::from_utf8(&rest[..end]).expect("a header");
    let size = header.rsplit(' ').next().expect("a size");
    let size: usize = size.parse().unwrap_or_else(|_| panic!("{header}"));
    let content = rest[end + 1..][..size].to_vec();
    *rest = &rest[end + size + 2..];
    content
}

fn put_commit(out: &mut Vec<u8>, branch: &str, model: &Model) {
    let committer = "committer A <a@example.com> 1 +0000\ndata 0";
    writeln!(out, "commit refs/heads/{branch}\n{committer}").expect("memory");
    if branch != "base" {
        writeln!(out, "from refs/heads/base\ndeleteall").expect("memory");
    }
    for (at, node) in model {
        let (mode, bytes) = match node {
            Node::Directory(_) => continue,
            Node::Link(target) => ("120000", target),
            Node::File(mode, bytes) if mode & 0o100 != 0 => ("100755", bytes),
            Node::File(_, bytes) => ("100644", bytes),
        };
        writeln!(out, "M {mode} inline {at}\ndata {}", bytes.len()).expect("memory");
        out.extend_from_slice(bytes);
        out.push(b'\n');
    }
}
