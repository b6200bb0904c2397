//! Read-only workspaces that follow snapshots, on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use elevo_objects::SnapshotId;
use elevo_testkit::disk;
use elevo_workspace::{Error, NeverFreeze, ProviderKind, State};
use support::numbered::{create, follow, number_in, numbered, run};
use support::providers::on_every_provider_of_root;
use support::{AGENT, Fixture, id, info, mounts_below, owners, progress};

on_every_provider_of_root! {
    read_only_workspaces_cannot_be_written_to
    a_snapshot_of_a_read_only_workspace_is_its_base
    forks_are_writable_or_read_only
    read_only_workspaces_are_parked_resumed_and_removed
    a_follower_sees_the_new_snapshot_and_open_files_keep_the_old
    only_read_only_workspaces_follow
    an_interrupted_follow_is_finished
    layers_stay_while_files_in_them_are_open
}

/// Returns whether the tests run as root. As root, a workspace is made read-only
/// by a mount; otherwise by clearing the write bits of its files.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn read_only_workspaces_cannot_be_written_to(fixture: &Fixture) {
    let owned;
    let fixture = match is_root() {
        true => {
            owned = fixture.owned();
            &owned
        }
        false => fixture,
    };
    let workspaces = fixture.open();
    let files = create(fixture, &workspaces, "one", fixture.base);
    assert_eq!(fixture.times(&files)[Path::new("run")], fixture.modified);
    if is_root() {
        assert_eq!(
            fixture.plain_import(&files),
            fixture.snapshot_of(fixture.base).tree
        );
        let others = owners(&files);
        assert!(others.iter().all(|(_, owner)| *owner == AGENT));
        support::as_agent(&files, "! chmod u+w run && ! echo x > run && cat run");
    }
    let written = [
        fs::write(files.join("run"), "x").err(),
        fs::write(files.join("new"), "x").err(),
        fs::remove_file(files.join("src/main.rs")).err(),
        fs::rename(files.join("src"), files.join("moved")).err(),
        fs::create_dir(files.join("empty/new")).err(),
    ];
    assert!(written.iter().all(Option::is_some), "{written:?}");
    let home = workspaces.home(&id("one")).unwrap();
    fs::write(home.join("mine"), "mine").unwrap();
    assert!(matches!(
        workspaces.restore(&id("one"), fixture.base, &NeverFreeze, &progress()),
        Err(Error::ReadOnly(_))
    ));
    let decide = |_| Ok::<_, Error>(None);
    let rejected = workspaces.refresh(&id("one"), info(), &NeverFreeze, &progress(), decide);
    assert!(matches!(rejected, Err(Error::ReadOnly(_))));
}

fn a_snapshot_of_a_read_only_workspace_is_its_base(fixture: &Fixture) {
    let workspaces = fixture.open();
    create(fixture, &workspaces, "one", fixture.base);
    let read = progress();
    let taken = workspaces.snapshot(&id("one"), info(), &NeverFreeze, &read);
    let taken = taken.unwrap();
    assert_eq!((taken.id, taken.is_new), (fixture.base, false));
    assert_eq!((read.entries(), read.bytes()), (0, 0));
    let changes = workspaces.changes(&id("one"), &progress()).unwrap();
    assert!(changes.is_empty());
}

fn forks_are_writable_or_read_only(fixture: &Fixture) {
    let workspaces = fixture.open();
    create(fixture, &workspaces, "reader", fixture.base);
    let home = workspaces.home(&id("reader")).unwrap();
    fs::write(home.join("mine"), "mine").unwrap();
    let tree = fixture.snapshot_of(fixture.base).tree;
    workspaces
        .fork(
            &id("reader"),
            &[id("writer")],
            info(),
            &NeverFreeze,
            &progress(),
        )
        .unwrap();
    let writer = workspaces.path(&id("writer")).unwrap();
    assert_eq!(fixture.plain_import(&writer), tree);
    assert_eq!(fixture.times(&writer)[Path::new("run")], fixture.modified);
    let home = workspaces.home(&id("writer")).unwrap();
    assert_eq!(fs::read(home.join("mine")).unwrap(), b"mine");
    fs::write(writer.join("run"), "changed").unwrap();
    let into = [id("of-writer"), id("of-writer-2")];
    let taken = workspaces
        .fork_read_only(&id("writer"), &into, info(), &NeverFreeze, &progress())
        .unwrap();
    assert!(taken.is_new);
    fs::write(writer.join("run"), "changed again").unwrap();
    for id in &into {
        let files = workspaces.path(id).unwrap();
        assert_eq!(fs::read(files.join("run")).unwrap(), b"changed");
        assert!(fs::write(files.join("run"), "x").is_err());
        let record = workspaces.get(id).unwrap();
        assert_eq!((record.base, record.read_only), (taken.id, true));
    }
    workspaces
        .fork_read_only(&into[0], &[id("last")], info(), &NeverFreeze, &progress())
        .unwrap();
    let last = workspaces.path(&id("last")).unwrap();
    assert_eq!(fs::read(last.join("run")).unwrap(), b"changed");
}

