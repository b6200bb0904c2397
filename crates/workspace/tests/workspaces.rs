//! Every promise of workspaces, on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::SystemTime;

use elevo_engine::{ChangeKind, Progress};
use elevo_testkit::disk;
use elevo_workspace::{Error, NeverFreeze, ProviderKind, State, Workspaces};
use futures::executor::block_on;
use support::{Bench, Calls, LIMIT, id, info, on_every_provider, progress};

on_every_provider! {
    a_new_workspace_holds_its_snapshot_and_shares_no_changes
    changes_are_found_and_become_a_snapshot
    only_what_changed_is_read_again
    a_change_that_keeps_size_and_time_is_found
    forks_hold_what_was_there_and_go_their_own_ways
    writers_are_held_still_while_a_workspace_is_read
    a_parked_workspace_comes_back_as_it_was
    a_removed_workspace_leaves_nothing
    workspaces_survive_a_restart_and_half_made_ones_do_not
    a_restart_of_the_machine_loses_nothing
    ids_are_taken_once
    hostile_files_stay_inside
    random_changes_are_all_found
    marks_that_an_agent_makes_mean_nothing
    all_workspaces_are_erased_at_once
}

fn a_new_workspace_holds_its_snapshot_and_shares_no_changes(bench: &Bench) {
    let workspaces = bench.open();
    let (one, other) = (
        bench.create(&workspaces, "one"),
        bench.create(&workspaces, "other"),
    );
    assert_eq!(
        fs::read(one.join("src/main.rs")).unwrap(),
        b"fn main() {}\n"
    );
    assert_eq!(
        fs::read_link(one.join("link")).unwrap().to_str(),
        Some("src/main.rs")
    );
    assert!(one.join("empty").is_dir());
    let run = fs::metadata(one.join("run")).unwrap();
    assert_eq!(run.permissions().mode() & 0o777, 0o755);
    assert_eq!(run.modified().unwrap(), bench.modified);
    assert!(
        workspaces
            .changes(&id("one"), &progress())
            .unwrap()
            .is_empty()
    );

    fs::write(one.join("src/main.rs"), "changed").unwrap();
    fs::remove_file(one.join("run")).unwrap();
    assert_eq!(
        fs::read(other.join("src/main.rs")).unwrap(),
        b"fn main() {}\n"
    );
    assert!(other.join("run").exists());
    let third = bench.create(&workspaces, "third");
    assert_eq!(
        fs::read(third.join("src/main.rs")).unwrap(),
        b"fn main() {}\n"
    );
}

fn changes_are_found_and_become_a_snapshot(bench: &Bench) {
    let workspaces = bench.open();
    let files = bench.create(&workspaces, "one");
    fs::write(files.join("src/new.rs"), "new").unwrap();
    fs::write(files.join("src/main.rs"), "changed").unwrap();
    fs::remove_file(files.join("link")).unwrap();
    fs::set_permissions(files.join("run"), fs::Permissions::from_mode(0o700)).unwrap();
    let expected = [
        ("link", "removed"),
        ("run", "mode"),
        ("src/main.rs", "modified"),
        ("src/new.rs", "added"),
    ];
    let changes = workspaces.changes(&id("one"), &progress()).unwrap();
    assert_eq!(
        kinds(&mut changes.diff()),
        expected.map(|(path, kind)| (path.to_owned(), kind))
    );

    let taken = bench.snapshot(&workspaces, "one");
    assert!(taken.is_new);
    let record = workspaces.get(&id("one")).unwrap();
    assert_eq!(record.base, taken.id);
    assert_eq!(bench.snapshot_of(taken.id).parents, [bench.base]);
    assert_eq!(bench.snapshot_of(taken.id).tree, bench.plain_import(&files));
    let changes = workspaces.changes(&id("one"), &progress()).unwrap();
    assert!(changes.is_empty());
    let again = bench.snapshot(&workspaces, "one");
    assert!(!again.is_new);
    assert_eq!(again.id, taken.id);
}

