//! Checkouts over files that the user has changed, and links that lead out of
//! the directory.

use std::fs;
use std::os::unix::fs::symlink;

use elevo_engine::{CheckoutOptions, Error, ExistingContent, Progress, checkout};
use elevo_objects::Mode;

use crate::support::{Model, Thing, path, repository};
use crate::{commit_model, forced, import_snapshot, on_disk, options, read_in, write_out};

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
            &ExistingContent::Unknown,
            &options(),
        )
        .unwrap();
        fs::write(out.path().join(changed), "mine").unwrap();
        let held = on_disk(out.path());
        for present in [
            ExistingContent::Recorded(first.clone()),
            ExistingContent::Checked(first.clone()),
            ExistingContent::Unknown,
        ] {
            let refused = write_out(&repository, &second, out.path(), &present, &options());
            assert!(matches!(refused, Err(Error::InTheWay { count: found, .. }) if found >= count));
            assert_eq!(on_disk(out.path()), held, "nothing may change");
        }
        let present = ExistingContent::Recorded(first.clone());
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
    write_out(
        &repository,
        &first,
        target,
        &ExistingContent::Unknown,
        &options(),
    )
    .unwrap();
    fs::write(target.join("d/sub/mine"), "mine").unwrap();
    let held = on_disk(target);
    let present = ExistingContent::Recorded(first);
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
        &ExistingContent::Unknown,
        &options(),
    )
    .unwrap();
    fs::write(out.path().join("b"), "mine").unwrap();
    let checked = ExistingContent::Checked(first.clone());
    let refused = write_out(&repository, &second, out.path(), &checked, &options());
    assert!(matches!(refused, Err(Error::InTheWay { .. })));
    let recorded = ExistingContent::Recorded(first);
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
            (&snapshot, ExistingContent::Unknown),
            (&changed, ExistingContent::Recorded(snapshot.clone())),
            (&changed, ExistingContent::Checked(snapshot.clone())),
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
    let present = ExistingContent::Found {
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
