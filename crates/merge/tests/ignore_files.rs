//! Importing, importing again and checking out directories with files that
//! `.gitignore` names.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use elevo_core::{Name, TenantId, Timestamp, TreePath};
use elevo_engine::{
    Attributes, CheckoutOptions, CommitInfo, DEFAULT_CACHE_BYTES, EntryKind, Error,
    ExistingContent, Ignoring, ImportOptions, MemoryStore, NewStatCache, Progress, Repository,
    StateTree, checkout, import, import_with_cache,
};
use elevo_merge::IgnoreFiles;
use elevo_objects::{Snapshot, SnapshotId, Tree};
use elevo_testkit::file_clock::wait_for_tick;
use futures::executor::block_on;

fn repository() -> Repository {
    let store = Arc::new(MemoryStore::default());
    Repository::new(store, TenantId::new([7; 16]), DEFAULT_CACHE_BYTES)
}

fn info() -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: "somebody".into(),
        message: String::new(),
        created: Timestamp::new(0, 0).unwrap(),
        labels: Default::default(),
        reference: None,
    }
}

fn options(tracked: &[&Snapshot]) -> ImportOptions {
    ImportOptions {
        threads: 2,
        leave_out: vec![Name::reserved()],
        ignoring: Some(Ignoring {
            rules: Arc::new(IgnoreFiles::default()),
            tracked: tracked.iter().map(|snapshot| snapshot.tree).collect(),
        }),
    }
}

fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn commit(repository: &Repository, directory: &Path, tracked: &[&Snapshot]) -> Snapshot {
    let read = import(repository, directory, &options(tracked), &Progress::new()).unwrap();
    let id = block_on(read.commit(repository, info())).unwrap();
    block_on(repository.snapshot(id)).unwrap()
}

/// The files of a snapshot, without directories.
fn files(repository: &Repository, snapshot: &Snapshot) -> Vec<String> {
    let tree = StateTree::at(repository, snapshot);
    let mut found = Vec::new();
    let mut open = vec![TreePath::root()];
    while let Some(directory) = open.pop() {
        for (name, stat) in block_on(tree.list(&directory, None, 100)).unwrap() {
            let path = directory.join(&name).unwrap();
            match stat.kind {
                EntryKind::Directory => open.push(path),
                _ => found.push(path.to_string()),
            }
        }
    }
    found.sort();
    found
}

const FILES: [(&str, &str); 9] = [
    (".gitignore", "node_modules\n*.log\n!kept.log\n"),
    (".git/config", "of git"),
    (".elevo/store/db", "of elevo"),
    ("src/main", "main"),
    ("src/debug.log", "log"),
    ("src/kept.log", "meant"),
    ("src/.gitignore", "/main.o\n"),
    ("src/main.o", "object"),
    ("lib/node_modules/a/index", "code of others"),
];

#[test]
fn ignored_files_are_left_out_at_every_depth() {
    let (repository, directory) = (repository(), tempfile::tempdir().unwrap());
    write(directory.path(), &FILES);
    write(
        directory.path(),
        &[("lib/.git", "gitdir: x"), ("lib/.elevo/checkout", "{}")],
    );
    let snapshot = commit(&repository, directory.path(), &[]);
    assert_eq!(
        files(&repository, &snapshot),
        [".gitignore", "src/.gitignore", "src/kept.log", "src/main"]
    );
}

#[test]
fn tracked_files_are_not_ignored() {
    let (repository, directory) = (repository(), tempfile::tempdir().unwrap());
    write(
        directory.path(),
        &[("src/a.log", "tracked"), ("out/x/b", "tracked")],
    );
    let first = commit(&repository, directory.path(), &[]);
    write(
        directory.path(),
        &[
            (".gitignore", "*.log\nout\n"),
            ("src/b.log", "not tracked"),
            ("out/x/c", "not tracked"),
            ("src/a.log", "changed"),
        ],
    );
    let second = commit(&repository, directory.path(), &[&first]);
    assert_eq!(
        files(&repository, &second),
        [".gitignore", "out/x/b", "src/a.log"]
    );
    let tree = StateTree::at(&repository, &second);
    let path = TreePath::new("src/a.log").unwrap();
    assert_eq!(block_on(tree.read(&path)).unwrap(), "changed");
}

