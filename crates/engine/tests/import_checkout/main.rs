//! Imports and checkouts on a real file system, compared with the model.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod conflicts;
mod holes;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use elevo_core::{Name, TreePath};
use elevo_engine::{
    CheckoutOptions, CheckoutReport, CloneSource, Error, ExistingContent, ImportOptions, Imported,
    LossKind, Progress, Repository, StateTree, checkout, import,
};
use elevo_objects::{Mode, Snapshot};
use futures::executor::block_on;
use proptest::prelude::*;
use support::{Model, Thing, info, noise, path, read_all, repository, write_all};

fn read_in(repository: &Repository, directory: &Path) -> Imported {
    let options = ImportOptions {
        threads: 2,
        leave_out: vec![left_out()],
        ignoring: None,
    };
    import(repository, directory, &options, &Progress::new()).unwrap()
}

fn left_out() -> Name {
    Name::copy_from(b".elevo").unwrap()
}

fn snapshot_of(repository: &Repository, imported: Imported) -> Snapshot {
    let id = block_on(imported.commit(repository, info("import"))).unwrap();
    block_on(repository.snapshot(id)).unwrap()
}

fn import_snapshot(repository: &Repository, directory: &Path) -> Snapshot {
    snapshot_of(repository, read_in(repository, directory))
}

fn options() -> CheckoutOptions {
    CheckoutOptions {
        threads: 2,
        leave_out: vec![left_out()],
        ignoring: None,
        force: false,
        clone_source: None,
        owner: None,
    }
}

fn forced() -> CheckoutOptions {
    CheckoutOptions {
        force: true,
        ..options()
    }
}

fn write_out(
    repository: &Repository,
    snapshot: &Snapshot,
    directory: &Path,
    present: &ExistingContent,
    options: &CheckoutOptions,
) -> Result<CheckoutReport, Error> {
    checkout(
        repository,
        snapshot,
        directory,
        present,
        options,
        &Progress::new(),
    )
}

/// Returns the content of a directory, read with the standard library alone.
fn on_disk(directory: &Path) -> Model {
    let mut model = Model::new();
    let mut open = vec![(directory.to_path_buf(), TreePath::root())];
    while let Some((at, tree_path)) = open.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let entry = entry.unwrap();
            let name = Name::copy_from(entry.file_name().as_bytes()).unwrap();
            if tree_path.is_root() && name == left_out() {
                continue;
            }
            let below = tree_path.join(&name).unwrap();
            let metadata = entry.path().symlink_metadata().unwrap();
            let mode = Mode::from_bits(metadata.mode());
            let thing = if metadata.is_dir() {
                open.push((entry.path(), below.clone()));
                Thing::Directory(mode)
            } else if metadata.is_symlink() {
                let target = fs::read_link(entry.path()).unwrap();
                Thing::Link(target.as_os_str().as_bytes().to_vec())
            } else {
                Thing::File(mode, fs::read(entry.path()).unwrap())
            };
            model.insert(below, thing);
        }
    }
    model
}

fn any_tree() -> impl Strategy<Value = Model> {
    let name = prop_oneof![
        5 => prop::sample::select(vec![&b"a"[..], b"b", b"sub", b"x y", b"\xff\xfe", b"new\nline"]),
    ];
    let names = prop::collection::vec(name, 1..4);
    let mode = prop::sample::select(vec![0o644, 0o755, 0o700, 0o444, 0o555]);
    let thing = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..50).prop_map(Some),
        1 => (any::<u64>(), 20_000..400_000_usize).prop_map(|(s, n)| Some(noise(s, n))),
        1 => (20_000..900_000_usize).prop_map(|n| Some(vec![0; n])),
        1 => Just(None),
    ];
    let link = prop::option::weighted(0.1, prop::collection::vec(1..255_u8, 1..9));
    prop::collection::vec((names, mode, thing, link), 0..25).prop_map(|entries| {
        let mut model = Model::new();
        for (names, mode, data, link) in entries {
            let mode = Mode::from_bits(mode);
            let at = TreePath::new(names.join(&b'/')).unwrap();
            let mut parents = Vec::new();
            let mut above = at.split_last();
            while let Some((parent, _)) = above.filter(|(parent, _)| !parent.is_root()) {
                above = parent.split_last();
                parents.push(parent);
            }
            let blocked = parents.iter().any(|p| {
                model
                    .get(p)
                    .is_some_and(|thing| !matches!(thing, Thing::Directory(_)))
            });
            if blocked || model.contains_key(&at) {
                continue;
            }
            for parent in parents {
                model
                    .entry(parent)
                    .or_insert(Thing::Directory(Mode::EXECUTABLE));
            }
            model.insert(
                at,
                match (data, link) {
                    (_, Some(target)) => Thing::Link(target),
                    (Some(data), None) => Thing::File(mode, data),
                    (None, None) => Thing::Directory(mode),
                },
            );
        }
        model
    })
}

