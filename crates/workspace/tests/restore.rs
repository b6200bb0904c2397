//! Restores other snapshots into live workspaces, on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use elevo_objects::SnapshotId;
use elevo_testkit::disk;
use elevo_workspace::{Error, NeverFreeze};
use rand::RngExt;
use support::{
    AGENT, Bench, Calls, as_agent, change_something, id, info, on_every_provider, owners, progress,
};

on_every_provider! {
    a_live_workspace_can_hold_another_snapshot
    random_snapshots_are_restored_exactly
    writers_are_held_still_during_a_restore;
of_root:
    a_restored_workspace_is_its_agents
}

fn a_live_workspace_can_hold_another_snapshot(bench: &Bench) {
    let workspaces = bench.open();
    let files = bench.create(&workspaces, "one");
    // A container that has the directory mounted keeps its open files.
    let stat = fs::metadata(&files).unwrap();
    let opened = fs::File::open(&files).unwrap();
    fs::write(files.join("src/main.rs"), "second").unwrap();
    fs::remove_dir(files.join("empty")).unwrap();
    fs::write(files.join("empty"), "a file now").unwrap();
    fs::remove_file(files.join("link")).unwrap();
    fs::create_dir_all(files.join("link/deep")).unwrap();
    fs::write(files.join("link/deep/file"), "deep").unwrap();
    let second = bench.snapshot(&workspaces, "one");
    let restore = |to| {
        let restored = workspaces.restore(&id("one"), to, &NeverFreeze, &progress());
        let report = restored.unwrap();
        let tree = bench.snapshot_of(to).tree;
        assert_eq!(bench.plain_import(&files), tree);
        assert_eq!(workspaces.get(&id("one")).unwrap().base, to);
        assert!(
            workspaces
                .changes(&id("one"), &progress())
                .unwrap()
                .is_empty()
        );
        let now = fs::metadata(&files).unwrap();
        assert_eq!((now.dev(), now.ino()), (stat.dev(), stat.ino()));
        report
    };
    // In no snapshot, so it is lost.
    fs::write(files.join("scratch"), "scratch").unwrap();
    fs::set_permissions(files.join("run"), fs::Permissions::from_mode(0o600)).unwrap();
    let home = workspaces.home(&id("one")).unwrap();
    fs::write(home.join("kept"), "kept").unwrap();
    restore(bench.base);
    let run = fs::metadata(files.join("run")).unwrap();
    assert_eq!(
        run.modified().unwrap(),
        bench.modified,
        "it was not written"
    );
    let report = restore(bench.base);
    assert_eq!((report.written, report.removed), (0, 0));
    restore(second.id);
    let inside = format!(
        "/proc/self/fd/{}/link/deep/file",
        std::os::fd::AsRawFd::as_raw_fd(&opened)
    );
    assert_eq!(fs::read(inside).unwrap(), b"deep");
    assert_eq!(fs::read(home.join("kept")).unwrap(), b"kept");
    let empty = workspaces.create_empty(&id("nothing"), bench.now(), None);
    empty.unwrap();
    restore(workspaces.get(&id("nothing")).unwrap().base);
    restore(bench.base);

    fs::write(files.join("src/main.rs"), "third").unwrap();
    let third = bench.snapshot(&workspaces, "one");
    assert_eq!(bench.snapshot_of(third.id).parents, [bench.base]);
    workspaces
        .fork(&id("one"), &[id("two")], info(), &NeverFreeze, &progress())
        .unwrap();
    let forked = workspaces.path(&id("two")).unwrap();
    assert_eq!(
        bench.plain_import(&forked),
        bench.snapshot_of(third.id).tree
    );
    let nowhere = SnapshotId(elevo_objects::Hash::from_bytes([1; 32]));
    let lost = workspaces.restore(&id("one"), nowhere, &NeverFreeze, &progress());
    assert!(matches!(lost, Err(Error::Engine(_))));
    assert_eq!(bench.plain_import(&files), bench.snapshot_of(third.id).tree);
}