fn kinds(diff: &mut elevo_engine::Diff) -> Vec<(String, &'static str)> {
    let mut kinds = Vec::new();
    while let Some(change) = block_on(diff.next()).unwrap() {
        let kind = match change.kind {
            ChangeKind::Added(_) => "added",
            ChangeKind::Removed(_) => "removed",
            ChangeKind::ModeChanged { .. } => "mode",
            _ => "modified",
        };
        kinds.push((change.path.to_string(), kind));
    }
    kinds
}

fn only_what_changed_is_read_again(bench: &Bench) {
    let workspaces = bench.open();
    let files = bench.create(&workspaces, "one");
    bench.settle();
    bench.snapshot(&workspaces, "one");
    fs::write(files.join("big"), vec![7; 1_000_000]).unwrap();
    bench.settle();
    let read = Progress::new();
    workspaces
        .snapshot(&id("one"), info(), &NeverFreeze, &read)
        .unwrap();
    assert_eq!(
        read.bytes(),
        1_000_000,
        "the rest was noted when it was made"
    );
    fs::write(files.join("small"), "small").unwrap();
    let read = Progress::new();
    workspaces
        .snapshot(&id("one"), info(), &NeverFreeze, &read)
        .unwrap();
    assert_eq!(read.bytes(), 5);
    if bench.pool.is_some() {
        bench.settle();
        bench.snapshot(&workspaces, "one");
        workspaces
            .fork(&id("one"), &[id("two")], info(), &NeverFreeze, &progress())
            .unwrap();
        let read = Progress::new();
        workspaces
            .snapshot(&id("two"), info(), &NeverFreeze, &read)
            .unwrap();
        assert_eq!(read.bytes(), 0, "a fork knows what its origin knew");
    }
}

fn a_change_that_keeps_size_and_time_is_found(bench: &Bench) {
    let workspaces = bench.open();
    let files = bench.create(&workspaces, "one");
    for round in 0..50 {
        let target = files.join("run");
        fs::write(&target, format!("{round:04}")).unwrap();
        let file = fs::File::options().write(true).open(&target).unwrap();
        file.set_modified(bench.modified).unwrap();
        let taken = bench.snapshot(&workspaces, "one");
        assert_eq!(
            bench.snapshot_of(taken.id).tree,
            bench.plain_import(&files),
            "{round}"
        );
    }
}

fn forks_hold_what_was_there_and_go_their_own_ways(bench: &Bench) {
    let workspaces = bench.open();
    let files = bench.create(&workspaces, "one");
    fs::write(files.join("mine"), "uncommitted").unwrap();
    let into = ["fork-1", "fork-2"].map(id);
    let taken = workspaces
        .fork(&id("one"), &into, info(), &NeverFreeze, &progress())
        .unwrap();
    for fork in &into {
        let forked = workspaces.path(fork).unwrap();
        assert_eq!(bench.plain_import(&forked), bench.plain_import(&files));
        assert_eq!(
            fs::metadata(forked.join("run"))
                .unwrap()
                .modified()
                .unwrap(),
            bench.modified
        );
        let base = taken.as_ref().map_or(bench.base, |taken| taken.id);
        assert_eq!(workspaces.get(fork).unwrap().base, base);
        fs::write(forked.join("mine"), fork.as_str()).unwrap();
    }
    assert_eq!(fs::read(files.join("mine")).unwrap(), b"uncommitted");
    fs::write(files.join("mine"), "later").unwrap();
    let forked = workspaces.path(&into[0]).unwrap();
    assert_eq!(fs::read(forked.join("mine")).unwrap(), b"fork-1");

    let half = ["fork-3", "fork-1"].map(id);
    let refused = workspaces.fork(&id("one"), &half, info(), &NeverFreeze, &progress());
    assert!(matches!(refused, Err(Error::Exists(_))));
    assert!(workspaces.get(&id("fork-3")).is_err(), "all or none");
}

