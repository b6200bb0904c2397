//! Overlays with their uppers in a pool.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs;

use elevo_testkit::disk;
use elevo_workspace::NeverFreeze;
use support::{Fixture, LIMIT, erases_all_workspaces_at_once, id, info, progress};

#[test]
fn a_full_workspace_rejects_writes_and_its_neighbours_do_not() {
    let name = "a_full_workspace_rejects_writes_and_its_neighbours_do_not";
    if !disk::in_own_namespace(name) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::pooled(directory.path());
    let workspaces = fixture.open();
    let [greedy, neighbour] = ["greedy", "neighbour"].map(|name| fixture.create(&workspaces, name));
    let fill = |files: &std::path::Path, name: &str| -> std::io::Result<()> {
        let mut file = fs::File::create(files.join(name))?;
        for _ in 0..LIMIT / (1 << 20) - 4 {
            std::io::Write::write_all(&mut file, &vec![7; 1 << 20])?;
        }
        file.sync_all()
    };
    fill(&greedy, "half").unwrap();
    let error = fill(&greedy, "too much").unwrap_err();
    let full = [
        std::io::ErrorKind::QuotaExceeded,
        std::io::ErrorKind::StorageFull,
    ];
    assert!(full.contains(&error.kind()), "{error}");
    fill(&neighbour, "half").unwrap();
    let [from, into] = [id("neighbour"), id("fork")];
    workspaces
        .fork(
            &from,
            std::slice::from_ref(&into),
            info(),
            &NeverFreeze,
            &progress(),
        )
        .unwrap();
    let fork = workspaces.path(&into).unwrap();
    assert_eq!(
        fixture.plain_import(&fork),
        fixture.plain_import(&neighbour)
    );
    for number in 0..3 {
        // Shared data counts in the origin, and new writes count in the fork.
        let filled = fill(&fork, &format!("more-{number}"));
        if number == 2 {
            assert!(filled.is_err(), "a fork has a limit too");
        }
    }
}

/// The copy of the image has the state that a crash would leave.
#[test]
fn a_removed_workspace_does_not_come_back_after_a_crash() {
    if !disk::in_own_namespace("a_removed_workspace_does_not_come_back_after_a_crash") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::pooled(directory.path());
    let workspaces = fixture.open();
    for name in ["kept", "removed", "parked"] {
        let files = fixture.create(&workspaces, name);
        fs::write(files.join("file"), "text").unwrap();
    }
    let uppers = fixture.root.join("uppers");
    rustix::fs::syncfs(fs::File::open(&uppers).unwrap()).unwrap();
    workspaces.remove(&id("removed")).unwrap();
    let parked = workspaces.park(&id("parked"), info(), &NeverFreeze, &progress());
    parked.unwrap();
    let [image, copy] = ["uppers.img", "copy"].map(|name| fixture.root.join(name));
    fs::copy(&image, &copy).unwrap();
    drop(workspaces);
    fixture.restart();
    fs::rename(&copy, &image).unwrap();

    let workspaces = fixture.open();
    assert!(workspaces.path(&id("kept")).unwrap().join("file").exists());
    let there = ["kept", "removed", "parked"].map(|name| uppers.join(name).exists());
    assert_eq!(there, [true, false, false]);
}

#[test]
fn the_remains_of_a_failed_removal_are_deleted_later() {
    if !disk::in_own_namespace("the_remains_of_a_failed_removal_are_deleted_later") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::pooled(directory.path());
    let workspaces = fixture.open();
    fixture.create(&workspaces, "removed");
    let upper = fixture.root.join("uppers/removed");
    let btrfs = |action: &str| {
        let mut command = std::process::Command::new("btrfs");
        command.args(["--quiet", "subvolume", action]);
        assert!(command.arg(upper.join("inner")).status().unwrap().success());
    };
    // The kernel does not delete a subvolume that contains another one.
    btrfs("create");
    assert!(workspaces.remove(&id("removed")).is_err());
    assert!(workspaces.get(&id("removed")).is_err());
    btrfs("delete");
    assert!(upper.exists());
    workspaces.tidy().unwrap();
    assert!(!upper.exists());
    assert!(!fixture.root.join("live/removed").exists());
}

/// The first file is always written before the second, so its number is never
/// less than that of the second.
#[test]
fn with_a_pool_forks_and_snapshots_are_of_one_moment() {
    if !disk::in_own_namespace("with_a_pool_forks_and_snapshots_are_of_one_moment") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::pooled(directory.path());
    let workspaces = fixture.open();
    // The workspace has no limit, because freed space counts towards a limit
    // until btrfs commits.
    let created = workspaces.create(&id("one"), fixture.base, fixture.now(), None, &progress());
    let files = created.unwrap();
    let counter = |files: &std::path::Path, name: &str| -> u64 {
        let text = fs::read_to_string(files.join(name)).unwrap();
        text.parse().unwrap()
    };
    let write = |name: &str, number: u64| {
        // Readers always see a complete number.
        fs::write(files.join("new"), number.to_string()).unwrap();
        fs::rename(files.join("new"), files.join(name)).unwrap();
    };
    ["first", "second"]
        .into_iter()
        .for_each(|name| write(name, 0));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_done = || stop.load(std::sync::atomic::Ordering::Relaxed);
            for number in (1..).take_while(|_| !is_done()) {
                write("first", number);
                write("second", number);
            }
        });
        let is_right = |files: &std::path::Path| {
            let (first, second) = (counter(files, "first"), counter(files, "second"));
            assert!(first == second || first == second + 1, "{first} {second}");
        };
        for round in 0..20 {
            let into = [0, 1].map(|n| id(&format!("fork-{round}-{n}")));
            workspaces
                .fork(&id("one"), &into, info(), &NeverFreeze, &progress())
                .unwrap();
            let forks = into.map(|fork| workspaces.path(&fork).unwrap());
            forks.iter().for_each(|files| is_right(files));
            let [one, other] = forks.map(|files| counter(&files, "first"));
            assert_eq!(one, other, "all forks are of the same moment");

            let taken = fixture.snapshot(&workspaces, "one");
            let name = id(&format!("snapshot-{round}"));
            let created = workspaces.create(&name, taken.id, fixture.now(), None, &progress());
            is_right(&created.unwrap());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_pool_of_subvolumes_is_erased() {
    if !disk::in_own_namespace("a_pool_of_subvolumes_is_erased") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let disk = disk::Disk::make_cloning(directory.path(), "disk", 1 << 30);
    let fixture = Fixture::pooled(disk.path());
    let workspaces = fixture.open();
    fixture.create(&workspaces, "first");
    assert!(!fixture.root.join("uppers.img").exists());
    drop(workspaces);
    erases_all_workspaces_at_once(&fixture);
}