/// Importing again uses the stat cache, which must not override the current
/// patterns.
#[test]
fn changed_patterns_apply_to_cached_files() {
    let (repository, directory) = (repository(), tempfile::tempdir().unwrap());
    let (root, stat) = (
        directory.path().join("files"),
        directory.path().join("stat"),
    );
    write(&root, &[("src/deep/a.o", "object"), ("src/deep/b", "text")]);
    let again = || {
        // Repeats until the stat cache trusts the directories and does not list
        // them.
        let mut last = None;
        for _ in 0..3 {
            wait_for_tick(directory.path());
            let cache = NewStatCache::begin(&stat).unwrap();
            let read =
                import_with_cache(&repository, &root, &options(&[]), &Progress::new(), &cache);
            let read = read.unwrap();
            let id: SnapshotId = block_on(read.commit(&repository, info())).unwrap();
            cache.finish(id).unwrap();
            last = Some(block_on(repository.snapshot(id)).unwrap());
        }
        files(&repository, &last.unwrap())
    };
    assert_eq!(again(), ["src/deep/a.o", "src/deep/b"]);
    write(&root, &[(".gitignore", "*.o\n")]);
    assert_eq!(again(), [".gitignore", "src/deep/b"]);
    write(&root, &[(".gitignore", "b\n")]);
    assert_eq!(again(), [".gitignore", "src/deep/a.o"]);
    fs::remove_file(root.join(".gitignore")).unwrap();
    assert_eq!(again(), ["src/deep/a.o", "src/deep/b"]);
}

fn check_out(
    repository: &Repository,
    (snapshot, present): (&Snapshot, &ExistingContent),
    directory: &Path,
    force: bool,
) -> Result<(), Error> {
    let options = CheckoutOptions {
        threads: 2,
        leave_out: vec![Name::reserved()],
        ignoring: Some(Arc::new(IgnoreFiles::default())),
        force,
        clone_source: None,
        owner: None,
    };
    let progress = Progress::new();
    checkout(
        repository, snapshot, directory, present, &options, &progress,
    )
    .map(drop)
}

#[test]
fn a_checkout_neither_removes_nor_stops_at_ignored_files() {
    let (repository, directory) = (repository(), tempfile::tempdir().unwrap());
    let root = directory.path();
    write(root, &FILES);
    let first = commit(&repository, root, &[]);
    write(root, &[("src/main", "another")]);
    let second = commit(&repository, root, &[&first]);
    for present in [
        ExistingContent::Checked(second.clone()),
        ExistingContent::Unknown,
    ] {
        let is_known = matches!(present, ExistingContent::Checked(_));
        // If the content of the directory is unknown, the changed file is in
        // the way, so the checkout is forced.
        check_out(&repository, (&first, &present), root, !is_known).unwrap();
        assert_eq!(fs::read_to_string(root.join("src/main")).unwrap(), "main");
        for (path, text) in FILES {
            assert_eq!(fs::read_to_string(root.join(path)).unwrap(), text, "{path}");
        }
        write(root, &[("src/main", "another")]);
    }
}

#[test]
fn a_checkout_does_not_overwrite_ignored_files_without_force() {
    let (repository, directory) = (repository(), tempfile::tempdir().unwrap());
    let root = directory.path();
    write(root, &[("secret", "of the snapshot")]);
    let first = commit(&repository, root, &[]);
    write(root, &[("secret", "mine"), (".gitignore", "secret\n")]);
    let refused = check_out(
        &repository,
        (&first, &ExistingContent::Unknown),
        root,
        false,
    );
    assert!(
        matches!(refused, Err(Error::InTheWay { .. })),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(root.join("secret")).unwrap(), "mine");
}

#[test]
fn a_checkout_never_writes_a_reserved_name() {
    let (repository, directory) = (repository(), tempfile::tempdir().unwrap());
    let root = directory.path();
    let tree = StateTree::empty(&repository);
    for path in [".elevo/store/FORMAT", "sub/.elevo/checkout", "file"] {
        let path = TreePath::new(path).unwrap();
        let written = tree.write(&path, "hostile".into(), Attributes::default());
        block_on(written).unwrap();
    }
    let id = block_on(tree.commit(info())).unwrap();
    let hostile = block_on(repository.snapshot(id)).unwrap();
    write(root, &[(".elevo/store/FORMAT", "mine")]);
    for force in [false, true] {
        check_out(
            &repository,
            (&hostile, &ExistingContent::Unknown),
            root,
            force,
        )
        .unwrap();
        assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "hostile");
        let mine = fs::read_to_string(root.join(".elevo/store/FORMAT"));
        assert_eq!(mine.unwrap(), "mine");
        assert!(!root.join("sub/.elevo").exists());
    }
    assert_ne!(hostile.tree, Tree::EMPTY);
}