fn writers_are_held_still_while_a_workspace_is_read(bench: &Bench) {
    let workspaces = bench.open();
    bench.create(&workspaces, "one");
    let calls = Calls::default();
    workspaces
        .snapshot(&id("one"), info(), &calls, &progress())
        .unwrap();
    workspaces
        .fork(&id("one"), &[id("two")], info(), &calls, &progress())
        .unwrap();
    workspaces
        .park(&id("one"), info(), &calls, &progress())
        .unwrap();
    // With a pool, only the operation that could lose later writes pauses the
    // writers.
    let times = if bench.pool.is_some() { 1 } else { 3 };
    assert_eq!(*calls.0.borrow(), ["freeze", "thaw"].repeat(times));
}

fn a_parked_workspace_comes_back_as_it_was(bench: &Bench) {
    let workspaces = bench.open();
    let files = bench.create(&workspaces, "one");
    fs::write(files.join("mine"), "kept").unwrap();
    let before = times(&files);
    let tree = bench.plain_import(&files);
    workspaces
        .park(&id("one"), info(), &NeverFreeze, &progress())
        .unwrap();
    assert!(!files.exists());
    assert_eq!(workspaces.get(&id("one")).unwrap().state, State::Parked);
    assert!(matches!(workspaces.path(&id("one")), Err(Error::Parked(_))));
    drop(workspaces);

    let workspaces = bench.open();
    let files = workspaces.resume(&id("one"), &progress()).unwrap();
    assert_eq!(bench.plain_import(&files), tree);
    assert_eq!(times(&files), before);
    let again = workspaces.resume(&id("one"), &progress());
    assert!(matches!(again, Err(Error::NotParked(_))));
}

fn times(files: &std::path::Path) -> BTreeMap<String, SystemTime> {
    let names = ["mine", "run", "src/main.rs", "src", "empty"];
    let time = |name: &str| fs::metadata(files.join(name)).unwrap().modified().unwrap();
    names.map(|name| (name.to_owned(), time(name))).into()
}

fn marks_that_an_agent_makes_mean_nothing(bench: &Bench) {
    use rustix::fs::{XattrFlags, setxattr};
    let workspaces = bench.open();
    let files = bench.create(&workspaces, "one");
    fs::write(files.join("src/new"), "new").unwrap();
    fs::write(files.join("empty/new"), "new").unwrap();
    let mark = |path: &str, name: &str, value: &[u8]| {
        let flags = XattrFlags::empty();
        // Root's overlay stores it as an ordinary attribute, and other file
        // systems may reject it.
        let _ = setxattr(files.join(path), name, value, flags);
    };
    for overlay in ["user.overlay", "user.overlay.overlay"] {
        mark("src", &format!("{overlay}.opaque"), b"y");
        mark("empty", &format!("{overlay}.redirect"), b"/src");
    }
    let shown = bench.plain_import(&files);
    let changes = workspaces.changes(&id("one"), &progress()).unwrap();
    assert_eq!(changes.tree, shown);
    let taken = bench.snapshot(&workspaces, "one");
    assert_eq!(bench.snapshot_of(taken.id).tree, shown);
    assert!(files.join("src/main.rs").exists());
}

fn a_removed_workspace_leaves_nothing(bench: &Bench) {
    let workspaces = bench.open();
    bench.create(&workspaces, "one");
    workspaces.remove(&id("one")).unwrap();
    assert!(matches!(
        workspaces.remove(&id("one")),
        Err(Error::NotFound(_))
    ));
    assert_eq!(bench.places(), [""; 0]);
    // Also if it was unmounted before.
    bench.create(&workspaces, "two");
    if !matches!(bench.kind, ProviderKind::Reflink | ProviderKind::Copy) {
        let files = bench.root.join("live/two/files");
        let status = std::process::Command::new("umount").arg(files).status();
        assert!(status.unwrap().success());
    }
    fs::remove_dir_all(bench.root.join("live/two")).unwrap();
    workspaces.remove(&id("two")).unwrap();
    assert!(workspaces.list().unwrap().is_empty());
}

