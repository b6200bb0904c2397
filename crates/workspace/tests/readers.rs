//! Read-only workspaces that follow snapshots, on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use elevo_objects::SnapshotId;
use elevo_testkit::disk;
use elevo_workspace::{Error, NeverFreeze, ProviderKind, State};
use support::numbered::{create, follow, mounts, number_in, numbered, run};
use support::{AGENT, Bench, id, info, on_every_provider_of_root, owners, progress};

on_every_provider_of_root! {
    read_only_workspaces_cannot_be_written_to
    a_snapshot_of_what_is_only_read_is_its_base
    forks_can_be_written_to_or_only_read
    readers_are_parked_restarted_and_removed
    a_follower_sees_the_new_snapshot_and_open_files_keep_the_old
    only_readers_follow
    a_follower_that_was_cut_off_shows_where_it_went
    layers_stay_while_files_in_them_are_open
}

/// Root can mount; for others, write bits are cleared.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn read_only_workspaces_cannot_be_written_to(bench: &Bench) {
    let owned;
    let bench = match is_root() {
        true => {
            owned = bench.owned();
            &owned
        }
        false => bench,
    };
    let workspaces = bench.open();
    let files = create(bench, &workspaces, "one", bench.base);
    assert_eq!(bench.times(&files)[Path::new("run")], bench.modified);
    if is_root() {
        assert_eq!(
            bench.plain_import(&files),
            bench.snapshot_of(bench.base).tree
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
        workspaces.restore(&id("one"), bench.base, &NeverFreeze, &progress()),
        Err(Error::ReadOnly(_))
    ));
    let decide = |_| Ok::<_, Error>(None);
    let refused = workspaces.refresh(&id("one"), info(), &NeverFreeze, &progress(), decide);
    assert!(matches!(refused, Err(Error::ReadOnly(_))));
}

fn a_snapshot_of_what_is_only_read_is_its_base(bench: &Bench) {
    let workspaces = bench.open();
    create(bench, &workspaces, "one", bench.base);
    let read = progress();
    let taken = workspaces.snapshot(&id("one"), info(), &NeverFreeze, &read);
    let taken = taken.unwrap();
    assert_eq!((taken.id, taken.is_new), (bench.base, false));
    assert_eq!((read.entries(), read.bytes()), (0, 0));
    let changes = workspaces.changes(&id("one"), &progress()).unwrap();
    assert!(changes.is_empty());
}

