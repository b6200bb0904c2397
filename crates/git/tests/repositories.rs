//! Reads real repositories, created by `git`.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "git needs settings")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use elevo_core::{TenantId, TreePath};
use elevo_engine::{Diff, MemoryStore, Repository};
use elevo_git::{Error, Reader, Source};
use elevo_objects::{Entry, Tree};
use futures::executor::block_on;

fn git(at: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(at)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .args([
            "-c",
            "user.name=Ada L\u{f6}ve",
            "-c",
            "user.email=ada@example.org",
        ])
        .args([
            "-c",
            "init.defaultBranch=main",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn commit(at: &Path, message: &str) {
    git(at, &["add", "-A"]);
    git(at, &["commit", "-q", "--allow-empty", "-m", message]);
}

fn store() -> Repository {
    let tenant = TenantId::new([7; 16]);
    Repository::new(Arc::new(MemoryStore::new()), tenant, 1 << 20)
}

/// Returns every path with its kind and content, as `git ls-tree -r` would.
fn listed(repository: &Repository, tree: Tree) -> Vec<(TreePath, &'static str, Vec<u8>)> {
    let mut found = Vec::new();
    let mut diff = Diff::new(repository, Tree::EMPTY, tree);
    while let Some(change) = block_on(diff.next()).unwrap() {
        let entry = change.kind.after().unwrap();
        let kind = match entry {
            Entry::Directory { .. } => continue,
            Entry::Link(_) => "120000",
            Entry::File { mode, .. } if mode.bits() == 0o755 => "100755",
            Entry::File { .. } => "100644",
        };
        let bytes = block_on(repository.bytes(entry)).unwrap().to_vec();
        found.push((change.path, kind, bytes));
    }
    found
}

/// Returns the same list as `listed`, as reported by git itself.
fn listed_by_git(at: &Path, revision: &str) -> Vec<(TreePath, &'static str, Vec<u8>)> {
    let output = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(at).args(arguments).output();
        output.unwrap().stdout
    };
    let mut found = Vec::new();
    let list = output(&["ls-tree", "-r", "-z", revision]);
    for line in list
        .split(|byte| *byte == 0)
        .filter(|line| !line.is_empty())
    {
        let tab = line.iter().position(|byte| *byte == b'\t').unwrap();
        let words: Vec<_> = std::str::from_utf8(&line[..tab])
            .unwrap()
            .split(' ')
            .collect();
        let kind = ["100644", "100755", "120000"]
            .into_iter()
            .find(|kind| *kind == words[0]);
        let Some(kind) = kind else { continue };
        let bytes = output(&["cat-file", "blob", words[2]]);
        found.push((TreePath::new(&line[tab + 1..]).unwrap(), kind, bytes));
    }
    found.sort();
    found
}

fn same(at: &Path, repository: &Repository, revision: &str) -> Tree {
    let source = Source::open(at, revision).unwrap();
    let mut reader = Reader::new(&source, repository);
    let tree = reader.read(&source.tip().unwrap()).unwrap();
    assert_eq!(listed(repository, tree), listed_by_git(at, revision));
    tree
}

/// Creates a history with every kind of entry that git has.
fn history(at: &Path) {
    git(at, &["init", "-q"]);
    fs::create_dir_all(at.join("src/deep/er")).unwrap();
    fs::write(at.join("src/deep/er/file"), "one\n").unwrap();
    fs::write(at.join("run"), "#!/bin/sh\n").unwrap();
    fs::write(
        at.join("spaces and \u{e4}\u{f6} \"quotes\"\t\n.txt"),
        "odd\n",
    )
    .unwrap();
    symlink("src/deep", at.join("link")).unwrap();
    fs::write(at.join("turns"), "a file\n").unwrap();
    commit(at, "first\n\nwith a body");
    fs::set_permissions(at.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(at.join("src"), at.join("lib")).unwrap();
    fs::remove_file(at.join("link")).unwrap();
    symlink("lib/deep", at.join("link")).unwrap();
    commit(at, "moved");
    commit(at, "nothing");
    fs::remove_file(at.join("turns")).unwrap();
    fs::create_dir(at.join("turns")).unwrap();
    fs::write(at.join("turns/into"), "a directory\n").unwrap();
    commit(at, "turned");
    git(at, &["checkout", "-q", "-b", "side"]);
    fs::write(at.join("side"), "side\n").unwrap();
    commit(at, "on the side");
    git(at, &["checkout", "-q", "main"]);
    fs::remove_dir_all(at.join("turns")).unwrap();
    fs::write(at.join("turns"), "a file again\n").unwrap();
    fs::write(at.join("large"), vec![b'x'; 3 << 20]).unwrap();
    commit(at, "turned back");
    git(at, &["merge", "-q", "--no-ff", "-m", "merged", "side"]);
}

#[test]
fn every_commit_is_read_as_git_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    history(at);
    let repository = store();
    let check = || {
        let source = Source::open(at, "HEAD").unwrap();
        let mut reader = Reader::new(&source, &repository);
        let mut messages = Vec::new();
        for commit in source.history(100).unwrap() {
            let commit = commit.unwrap();
            let tree = reader.read(&commit).unwrap();
            assert_eq!(listed(&repository, tree), listed_by_git(at, &commit.id));
            assert_eq!(commit.author, "Ada L\u{f6}ve <ada@example.org>");
            assert!(commit.seconds.unwrap() > 0);
            let first = commit.message.lines().next();
            messages.push(first.unwrap_or_default().to_owned());
        }
        assert_eq!(
            messages,
            [
                "first",
                "moved",
                "nothing",
                "turned",
                "turned back",
                "merged"
            ]
        );
    };
    check();
    git(at, &["gc", "-q", "--aggressive"]);
    git(at, &["pack-refs", "--all"]);
    check();
    assert_eq!(same(at, &repository, "HEAD"), same(at, &repository, "main"));
    same(at, &repository, "side");
    same(at, &repository, "HEAD~2");
}

#[test]
fn bare_linked_and_shallow_repositories_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("origin");
    fs::create_dir(&at).unwrap();
    history(&at);
    let repository = store();
    let whole = same(&at, &repository, "HEAD");
    git(
        directory.path(),
        &["clone", "-q", "--bare", "origin", "bare"],
    );
    assert_eq!(
        same(&directory.path().join("bare"), &repository, "HEAD"),
        whole
    );
    git(&at, &["worktree", "add", "-q", "../linked", "side"]);
    let linked = directory.path().join("linked");
    assert_eq!(
        same(&linked, &repository, "HEAD"),
        same(&at, &repository, "side")
    );
    let url = format!("file://{}", at.display());
    git(
        directory.path(),
        &["clone", "-q", "--depth", "2", &url, "shallow"],
    );
    let source = Source::open(&directory.path().join("shallow"), "HEAD").unwrap();
    assert_eq!(source.history(100).unwrap().len(), 2);
}

#[test]
fn submodules_are_left_out_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let (outer, inner) = (
        directory.path().join("outer"),
        directory.path().join("inner"),
    );
    for at in [&outer, &inner] {
        fs::create_dir(at).unwrap();
        git(at, &["init", "-q"]);
        fs::write(at.join("file"), "x").unwrap();
        commit(at, "first");
    }
    git(
        &outer,
        &["submodule", "--quiet", "add", "../inner", "below/module"],
    );
    commit(&outer, "second");
    let (repository, source) = (store(), Source::open(&outer, "HEAD").unwrap());
    let mut reader = Reader::new(&source, &repository);
    let tree = reader.read(&source.tip().unwrap()).unwrap();
    assert_eq!(reader.submodules(), 1);
    assert_eq!(listed(&repository, tree), listed_by_git(&outer, "HEAD"));
}

#[test]
fn unreadable_repositories_and_revisions_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    assert!(matches!(Source::open(at, "HEAD"), Err(Error::Open(_))));
    git(at, &["init", "-q"]);
    assert!(matches!(
        Source::open(at, "HEAD"),
        Err(Error::Revision { .. })
    ));
    fs::write(at.join("file"), "x").unwrap();
    commit(at, "first");
    commit(at, "second");
    for unknown in ["none", "HEAD~9", "HEAD:file", ""] {
        let opened = Source::open(at, unknown);
        assert!(matches!(opened, Err(Error::Revision { .. })), "{unknown}");
    }
    let source = Source::open(at, "HEAD").unwrap();
    assert!(matches!(source.history(1), Err(Error::TooLong(1))));
}