fn workspaces_survive_a_restart_and_half_made_ones_do_not(bench: &Bench) {
    let workspaces = bench.open();
    let files = bench.create(&workspaces, "one");
    fs::write(files.join("mine"), "kept").unwrap();
    drop(workspaces);
    let half = bench.root.join("live/half/files");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("x"), "x").unwrap();
    fs::create_dir(bench.root.join("live/empty")).unwrap();
    let busy = bench.root.join("live/busy");
    fs::create_dir(&busy).unwrap();
    let lock = fs::File::create(busy.join("lock")).unwrap();
    lock.lock().unwrap();

    let workspaces = bench.open();
    assert_eq!(
        bench.places(),
        ["busy", "one"],
        "another process is making `busy`"
    );
    assert_eq!(fs::read(files.join("mine")).unwrap(), b"kept");
    assert_eq!(workspaces.path(&id("one")).unwrap(), files);
    drop(lock);
    bench.open();
    assert_eq!(bench.places(), ["one"]);
}

/// A restart loses all mounts, and the page cache of layers that were not
/// synced.
fn a_restart_of_the_machine_loses_nothing(bench: &Bench) {
    let workspaces = bench.open();
    let one = bench.create(&workspaces, "one");
    fs::write(one.join("mine"), "kept").unwrap();
    fs::remove_file(one.join("run")).unwrap();
    let into = [id("two")];
    workspaces
        .fork(&id("one"), &into, info(), &NeverFreeze, &progress())
        .unwrap();
    let two = workspaces.path(&into[0]).unwrap();
    fs::write(two.join("mine"), "of two").unwrap();
    let expected = [&one, &two].map(|files| (bench.plain_import(files), bench.times(files)));
    drop(workspaces);
    bench.restart();

    let workspaces = bench.open();
    for (name, expected) in ["one", "two"].into_iter().zip(expected) {
        let files = workspaces.path(&id(name)).unwrap();
        assert_eq!(bench.plain_import(&files), expected.0, "{name}");
        assert_eq!(bench.times(&files), expected.1, "{name}");
        let changes = workspaces.changes(&id(name), &progress()).unwrap();
        assert_eq!(changes.tree, expected.0, "{name}");
    }
}

#[test]
fn a_limit_that_nothing_holds_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let bench = Bench::new(directory.path(), ProviderKind::Copy);
    let workspaces = bench.open();
    let limited = workspaces.create(&id("one"), bench.base, bench.now(), Some(1), &progress());
    assert!(matches!(limited, Err(Error::NoLimit)));
    assert_eq!(bench.places(), [""; 0]);
}

fn ids_are_taken_once(bench: &Bench) {
    let workspaces = bench.open();
    bench.create(&workspaces, "one");
    let create = |workspaces: &Workspaces| {
        workspaces.create(&id("one"), bench.base, bench.now(), None, &progress())
    };
    assert!(matches!(create(&workspaces), Err(Error::Exists(_))));
    workspaces
        .park(&id("one"), info(), &NeverFreeze, &progress())
        .unwrap();
    assert!(matches!(create(&workspaces), Err(Error::Exists(_))));
    assert_eq!(bench.places(), [""; 0]);
    let place = bench.root.join("live/two");
    fs::create_dir(&place).unwrap();
    let held = workspaces.create(&id("two"), bench.base, bench.now(), None, &progress());
    assert!(matches!(held, Err(Error::Busy(_))));
}