fn a_restored_workspace_is_its_agents(bench: &Bench) {
    let bench = bench.owned();
    let workspaces = bench.open();
    let files = bench.create(&workspaces, "one");
    let outside = bench.root.join("outside");
    fs::create_dir(&outside).unwrap();
    as_agent(
        &files,
        "rm -r src run link && mkdir -p run/x && mkfifo empty/pipe",
    );
    // The agent has put a link where a directory is to be written.
    symlink(&outside, files.join("src")).unwrap();
    workspaces
        .restore(&id("one"), bench.base, &NeverFreeze, &progress())
        .unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let tree = bench.snapshot_of(bench.base).tree;
    assert_eq!(bench.plain_import(&files), tree);
    let mut others = owners(&files)
        .into_iter()
        .filter(|(_, owner)| *owner != AGENT);
    assert_eq!(others.next(), None);
    as_agent(
        &files,
        "echo again >> src/main.rs && rm link && mv src moved",
    );
}

fn random_snapshots_are_restored_exactly(bench: &Bench) {
    let workspaces = bench.open();
    let files = bench.create(&workspaces, "one");
    let mut random = bench.random();
    let mut taken = vec![bench.base];
    for round in 0..40 {
        for _ in 0..random.random_range(1..15) {
            let _ = change_something(&files, &mut random);
        }
        if random.random_bool(0.6) {
            taken.push(bench.snapshot(&workspaces, "one").id);
            let _ = change_something(&files, &mut random);
        }
        let to = taken[random.random_range(0..taken.len())];
        workspaces
            .restore(&id("one"), to, &NeverFreeze, &progress())
            .unwrap();
        let tree = bench.snapshot_of(to).tree;
        assert_eq!(bench.plain_import(&files), tree, "{round}");
        let changes = workspaces.changes(&id("one"), &progress()).unwrap();
        assert!(changes.is_empty(), "{round}");
    }
}

fn writers_are_held_still_during_a_restore(bench: &Bench) {
    let workspaces = bench.open();
    bench.create(&workspaces, "one");
    let calls = Calls::default();
    workspaces
        .restore(&id("one"), bench.base, &calls, &progress())
        .unwrap();
    assert_eq!(*calls.0.borrow(), ["freeze", "thaw"]);
}

/// Freed space counts until btrfs commits.
#[test]
fn a_workspace_more_than_half_full_is_restored() {
    if !disk::in_own_namespace("a_workspace_more_than_half_full_is_restored") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let bench = Bench::pooled(directory.path()).owned();
    let workspaces = bench.open();
    let files = bench.create(&workspaces, "one");
    let elsewhere = workspaces.create_empty(&id("elsewhere"), bench.now(), None);
    let elsewhere = elsewhere.unwrap();
    let fill = "for n in 1 2 3 4 5 6; do head -c 2000000 /dev/urandom > $n; sync $n; done";
    let [full, other] = [(&files, "one"), (&elsewhere, "elsewhere")].map(|(files, name)| {
        as_agent(files, fill);
        bench.snapshot(&workspaces, name)
    });
    for to in [full.id, other.id, bench.base, full.id] {
        workspaces
            .restore(&id("one"), to, &NeverFreeze, &progress())
            .unwrap();
        assert_eq!(bench.plain_import(&files), bench.snapshot_of(to).tree);
    }
    fs::write(elsewhere.join("big"), vec![7; 2 * support::LIMIT as usize]).unwrap();
    let too_big = bench.snapshot(&workspaces, "elsewhere");
    let refused = workspaces.restore(&id("one"), too_big.id, &NeverFreeze, &progress());
    assert!(matches!(refused, Err(Error::Engine(_))));
    assert_eq!(workspaces.get(&id("one")).unwrap().base, full.id);
    workspaces
        .restore(&id("one"), other.id, &NeverFreeze, &progress())
        .unwrap();
    assert_eq!(bench.plain_import(&files), bench.snapshot_of(other.id).tree);
}
