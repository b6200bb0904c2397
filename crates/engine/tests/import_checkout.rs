//! Imports and checkouts on a real file system, compared with the model.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use elevo_core::{Name, TreePath};
use elevo_engine::{
    CheckoutOptions, CheckoutReport, Error, ImportOptions, Imported, LossKind, Present, Progress,
    Repository, Seed, StateTree, VerifyOptions, checkout, import, verify,
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
        seed: None,
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
    present: &Present,
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
        write_out(&repository, &snapshot, &target, &Present::Unknown, &options()).unwrap();
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
            Present::Recorded(first.clone()),
            Present::Checked(first.clone()),
            Present::Unknown,
        ] {
            let directory = tempfile::tempdir().unwrap();
            let target = directory.path();
            write_out(&repository, &first, target, &Present::Unknown, &options()).unwrap();
            let options =
                if matches!(present, Present::Unknown) { forced() } else { options() };
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
        &Present::Unknown,
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
    let present = Present::Recorded(first);
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
        let present = Present::Recorded(now.clone());
        write_out(&repository, next, place.path(), &present, &options()).unwrap();
        assert_eq!(read_in(&repository, place.path()).tree, next.tree);
    }
}

#[test]
fn a_changed_file_is_not_overwritten_without_force() {
    let (_, repository) = repository();
    let before: Model = [("a", "1"), ("b", "1"), ("gone", "1")]
        .map(|(name, data)| (path(name), Thing::File(Mode::FILE, data.into())))
        .into();
    let after: Model = [("a", "2"), ("b", "1"), ("new", "2")]
        .map(|(name, data)| (path(name), Thing::File(Mode::FILE, data.into())))
        .into();
    let (first, second) = (
        commit_model(&repository, &before),
        commit_model(&repository, &after),
    );
    for (changed, count) in [("a", 1), ("gone", 1), ("new", 1)] {
        let out = tempfile::tempdir().unwrap();
        write_out(
            &repository,
            &first,
            out.path(),
            &Present::Unknown,
            &options(),
        )
        .unwrap();
        fs::write(out.path().join(changed), "mine").unwrap();
        let held = on_disk(out.path());
        for present in [
            Present::Recorded(first.clone()),
            Present::Checked(first.clone()),
            Present::Unknown,
        ] {
            let refused = write_out(&repository, &second, out.path(), &present, &options());
            assert!(matches!(refused, Err(Error::InTheWay { count: found, .. }) if found >= count));
            assert_eq!(on_disk(out.path()), held, "nothing may change");
        }
        let present = Present::Recorded(first.clone());
        write_out(&repository, &second, out.path(), &present, &forced()).unwrap();
        assert_eq!(on_disk(out.path()), after);
    }
}

#[test]
fn a_directory_with_something_new_in_it_is_not_replaced_by_a_file() {
    let (_, repository) = repository();
    let before: Model = [
        (path("d"), Thing::Directory(Mode::EXECUTABLE)),
        (path("d/sub"), Thing::Directory(Mode::EXECUTABLE)),
        (path("d/sub/f"), Thing::File(Mode::FILE, b"1".to_vec())),
    ]
    .into();
    let after: Model = [(path("d"), Thing::File(Mode::FILE, b"2".to_vec()))].into();
    let (first, second) = (
        commit_model(&repository, &before),
        commit_model(&repository, &after),
    );
    let out = tempfile::tempdir().unwrap();
    let target = out.path();
    write_out(&repository, &first, target, &Present::Unknown, &options()).unwrap();
    fs::write(target.join("d/sub/mine"), "mine").unwrap();
    let held = on_disk(target);
    let present = Present::Recorded(first);
    let refused = write_out(&repository, &second, target, &present, &options());
    assert!(matches!(refused, Err(Error::InTheWay { count: 1, .. })));
    assert_eq!(on_disk(target), held, "nothing may change");
    fs::remove_file(target.join("d/sub/mine")).unwrap();
    write_out(&repository, &second, target, &present, &options()).unwrap();
    assert_eq!(on_disk(target), after);
}