fn read_only_workspaces_are_parked_resumed_and_removed(fixture: &Fixture) {
    let workspaces = fixture.open();
    let snapshots = numbered(fixture, 2);
    let files = create(fixture, &workspaces, "one", snapshots[0]);
    follow(&workspaces, "one", snapshots[1]);
    let home = workspaces.home(&id("one")).unwrap();
    fs::write(home.join("mine"), "mine").unwrap();
    workspaces
        .park(&id("one"), info(), &NeverFreeze, &progress())
        .unwrap();
    assert!(!files.exists());
    assert_eq!(workspaces.get(&id("one")).unwrap().state, State::Parked);
    let files = workspaces.resume(&id("one"), &progress()).unwrap();
    assert_eq!(fs::read(files.join("0")).unwrap(), b"1");
    assert!(fs::write(files.join("0"), "x").is_err());
    let home = workspaces.home(&id("one")).unwrap();
    assert_eq!(fs::read(home.join("mine")).unwrap(), b"mine");
    drop(workspaces);
    fixture.restart();

    let workspaces = fixture.open();
    let files = workspaces.path(&id("one")).unwrap();
    assert_eq!(fs::read(files.join("0")).unwrap(), b"1");
    follow(&workspaces, "one", snapshots[0]);
    assert_eq!(fs::read(files.join("0")).unwrap(), b"0");
    workspaces.remove(&id("one")).unwrap();
    assert!(!files.exists());
    assert_eq!(fixture.live_dirs(), [""; 0]);
    assert_eq!(mounts_below(&fixture.root.join("live")).len(), 0);
    workspaces.tidy().unwrap();
    assert_eq!(mounts_below(&fixture.root.join("views")).len(), 0);
    let left = fs::read_dir(fixture.root.join("views"));
    assert_eq!(left.map_or(0, Iterator::count), 0);
    let left = fs::read_dir(fixture.root.join("read"));
    assert_eq!(left.map_or(0, Iterator::count), 0);
}

fn a_follower_sees_the_new_snapshot_and_open_files_keep_the_old(fixture: &Fixture) {
    let workspaces = fixture.open();
    let snapshots = numbered(fixture, 6);
    let files = create(fixture, &workspaces, "one", snapshots[0]);
    let other = create(fixture, &workspaces, "other", snapshots[0]);
    let opened = fs::File::open(&files).unwrap();
    let file = fs::File::open(files.join("7")).unwrap();
    follow(&workspaces, "one", snapshots[1]);
    assert_eq!(number_in(&fs::File::open(&files).unwrap()), 1);
    assert_eq!(number_in(&opened), 0);
    assert_eq!(std::io::read_to_string(&file).unwrap(), "0");
    assert_eq!(number_in(&fs::File::open(&other).unwrap()), 0);
    assert_eq!(workspaces.path(&id("one")).unwrap(), files);
    assert_eq!(workspaces.get(&id("one")).unwrap().base, snapshots[1]);
    follow(&workspaces, "one", snapshots[1]);
    // A workspace can also follow an older snapshot, and one without common
    // history.
    for (number, to) in [(0, snapshots[0]), (5, snapshots[5])] {
        follow(&workspaces, "one", to);
        assert_eq!(number_in(&fs::File::open(&files).unwrap()), number);
    }
    follow(&workspaces, "one", fixture.base);
    assert_eq!(fs::read(files.join("run")).unwrap(), b"1234");
    if fixture.kind == ProviderKind::Overlay {
        assert_eq!(
            number_in(&opened),
            0,
            "an open directory keeps its snapshot"
        );
    }
    let nowhere = SnapshotId(elevo_objects::Hash::from_bytes([1; 32]));
    let lost = workspaces.follow(&id("one"), nowhere, &progress());
    assert!(matches!(lost, Err(Error::Engine(_))));
    assert_eq!(fs::read(files.join("run")).unwrap(), b"1234");
    drop(workspaces);
    let workspaces = fixture.open();
    assert_eq!(fs::read(files.join("run")).unwrap(), b"1234");
    assert_eq!(number_in(&fs::File::open(&other).unwrap()), 0);
    drop(workspaces);
}