fn forks_can_be_written_to_or_only_read(bench: &Bench) {
    let workspaces = bench.open();
    create(bench, &workspaces, "reader", bench.base);
    let home = workspaces.home(&id("reader")).unwrap();
    fs::write(home.join("mine"), "mine").unwrap();
    let tree = bench.snapshot_of(bench.base).tree;
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
    assert_eq!(bench.plain_import(&writer), tree);
    assert_eq!(bench.times(&writer)[Path::new("run")], bench.modified);
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

fn readers_are_parked_restarted_and_removed(bench: &Bench) {
    let workspaces = bench.open();
    let snapshots = numbered(bench, 2);
    let files = create(bench, &workspaces, "one", snapshots[0]);
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
    bench.restart();

    let workspaces = bench.open();
    let files = workspaces.path(&id("one")).unwrap();
    assert_eq!(fs::read(files.join("0")).unwrap(), b"1");
    follow(&workspaces, "one", snapshots[0]);
    assert_eq!(fs::read(files.join("0")).unwrap(), b"0");
    workspaces.remove(&id("one")).unwrap();
    assert!(!files.exists());
    assert_eq!(bench.places(), [""; 0]);
    assert_eq!(mounts(&bench.root.join("live")), 0);
    workspaces.tidy().unwrap();
    assert_eq!(mounts(&bench.root.join("views")), 0);
    let left = fs::read_dir(bench.root.join("views"));
    assert_eq!(left.map_or(0, Iterator::count), 0);
    let left = fs::read_dir(bench.root.join("read"));
    assert_eq!(left.map_or(0, Iterator::count), 0);
}

fn a_follower_sees_the_new_snapshot_and_open_files_keep_the_old(bench: &Bench) {
    let workspaces = bench.open();
    let snapshots = numbered(bench, 6);
    let files = create(bench, &workspaces, "one", snapshots[0]);
    let other = create(bench, &workspaces, "other", snapshots[0]);
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
    // Also backwards, and to a snapshot without common history.
    for (number, to) in [(0, snapshots[0]), (5, snapshots[5])] {
        follow(&workspaces, "one", to);
        assert_eq!(number_in(&fs::File::open(&files).unwrap()), number);
    }
    follow(&workspaces, "one", bench.base);
    assert_eq!(fs::read(files.join("run")).unwrap(), b"1234");
    if bench.kind == ProviderKind::Overlay {
        assert_eq!(number_in(&opened), 0, "for as long as it is open");
    }
    let nowhere = SnapshotId(elevo_objects::Hash::from_bytes([1; 32]));
    let lost = workspaces.follow(&id("one"), nowhere, &progress());
    assert!(matches!(lost, Err(Error::Engine(_))));
    assert_eq!(fs::read(files.join("run")).unwrap(), b"1234");
    drop(workspaces);
    let workspaces = bench.open();
    assert_eq!(fs::read(files.join("run")).unwrap(), b"1234");
    assert_eq!(number_in(&fs::File::open(&other).unwrap()), 0);
    drop(workspaces);
}

fn only_readers_follow(bench: &Bench) {
    let workspaces = bench.open();
    bench.create(&workspaces, "writer");
    let refused = workspaces.follow(&id("writer"), bench.base, &progress());
    assert!(matches!(refused, Err(Error::Writable(_))));
    assert!(matches!(
        workspaces.bind(&id("writer")),
        Err(Error::Writable(_))
    ));
    assert!(!workspaces.shares(&id("writer")).unwrap());
    create(bench, &workspaces, "reader", bench.base);
    assert_eq!(workspaces.shares(&id("reader")).unwrap(), is_root());
    let bound = workspaces.bind(&id("reader"));
    if is_root() {
        let held = workspaces.follow(&id("reader"), bench.base, &progress());
        assert!(matches!(held, Err(Error::Busy(_))), "until it is shown");
        workspaces.show(bound.unwrap()).unwrap();
    } else {
        assert!(matches!(bound, Err(Error::CannotFollow(_))));
    }
    follow(&workspaces, "reader", bench.base);
}

/// As if killed between the two steps, with the old mount still on top.
fn a_follower_that_was_cut_off_shows_where_it_went(bench: &Bench) {
    let workspaces = bench.open();
    let snapshots = numbered(bench, 3);
    let files = create(bench, &workspaces, "one", snapshots[0]);
    if is_root() {
        let old = bench.root.join("old");
        fs::create_dir(&old).unwrap();
        run(Command::new("mount").arg("--bind").arg(&files).arg(&old));
        follow(&workspaces, "one", snapshots[1]);
        run(Command::new("mount").arg("--bind").arg(&old).arg(&files));
        run(Command::new("umount").arg(&old));
        assert_eq!(fs::read(files.join("0")).unwrap(), b"0");
        drop(workspaces);
        let workspaces = bench.open();
        assert_eq!(fs::read(files.join("0")).unwrap(), b"1");
        assert_eq!(mounts(&files), 1, "no surplus mount is left");
        follow(&workspaces, "one", snapshots[2]);
        assert_eq!(mounts(&files), 1);
    } else {
        let link = fs::read_link(&files).unwrap();
        follow(&workspaces, "one", snapshots[1]);
        fs::remove_file(&files).unwrap();
        std::os::unix::fs::symlink(link, &files).unwrap();
        workspaces.path(&id("one")).unwrap();
        assert_eq!(fs::read(files.join("0")).unwrap(), b"1");
    }
}

fn layers_stay_while_files_in_them_are_open(bench: &Bench) {
    if bench.kind != ProviderKind::Overlay {
        // Only overlays detect it; see `a_follower_sees_the_new_snapshot_and_open_files_keep_the_old`.
        return;
    }
    let workspaces = bench.open_without_spare_layers();
    let snapshots = numbered(bench, 4);
    let files = create(bench, &workspaces, "one", snapshots[0]);
    let opened = fs::File::open(&files).unwrap();
    let views = || fs::read_dir(bench.root.join("views")).unwrap().count();
    follow(&workspaces, "one", bench.base);
    for _ in 0..3 {
        workspaces.tidy().unwrap();
        assert_eq!(number_in(&opened), 0);
        assert_eq!(views(), 2);
    }
    // Another process, without knowledge of these files, and the same view
    // again.
    drop(workspaces);
    let workspaces = bench.open_without_spare_layers();
    follow(&workspaces, "one", snapshots[0]);
    let again = fs::File::open(&files).unwrap();
    follow(&workspaces, "one", bench.base);
    workspaces.tidy().unwrap();
    assert_eq!((number_in(&opened), number_in(&again)), (0, 0));
    drop(opened);
    workspaces.tidy().unwrap();
    assert_eq!(number_in(&again), 0);
    drop(again);
    workspaces.tidy().unwrap();
    assert_eq!(views(), 1);
    let layers = || {
        let entries = fs::read_dir(bench.root.join("layers")).unwrap();
        let entries = entries.map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).count()
    };
    assert_eq!(layers(), 1, "the layer of the base");
}

/// Only the home of a read-only workspace can grow.
#[test]
fn the_limit_of_a_reader_is_that_of_its_home() {
    if !disk::in_own_namespace("the_limit_of_a_reader_is_that_of_its_home") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let bench = Bench::pooled(directory.path());
    let workspaces = bench.open();
    let create = |name, limit| {
        workspaces.create_read_only(&id(name), bench.base, bench.now(), limit, &progress())
    };
    create("limited", Some(support::LIMIT)).unwrap();
    create("unlimited", None).unwrap();
    let uppers = fs::read_dir(bench.root.join("uppers")).unwrap().count();
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
    assert_eq!(fs::read_dir(bench.root.join("uppers")).unwrap().count(), 0);
}