#[test]
fn a_change_elsewhere_is_seen_only_by_a_check() {
    let (_, repository) = repository();
    let before: Model = [("a", "1"), ("b", "1")]
        .map(|(name, data)| (path(name), Thing::File(Mode::FILE, data.into())))
        .into();
    let mut after = before.clone();
    after.insert(path("a"), Thing::File(Mode::FILE, b"2".to_vec()));
    let (first, second) = (
        commit_model(&repository, &before),
        commit_model(&repository, &after),
    );
    let out = tempfile::tempdir().unwrap();
    write_out(
        &repository,
        &first,
        out.path(),
        &Present::Unknown,
        &options(),
    )
    .unwrap();
    fs::write(out.path().join("b"), "mine").unwrap();
    let checked = Present::Checked(first.clone());
    let refused = write_out(&repository, &second, out.path(), &checked, &options());
    assert!(matches!(refused, Err(Error::InTheWay { .. })));
    let recorded = Present::Recorded(first);
    write_out(&repository, &second, out.path(), &recorded, &options()).unwrap();
    assert_eq!(fs::read(out.path().join("b")).unwrap(), b"mine");
    assert_eq!(fs::read(out.path().join("a")).unwrap(), b"2");
}

#[test]
fn neither_import_nor_checkout_follows_a_link_out_of_the_directory() {
    let (_, repository) = repository();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();

    // An import stores the link, not its target.
    let source = tempfile::tempdir().unwrap();
    symlink(outside.path(), source.path().join("dir")).unwrap();
    let imported = import_snapshot(&repository, source.path());
    assert_eq!(imported.tree.count, 1);

    // A checkout of `dir/secret` does not write through a planted link `dir`.
    let model: Model = [
        (path("dir"), Thing::Directory(Mode::EXECUTABLE)),
        (
            path("dir/secret"),
            Thing::File(Mode::FILE, b"overwritten".to_vec()),
        ),
        (path("dir/sub"), Thing::Directory(Mode::EXECUTABLE)),
        (path("dir/sub/x"), Thing::File(Mode::FILE, b"x".to_vec())),
    ]
    .into();
    let snapshot = commit_model(&repository, &model);
    let mut changed = model.clone();
    changed.insert(
        path("dir/secret"),
        Thing::File(Mode::FILE, b"again".to_vec()),
    );
    changed.remove(&path("dir/sub/x"));
    let changed = commit_model(&repository, &changed);
    for force in [false, true] {
        for (target, present) in [
            (&snapshot, Present::Unknown),
            (&changed, Present::Recorded(snapshot.clone())),
            (&changed, Present::Checked(snapshot.clone())),
        ] {
            let out = tempfile::tempdir().unwrap();
            symlink(outside.path(), out.path().join("dir")).unwrap();
            let options = CheckoutOptions { force, ..options() };
            let _ = write_out(&repository, target, out.path(), &present, &options);
            let left: Vec<_> = fs::read_dir(outside.path()).unwrap().collect();
            assert_eq!(left.len(), 1, "{present:?} force {force}");
            assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
        }
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
        &Present::Unknown,
        &options(),
    )
    .unwrap();
    let again = import_snapshot(&repository, out.path());
    assert_eq!(again.tree, snapshot.tree);
    let empty = commit_model(&repository, &Model::new());
    let present = Present::Recorded(snapshot);
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
        &Present::Unknown,
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
fn a_hole_stays_a_hole() {
    let (_, repository) = repository();
    let source = tempfile::tempdir().unwrap();
    let file = fs::File::create(source.path().join("sparse")).unwrap();
    file.set_len(50_000_000).unwrap();
    let snapshot = import_snapshot(&repository, source.path());
    let out = tempfile::tempdir().unwrap();
    write_out(
        &repository,
        &snapshot,
        out.path(),
        &Present::Unknown,
        &options(),
    )
    .unwrap();
    let metadata = fs::metadata(out.path().join("sparse")).unwrap();
    assert_eq!(metadata.len(), 50_000_000);
    assert!(
        metadata.blocks() * 512 < 1_000_000,
        "{} blocks",
        metadata.blocks()
    );
}

/// Longer than any reader could read, on every file system.
#[test]
fn a_hole_of_any_length_costs_little() {
    let (store, repository) = repository();
    let source = tempfile::tempdir().unwrap();
    let file = fs::File::create(source.path().join("sparse")).unwrap();
    let length = [1 << 62, 15 << 40, 1 << 40]
        .into_iter()
        .find(|length| file.set_len(*length).is_ok())
        .unwrap();
    file.write_all_at(b"begins", 0).unwrap();
    file.write_all_at(b"the end", length - 7).unwrap();
    let snapshot = import_snapshot(&repository, source.path());
    assert_eq!(snapshot.tree.bytes, length);
    let (whole, progress) = (VerifyOptions::default(), Progress::new());
    let verified = verify(&*store, support::TENANT, &whole, &progress);
    assert!(block_on(verified).unwrap().is_whole());
    let out = tempfile::tempdir().unwrap();
    let present = Present::Unknown;
    write_out(&repository, &snapshot, out.path(), &present, &options()).unwrap();
    let out = fs::File::open(out.path().join("sparse")).unwrap();
    let metadata = out.metadata().unwrap();
    assert_eq!(metadata.len(), length);
    assert!(metadata.blocks() * 512 < 2_000_000, "{metadata:?}");
    let (mut begin, mut end) = ([0; 8], [0; 8]);
    out.read_exact_at(&mut begin, 0).unwrap();
    out.read_exact_at(&mut end, length - 8).unwrap();
    assert_eq!((&begin, &end), (b"begins\0\0", b"\0the end"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_file_with_holes_is_read_as_if_it_had_none(
        pieces in prop::collection::vec((0..3_000_000_u64, 0..200_000_usize), 0..5),
        tail in prop_oneof![Just(0), 0..3_000_000_u64],
    ) {
        let [sparse, full] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let file = fs::File::create(sparse.path().join("file")).unwrap();
        let mut data = Vec::new();
        for (hole, length) in pieces {
            data.resize(data.len() + hole as usize, 0);
            let piece = noise(hole, length);
            file.write_all_at(&piece, data.len() as u64).unwrap();
            data.extend_from_slice(&piece);
        }
        data.resize(data.len() + tail as usize, 0);
        file.set_len(data.len() as u64).unwrap();
        fs::write(full.path().join("file"), &data).unwrap();
        let (_, repository) = repository();
        let [sparse, full] = [sparse, full].map(|from| import_snapshot(&repository, from.path()));
        prop_assert_eq!(sparse.tree, full.tree);
    }
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
    let seed = tempfile::tempdir().unwrap();
    write_out(
        &repository,
        &snapshot,
        seed.path(),
        &Present::Unknown,
        &options(),
    )
    .unwrap();
    fs::write(seed.path().join("shorter"), "changed").unwrap();
    let out = tempfile::tempdir().unwrap();
    let with_seed = CheckoutOptions {
        seed: Some(Seed {
            directory: seed.path().into(),
            snapshot: snapshot.clone(),
        }),
        ..options()
    };
    write_out(
        &repository,
        &snapshot,
        out.path(),
        &Present::Unknown,
        &with_seed,
    )
    .unwrap();
    assert_eq!(on_disk(out.path()), model);
}

#[test]
fn a_tree_that_was_just_found_is_not_scanned_again() {
    let (_, repository) = repository();
    let directory = tempfile::tempdir().unwrap();
    let (before, after) = (
        directory.path().join("before"),
        directory.path().join("after"),
    );
    for (at, content) in [(&before, "old"), (&after, "new")] {
        fs::create_dir_all(at.join("d")).unwrap();
        fs::write(at.join("same"), "same").unwrap();
        fs::write(at.join("d/changed"), content).unwrap();
    }
    fs::write(before.join("gone"), "gone").unwrap();
    let target = import_snapshot(&repository, &after);
    let found = read_in(&repository, &before);
    let present = Present::Found {
        tree: found.tree,
        view: found.view(&repository),
    };
    let go = |options: &CheckoutOptions| {
        checkout(
            &repository,
            &target,
            &before,
            &present,
            options,
            &Progress::new(),
        )
    };
    assert!(matches!(
        go(&options()),
        Err(Error::InTheWay { count: 2, .. })
    ));
    let read = fs::metadata(before.join("same"))
        .unwrap()
        .modified()
        .unwrap();
    let report = go(&forced()).unwrap();
    assert_eq!((report.written, report.removed), (1, 1));
    assert_eq!(
        fs::metadata(before.join("same"))
            .unwrap()
            .modified()
            .unwrap(),
        read
    );
    assert_eq!(read_in(&repository, &before).tree, target.tree);
}