fn commit_model(repository: &Repository, model: &Model) -> Snapshot {
    let tree = write_all(repository, model);
    let id = block_on(tree.commit(info("model"))).unwrap();
    block_on(repository.snapshot(id)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_checkout_writes_the_model_and_an_import_reads_it_back(model in any_tree()) {
        let (_, repository) = repository();
        let snapshot = commit_model(&repository, &model);
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out");
        write_out(&repository, &snapshot, &target, &ExistingContent::Unknown, &options()).unwrap();
        prop_assert_eq!(&on_disk(&target), &model);
        let again = import_snapshot(&repository, &target);
        prop_assert_eq!(again.tree, snapshot.tree);
        let reread = StateTree::at(&repository, &again);
        prop_assert_eq!(&read_all(&reread), &model);
    }

    #[test]
    fn every_way_from_one_state_to_another_ends_there(before in any_tree(), after in any_tree()) {
        let (_, repository) = repository();
        let (first, second) =
            (commit_model(&repository, &before), commit_model(&repository, &after));
        for present in [
            ExistingContent::Recorded(first.clone()),
            ExistingContent::Checked(first.clone()),
            ExistingContent::Unknown,
        ] {
            let directory = tempfile::tempdir().unwrap();
            let target = directory.path();
            write_out(&repository, &first, target, &ExistingContent::Unknown, &options()).unwrap();
            let options =
                if matches!(present, ExistingContent::Unknown) { forced() } else { options() };
            write_out(&repository, &second, target, &present, &options).unwrap();
            prop_assert_eq!(&on_disk(target), &after);
        }
    }
}

#[test]
fn modification_times_survive_a_full_checkout_and_not_a_partial_one() {
    let (_, repository) = repository();
    let source = tempfile::tempdir().unwrap();
    fs::create_dir(source.path().join("dir")).unwrap();
    fs::write(source.path().join("dir/old"), "old").unwrap();
    fs::write(source.path().join("kept"), "kept").unwrap();
    symlink("old", source.path().join("dir/link")).unwrap();
    let past = fs::FileTimes::new()
        .set_modified(std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000, 123_456_789));
    for name in ["dir/old", "kept", "dir"] {
        fs::File::open(source.path().join(name))
            .unwrap()
            .set_times(past)
            .unwrap();
    }
    let first = import_snapshot(&repository, source.path());
    assert!(first.times.is_some());
    let out = tempfile::tempdir().unwrap();
    write_out(
        &repository,
        &first,
        out.path(),
        &ExistingContent::Unknown,
        &options(),
    )
    .unwrap();
    for name in ["dir/old", "kept", "dir"] {
        let metadata = fs::metadata(out.path().join(name)).unwrap();
        assert_eq!(
            (metadata.mtime(), metadata.mtime_nsec()),
            (1_000_000, 123_456_789),
            "{name}"
        );
    }

    let tree = StateTree::at(&repository, &first);
    block_on(tree.write(&path("dir/old"), "new".into(), Default::default())).unwrap();
    let id = block_on(tree.commit(info("edit"))).unwrap();
    let second = block_on(repository.snapshot(id)).unwrap();
    let present = ExistingContent::Recorded(first);
    write_out(&repository, &second, out.path(), &present, &options()).unwrap();
    assert!(fs::metadata(out.path().join("dir/old")).unwrap().mtime() > 1_000_000);
    assert_eq!(
        fs::metadata(out.path().join("kept")).unwrap().mtime(),
        1_000_000
    );
}