fn only_read_only_workspaces_follow(fixture: &Fixture) {
    let workspaces = fixture.open();
    fixture.create(&workspaces, "writer");
    let rejected = workspaces.follow(&id("writer"), fixture.base, &progress());
    assert!(matches!(rejected, Err(Error::Writable(_))));
    assert!(matches!(
        workspaces.bind(&id("writer")),
        Err(Error::Writable(_))
    ));
    assert!(!workspaces.follows_in_containers(&id("writer")).unwrap());
    create(fixture, &workspaces, "reader", fixture.base);
    assert_eq!(
        workspaces.follows_in_containers(&id("reader")).unwrap(),
        is_root()
    );
    let bound = workspaces.bind(&id("reader"));
    if is_root() {
        let held = workspaces.follow(&id("reader"), fixture.base, &progress());
        assert!(
            matches!(held, Err(Error::Busy(_))),
            "the binding holds the lock"
        );
        workspaces.show(bound.unwrap()).unwrap();
    } else {
        assert!(matches!(bound, Err(Error::CannotFollow(_))));
    }
    follow(&workspaces, "reader", fixture.base);
}

/// Simulates a kill during a switch, while the old snapshot is still shown.
fn an_interrupted_follow_is_finished(fixture: &Fixture) {
    let workspaces = fixture.open();
    let snapshots = numbered(fixture, 3);
    let files = create(fixture, &workspaces, "one", snapshots[0]);
    if is_root() {
        let old = fixture.root.join("old");
        fs::create_dir(&old).unwrap();
        run(Command::new("mount").arg("--bind").arg(&files).arg(&old));
        follow(&workspaces, "one", snapshots[1]);
        run(Command::new("mount").arg("--bind").arg(&old).arg(&files));
        run(Command::new("umount").arg(&old));
        assert_eq!(fs::read(files.join("0")).unwrap(), b"0");
        drop(workspaces);
        let workspaces = fixture.open();
        assert_eq!(fs::read(files.join("0")).unwrap(), b"1");
        assert_eq!(mounts_below(&files).len(), 1, "no surplus mount is left");
        follow(&workspaces, "one", snapshots[2]);
        assert_eq!(mounts_below(&files).len(), 1);
    } else {
        let link = fs::read_link(&files).unwrap();
        follow(&workspaces, "one", snapshots[1]);
        fs::remove_file(&files).unwrap();
        std::os::unix::fs::symlink(link, &files).unwrap();
        workspaces.path(&id("one")).unwrap();
        assert_eq!(fs::read(files.join("0")).unwrap(), b"1");
    }
}

fn layers_stay_while_files_in_them_are_open(fixture: &Fixture) {
    if fixture.kind != ProviderKind::Overlay {
        // Other providers cannot detect open files.
        return;
    }
    let workspaces = fixture.open_without_spare_layers();
    let snapshots = numbered(fixture, 4);
    let files = create(fixture, &workspaces, "one", snapshots[0]);
    let opened = fs::File::open(&files).unwrap();
    let views = || fs::read_dir(fixture.root.join("views")).unwrap().count();
    follow(&workspaces, "one", fixture.base);
    for _ in 0..3 {
        workspaces.tidy().unwrap();
        assert_eq!(number_in(&opened), 0);
        assert_eq!(views(), 2);
    }
    // Simulates another process, which does not know of the open files and
    // shows the same view again.
    drop(workspaces);
    let workspaces = fixture.open_without_spare_layers();
    follow(&workspaces, "one", snapshots[0]);
    let again = fs::File::open(&files).unwrap();
    follow(&workspaces, "one", fixture.base);
    workspaces.tidy().unwrap();
    assert_eq!((number_in(&opened), number_in(&again)), (0, 0));
    drop(opened);
    workspaces.tidy().unwrap();
    assert_eq!(number_in(&again), 0);
    drop(again);
    workspaces.tidy().unwrap();
    assert_eq!(views(), 1);
    let layers = || {
        let entries = fs::read_dir(fixture.root.join("layers")).unwrap();
        let entries = entries.map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).count()
    };
    assert_eq!(layers(), 1, "the layer of the base");
}

/// Only the home of a read-only workspace can grow.
#[test]
fn the_limit_of_a_read_only_workspace_applies_to_its_home() {
    if !disk::in_own_namespace("the_limit_of_a_read_only_workspace_applies_to_its_home") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::pooled(directory.path());
    let workspaces = fixture.open();
    let create = |name, limit| {
        workspaces.create_read_only(&id(name), fixture.base, fixture.now(), limit, &progress())
    };
    create("limited", Some(support::LIMIT)).unwrap();
    create("unlimited", None).unwrap();
    let uppers = fs::read_dir(fixture.root.join("uppers")).unwrap().count();
    assert_eq!(uppers, 1, "without a limit it needs no subvolume");
    let fill = |name| {
        let home = workspaces.home(&id(name)).unwrap();
        let mut file = fs::File::create(home.join("big"))?;
        std::io::Write::write_all(&mut file, &vec![7; 2 * support::LIMIT as usize])?;
        file.sync_all()
    };
    assert!(fill("limited").is_err());
    fill("unlimited").unwrap();
    for name in ["limited", "unlimited"] {
        workspaces.remove(&id(name)).unwrap();
    }
    assert_eq!(
        fs::read_dir(fixture.root.join("uppers")).unwrap().count(),
        0
    );
}
