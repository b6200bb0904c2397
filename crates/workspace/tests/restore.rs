//! Restores other snapshots into live workspaces, on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use elevo_engine::CheckoutReport;
use elevo_objects::SnapshotId;
use elevo_testkit::disk;
use elevo_workspace::{Error, NeverFreeze, Workspaces};
use rand::RngExt;
use support::providers::on_every_provider;
use support::random::change_something;
use support::{AGENT, Calls, Fixture, as_agent, id, info, owners, progress};

on_every_provider! {
    a_restore_writes_only_the_differences
    a_restore_keeps_the_directory_and_the_home
    an_empty_snapshot_is_restored
    a_restored_workspace_is_changed_and_forked
    a_restore_of_a_missing_snapshot_changes_nothing
    random_snapshots_are_restored_exactly
    writers_are_paused_during_a_restore;
of_root:
    restored_files_belong_to_the_agent
}

/// Creates a workspace, makes various changes in it and takes a second
/// snapshot.
fn with_second_snapshot(fixture: &Fixture, workspaces: &Workspaces) -> (PathBuf, SnapshotId) {
    let files = fixture.create(workspaces, "one");
    fs::write(files.join("src/main.rs"), "second").unwrap();
    fs::remove_dir(files.join("empty")).unwrap();
    fs::write(files.join("empty"), "a file now").unwrap();
    fs::remove_file(files.join("link")).unwrap();
    fs::create_dir_all(files.join("link/deep")).unwrap();
    fs::write(files.join("link/deep/file"), "deep").unwrap();
    let second = fixture.snapshot(workspaces, "one");
    (files, second.id)
}

/// Restores a snapshot into the workspace `one`, and checks that the workspace
/// then equals the snapshot.
fn restore(fixture: &Fixture, workspaces: &Workspaces, to: SnapshotId) -> CheckoutReport {
    let restored = workspaces.restore(&id("one"), to, &NeverFreeze, &progress());
    let files = workspaces.path(&id("one")).unwrap();
    assert_eq!(fixture.plain_import(&files), fixture.snapshot_of(to).tree);
    assert_eq!(workspaces.get(&id("one")).unwrap().base, to);
    let changes = workspaces.changes(&id("one"), &progress()).unwrap();
    assert!(changes.is_empty());
    restored.unwrap()
}

fn a_restore_writes_only_the_differences(fixture: &Fixture) {
    let workspaces = fixture.open();
    let (files, second) = with_second_snapshot(fixture, &workspaces);
    // These changes are in no snapshot, so they are lost.
    fs::write(files.join("scratch"), "scratch").unwrap();
    fs::set_permissions(files.join("run"), fs::Permissions::from_mode(0o600)).unwrap();
    restore(fixture, &workspaces, fixture.base);
    let run = fs::metadata(files.join("run")).unwrap();
    let modified = run.modified().unwrap();
    assert_eq!(modified, fixture.modified, "the file was not written");
    let report = restore(fixture, &workspaces, fixture.base);
    assert_eq!((report.written, report.removed), (0, 0));
    restore(fixture, &workspaces, second);
}

/// A container that has the directory mounted sees the restored files.
fn a_restore_keeps_the_directory_and_the_home(fixture: &Fixture) {
    let workspaces = fixture.open();
    let (files, second) = with_second_snapshot(fixture, &workspaces);
    let identity = || {
        let stat = fs::metadata(&files).unwrap();
        (stat.dev(), stat.ino())
    };
    let before = identity();
    let opened = fs::File::open(&files).unwrap();
    let home = workspaces.home(&id("one")).unwrap();
    fs::write(home.join("kept"), "kept").unwrap();
    restore(fixture, &workspaces, fixture.base);
    restore(fixture, &workspaces, second);
    assert_eq!(identity(), before);
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&opened);
    let inside = format!("/proc/self/fd/{descriptor}/link/deep/file");
    assert_eq!(fs::read(inside).unwrap(), b"deep");
    assert_eq!(fs::read(home.join("kept")).unwrap(), b"kept");
}

fn an_empty_snapshot_is_restored(fixture: &Fixture) {
    let workspaces = fixture.open();
    with_second_snapshot(fixture, &workspaces);
    let empty = workspaces.create_empty(&id("empty"), fixture.now(), None);
    empty.unwrap();
    let empty = workspaces.get(&id("empty")).unwrap().base;
    restore(fixture, &workspaces, empty);
    restore(fixture, &workspaces, fixture.base);
}