#[test]
fn losses_of_an_import_are_reported_once() {
    let (_, repository) = repository();
    let source = tempfile::tempdir().unwrap();
    let at = |name: &str| source.path().join(name);
    fs::write(at("file"), "x").unwrap();
    fs::hard_link(at("file"), at("again")).unwrap();
    fs::write(at("setuid"), "x").unwrap();
    fs::set_permissions(at("setuid"), fs::Permissions::from_mode(0o4755)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for name in ["pipe1", "pipe2"] {
        let status = std::process::Command::new("mkfifo")
            .arg(at(name))
            .status()
            .unwrap();
        assert!(status.success());
    }
    let imported = read_in(&repository, source.path());
    let losses: BTreeMap<_, _> = imported
        .losses
        .iter()
        .map(|loss| (loss.kind, loss.count))
        .collect();
    assert_eq!(losses[&LossKind::HardLink], 2);
    assert_eq!(losses[&LossKind::SpecialBits], 1);
    assert_eq!(losses[&LossKind::Socket], 1);
    assert_eq!(losses[&LossKind::Pipe], 2);
    let snapshot = snapshot_of(&repository, imported);
    let tree = read_all(&StateTree::at(&repository, &snapshot));
    let names: Vec<_> = tree.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["again", "file", "setuid"]);
    assert_eq!(
        tree[&path("setuid")],
        Thing::File(Mode::from_bits(0o755), b"x".to_vec())
    );
}

#[test]
fn a_change_of_mode_leaves_other_names_of_the_file_alone() {
    let (_, repository) = repository();
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::write(at("file"), "x").unwrap();
    fs::hard_link(at("file"), at("again")).unwrap();
    let first = read_in(&repository, place.path());
    let first = snapshot_of(&repository, first);
    let tree = StateTree::at(&repository, &first);
    block_on(tree.set_mode(&path("again"), Mode::from_bits(0o755))).unwrap();
    let second = block_on(tree.commit(info("run it"))).unwrap();
    let second = block_on(repository.snapshot(second)).unwrap();
    for (now, next) in [(&first, &second), (&second, &first)] {
        let present = ExistingContent::Recorded(now.clone());
        write_out(&repository, next, place.path(), &present, &options()).unwrap();
        assert_eq!(read_in(&repository, place.path()).tree, next.tree);
    }
}

#[test]
fn directories_deeper_than_descriptors_go_both_ways() {
    let (_, repository) = repository();
    let deep = path(&vec!["d"; 1500].join("/"));
    let tree = StateTree::empty(&repository);
    block_on(tree.write(&deep, "x".into(), Default::default())).unwrap();
    let id = block_on(tree.commit(info("deep"))).unwrap();
    let snapshot = block_on(repository.snapshot(id)).unwrap();
    let out = tempfile::tempdir().unwrap();
    write_out(
        &repository,
        &snapshot,
        out.path(),
        &ExistingContent::Unknown,
        &options(),
    )
    .unwrap();
    let again = import_snapshot(&repository, out.path());
    assert_eq!(again.tree, snapshot.tree);
    let empty = commit_model(&repository, &Model::new());
    let present = ExistingContent::Recorded(snapshot);
    write_out(&repository, &empty, out.path(), &present, &options()).unwrap();
    assert!(on_disk(out.path()).is_empty());
}

#[test]
fn names_left_out_are_neither_read_nor_touched() {
    let (_, repository) = repository();
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join(".elevo")).unwrap();
    fs::write(directory.path().join(".elevo/store"), "store").unwrap();
    fs::write(directory.path().join("file"), "file").unwrap();
    let snapshot = import_snapshot(&repository, directory.path());
    assert_eq!(snapshot.tree.count, 1);
    let empty = commit_model(&repository, &Model::new());
    write_out(
        &repository,
        &empty,
        directory.path(),
        &ExistingContent::Unknown,
        &forced(),
    )
    .unwrap();
    assert_eq!(
        fs::read(directory.path().join(".elevo/store")).unwrap(),
        b"store"
    );
    assert!(!directory.path().join("file").exists());
}

#[test]
fn a_seed_that_cannot_be_cloned_or_has_changed_size_does_no_harm() {
    let (_, repository) = repository();
    let model: Model = [
        (path("same"), Thing::File(Mode::FILE, noise(1, 100_000))),
        (path("shorter"), Thing::File(Mode::FILE, noise(2, 5_000))),
    ]
    .into();
    let snapshot = commit_model(&repository, &model);
    let clone_source = tempfile::tempdir().unwrap();
    write_out(
        &repository,
        &snapshot,
        clone_source.path(),
        &ExistingContent::Unknown,
        &options(),
    )
    .unwrap();
    fs::write(clone_source.path().join("shorter"), "changed").unwrap();
    let out = tempfile::tempdir().unwrap();
    let with_seed = CheckoutOptions {
        clone_source: Some(CloneSource {
            directory: clone_source.path().into(),
            snapshot: snapshot.clone(),
        }),
        ..options()
    };
    write_out(
        &repository,
        &snapshot,
        out.path(),
        &ExistingContent::Unknown,
        &with_seed,
    )
    .unwrap();
    assert_eq!(on_disk(out.path()), model);
}