fn hostile_files_stay_inside(bench: &Bench) {
    let workspaces = bench.open();
    let files = bench.create(&workspaces, "one");
    let outside = bench.root.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    fs::remove_dir_all(files.join("src")).unwrap();
    symlink(&outside, files.join("src")).unwrap();
    symlink("../../../outside/secret", files.join("secret")).unwrap();
    let setuid = files.join("setuid");
    fs::write(&setuid, "x").unwrap();
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, files.join("pipe"), 0o600.into()).unwrap();

    let taken = bench.snapshot(&workspaces, "one");
    let losses: Vec<_> = taken.losses.iter().map(|loss| loss.kind).collect();
    let expected = [
        elevo_engine::LossKind::Pipe,
        elevo_engine::LossKind::SpecialBits,
    ];
    assert_eq!(losses, expected);
    workspaces
        .park(&id("one"), info(), &NeverFreeze, &progress())
        .unwrap();
    let files = workspaces.resume(&id("one"), &progress()).unwrap();
    let is_link = |name: &str| files.join(name).symlink_metadata().unwrap().is_symlink();
    assert!(is_link("src") && is_link("secret"));
    assert_eq!(
        fs::metadata(files.join("setuid")).unwrap().mode() & 0o7777,
        0o755
    );
    assert!(!files.join("pipe").exists());
    workspaces.remove(&id("one")).unwrap();
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

fn random_changes_are_all_found(bench: &Bench) {
    support::random_changes(bench, 20);
}

#[test]
fn a_full_workspace_rejects_writes_and_its_neighbours_do_not() {
    let name = "a_full_workspace_rejects_writes_and_its_neighbours_do_not";
    if !disk::in_own_namespace(name) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let bench = Bench::pooled(directory.path());
    let workspaces = bench.open();
    let [greedy, neighbour] = ["greedy", "neighbour"].map(|name| bench.create(&workspaces, name));
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
    assert_eq!(bench.plain_import(&fork), bench.plain_import(&neighbour));
    for number in 0..3 {
        // Shared data counts in the origin, and new writes count in the fork.
        let filled = fill(&fork, &format!("more-{number}"));
        if number == 2 {
            assert!(filled.is_err(), "a fork has the limit, too");
        }
    }
}

/// One file is always written before the other, so at every moment it is ahead
/// or equal.
#[test]
fn with_a_pool_forks_and_snapshots_are_of_one_moment() {
    if !disk::in_own_namespace("with_a_pool_forks_and_snapshots_are_of_one_moment") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let bench = Bench::pooled(directory.path());
    let workspaces = bench.open();
    // Without a limit, because freed space counts until btrfs commits.
    let created = workspaces.create(&id("one"), bench.base, bench.now(), None, &progress());
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

            let taken = bench.snapshot(&workspaces, "one");
            let name = id(&format!("snapshot-{round}"));
            let created = workspaces.create(&name, taken.id, bench.now(), None, &progress());
            is_right(&created.unwrap());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Live and parked workspaces, and the remains of a killed process.
fn all_workspaces_are_erased_at_once(bench: &Bench) {
    for _ in 0..2 {
        let workspaces = bench.open();
        let files = bench.create(&workspaces, "one");
        fs::create_dir_all(files.join("a/b")).unwrap();
        fs::write(files.join("a/b/c"), "written").unwrap();
        bench.create(&workspaces, "parked");
        workspaces
            .park(&id("parked"), info(), &NeverFreeze, &progress())
            .unwrap();
        let into = [id("fork")];
        workspaces
            .fork(&id("one"), &into, info(), &NeverFreeze, &progress())
            .unwrap();
        drop(workspaces);
        fs::create_dir_all(bench.root.join("live/half-made/files")).unwrap();
        // A repeated call succeeds.
        for _ in 0..2 {
            elevo_workspace::erase(&bench.root).unwrap();
            assert!(!bench.root.exists());
        }
    }
}

#[test]
fn a_pool_of_subvolumes_is_erased() {
    if !disk::in_own_namespace("a_pool_of_subvolumes_is_erased") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let disk = disk::Disk::make_cloning(directory.path(), "disk", 1 << 30);
    let bench = Bench::pooled(disk.path());
    let workspaces = bench.open();
    bench.create(&workspaces, "first");
    assert!(!bench.root.join("uppers.img").exists());
    drop(workspaces);
    all_workspaces_are_erased_at_once(&bench);
}