fn a_restored_workspace_is_changed_and_forked(fixture: &Fixture) {
    let workspaces = fixture.open();
    let (files, _) = with_second_snapshot(fixture, &workspaces);
    restore(fixture, &workspaces, fixture.base);
    fs::write(files.join("src/main.rs"), "third").unwrap();
    let third = fixture.snapshot(&workspaces, "one");
    let snapshot = fixture.snapshot_of(third.id);
    assert_eq!(snapshot.parents, [fixture.base]);
    workspaces
        .fork(&id("one"), &[id("two")], info(), &NeverFreeze, &progress())
        .unwrap();
    let forked = workspaces.path(&id("two")).unwrap();
    assert_eq!(fixture.plain_import(&forked), snapshot.tree);
}

fn a_restore_of_a_missing_snapshot_changes_nothing(fixture: &Fixture) {
    let workspaces = fixture.open();
    let (files, second) = with_second_snapshot(fixture, &workspaces);
    let missing = SnapshotId(elevo_objects::Hash::from_bytes([1; 32]));
    let failed = workspaces.restore(&id("one"), missing, &NeverFreeze, &progress());
    assert!(matches!(failed, Err(Error::Engine(_))));
    assert_eq!(
        fixture.plain_import(&files),
        fixture.snapshot_of(second).tree
    );
    assert_eq!(workspaces.get(&id("one")).unwrap().unfinished, None);
}

fn restored_files_belong_to_the_agent(fixture: &Fixture) {
    let fixture = fixture.owned();
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    let outside = fixture.root.join("outside");
    fs::create_dir(&outside).unwrap();
    as_agent(
        &files,
        "rm -r src run link && mkdir -p run/x && mkfifo empty/pipe",
    );
    // The agent has put a link where a directory is to be written.
    symlink(&outside, files.join("src")).unwrap();
    workspaces
        .restore(&id("one"), fixture.base, &NeverFreeze, &progress())
        .unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let tree = fixture.snapshot_of(fixture.base).tree;
    assert_eq!(fixture.plain_import(&files), tree);
    let mut others = owners(&files)
        .into_iter()
        .filter(|(_, owner)| *owner != AGENT);
    assert_eq!(others.next(), None);
    as_agent(
        &files,
        "echo again >> src/main.rs && rm link && mv src moved",
    );
}

fn random_snapshots_are_restored_exactly(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    let mut random = fixture.random();
    let mut taken = vec![fixture.base];
    for round in 0..40 {
        for _ in 0..random.random_range(1..15) {
            let _ = change_something(&files, &mut random);
        }
        if random.random_bool(0.6) {
            taken.push(fixture.snapshot(&workspaces, "one").id);
            let _ = change_something(&files, &mut random);
        }
        let to = taken[random.random_range(0..taken.len())];
        workspaces
            .restore(&id("one"), to, &NeverFreeze, &progress())
            .unwrap();
        let tree = fixture.snapshot_of(to).tree;
        assert_eq!(fixture.plain_import(&files), tree, "{round}");
        let changes = workspaces.changes(&id("one"), &progress()).unwrap();
        assert!(changes.is_empty(), "{round}");
    }
}

fn writers_are_paused_during_a_restore(fixture: &Fixture) {
    let workspaces = fixture.open();
    fixture.create(&workspaces, "one");
    let calls = Calls::default();
    workspaces
        .restore(&id("one"), fixture.base, &calls, &progress())
        .unwrap();
    assert_eq!(*calls.0.borrow(), ["freeze", "thaw"]);
}

/// The space of deleted files counts towards the limit until btrfs commits.
#[test]
fn a_workspace_more_than_half_full_is_restored() {
    if !disk::in_own_namespace("a_workspace_more_than_half_full_is_restored") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::pooled(directory.path()).owned();
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    let elsewhere = workspaces.create_empty(&id("elsewhere"), fixture.now(), None);
    let elsewhere = elsewhere.unwrap();
    let fill = "for n in 1 2 3 4 5 6; do head -c 2000000 /dev/urandom > $n; sync $n; done";
    let [full, other] = [(&files, "one"), (&elsewhere, "elsewhere")].map(|(files, name)| {
        as_agent(files, fill);
        fixture.snapshot(&workspaces, name)
    });
    for to in [full.id, other.id, fixture.base, full.id] {
        workspaces
            .restore(&id("one"), to, &NeverFreeze, &progress())
            .unwrap();
        assert_eq!(fixture.plain_import(&files), fixture.snapshot_of(to).tree);
    }
    fs::write(elsewhere.join("big"), vec![7; 2 * support::LIMIT as usize]).unwrap();
    let too_big = fixture.snapshot(&workspaces, "elsewhere");
    let rejected = workspaces.restore(&id("one"), too_big.id, &NeverFreeze, &progress());
    assert!(matches!(rejected, Err(Error::Engine(_))));
    assert_eq!(workspaces.get(&id("one")).unwrap().base, full.id);
    workspaces
        .restore(&id("one"), other.id, &NeverFreeze, &progress())
        .unwrap();
    assert_eq!(
        fixture.plain_import(&files),
        fixture.snapshot_of(other.id).tree
    );
}
