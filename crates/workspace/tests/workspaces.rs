//! The promises of workspaces, on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use elevo_engine::{Attributes, ChangeKind, Progress, StateTree};
use elevo_workspace::{Error, NeverFreeze, ProviderKind, State, Workspaces};
use futures::executor::block_on;
use support::providers::on_every_provider;
use support::{Calls, Fixture, id, info, progress};

on_every_provider! {
    a_new_workspace_holds_its_snapshot_and_shares_no_changes
    changes_are_found_and_become_a_snapshot
    only_changed_files_are_read_again
    a_change_that_keeps_size_and_time_is_found
    a_snapshot_without_times_is_changed_and_snapshotted
    forks_have_the_current_files_and_are_independent
    all_forks_are_created_or_none
    writers_are_paused_while_a_workspace_is_read
    a_resumed_workspace_equals_the_parked_one
    a_removed_workspace_leaves_nothing
    a_workspace_whose_directory_was_deleted_is_removed
    an_id_is_used_once
    hostile_files_affect_nothing_outside
    finds_random_changes
    marks_that_an_agent_makes_mean_nothing
}

fn a_new_workspace_holds_its_snapshot_and_shares_no_changes(fixture: &Fixture) {
    let workspaces = fixture.open();
    let (one, other) = (
        fixture.create(&workspaces, "one"),
        fixture.create(&workspaces, "other"),
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
    assert_eq!(run.modified().unwrap(), fixture.modified);
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
    let third = fixture.create(&workspaces, "third");
    assert_eq!(
        fs::read(third.join("src/main.rs")).unwrap(),
        b"fn main() {}\n"
    );
}

fn changes_are_found_and_become_a_snapshot(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
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

    let taken = fixture.snapshot(&workspaces, "one");
    assert!(taken.is_new);
    let record = workspaces.get(&id("one")).unwrap();
    assert_eq!(record.base, taken.id);
    assert_eq!(fixture.snapshot_of(taken.id).parents, [fixture.base]);
    assert_eq!(
        fixture.snapshot_of(taken.id).tree,
        fixture.plain_import(&files)
    );
    let changes = workspaces.changes(&id("one"), &progress()).unwrap();
    assert!(changes.is_empty());
    let again = fixture.snapshot(&workspaces, "one");
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

fn only_changed_files_are_read_again(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    fixture.wait_for_clock_tick();
    fixture.snapshot(&workspaces, "one");
    fs::write(files.join("big"), vec![7; 1_000_000]).unwrap();
    fixture.wait_for_clock_tick();
    let read = Progress::new();
    workspaces
        .snapshot(&id("one"), info(), &NeverFreeze, &read)
        .unwrap();
    assert_eq!(
        read.bytes(),
        1_000_000,
        "the stat cache has all other files since the creation"
    );
    fs::write(files.join("small"), "small").unwrap();
    let read = Progress::new();
    workspaces
        .snapshot(&id("one"), info(), &NeverFreeze, &read)
        .unwrap();
    assert_eq!(read.bytes(), 5);
    if fixture.pool.is_some() {
        fixture.wait_for_clock_tick();
        fixture.snapshot(&workspaces, "one");
        workspaces
            .fork(&id("one"), &[id("two")], info(), &NeverFreeze, &progress())
            .unwrap();
        let read = Progress::new();
        workspaces
            .snapshot(&id("two"), info(), &NeverFreeze, &read)
            .unwrap();
        assert_eq!(read.bytes(), 0, "a fork has the stat cache of its origin");
    }
}

fn a_change_that_keeps_size_and_time_is_found(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    for round in 0..50 {
        let target = files.join("run");
        fs::write(&target, format!("{round:04}")).unwrap();
        let file = fs::File::options().write(true).open(&target).unwrap();
        file.set_modified(fixture.modified).unwrap();
        let taken = fixture.snapshot(&workspaces, "one");
        assert_eq!(
            fixture.snapshot_of(taken.id).tree,
            fixture.plain_import(&files),
            "{round}"
        );
    }
}

fn forks_have_the_current_files_and_are_independent(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    fs::write(files.join("mine"), "uncommitted").unwrap();
    let into = ["fork-1", "fork-2"].map(id);
    let taken = workspaces
        .fork(&id("one"), &into, info(), &NeverFreeze, &progress())
        .unwrap();
    for fork in &into {
        let forked = workspaces.path(fork).unwrap();
        assert_eq!(fixture.plain_import(&forked), fixture.plain_import(&files));
        assert_eq!(
            fs::metadata(forked.join("run"))
                .unwrap()
                .modified()
                .unwrap(),
            fixture.modified
        );
        let base = taken.as_ref().map_or(fixture.base, |taken| taken.id);
        assert_eq!(workspaces.get(fork).unwrap().base, base);
        fs::write(forked.join("mine"), fork.as_str()).unwrap();
    }
    assert_eq!(fs::read(files.join("mine")).unwrap(), b"uncommitted");
    fs::write(files.join("mine"), "later").unwrap();
    let forked = workspaces.path(&into[0]).unwrap();
    assert_eq!(fs::read(forked.join("mine")).unwrap(), b"fork-1");
}

fn all_forks_are_created_or_none(fixture: &Fixture) {
    let workspaces = fixture.open();
    fixture.create(&workspaces, "one");
    fixture.create(&workspaces, "existing");
    let into = ["new", "existing"].map(id);
    let rejected = workspaces.fork(&id("one"), &into, info(), &NeverFreeze, &progress());
    assert!(matches!(rejected, Err(Error::Exists(_))));
    let new = workspaces.get(&id("new"));
    assert!(matches!(new, Err(Error::NotFound(_))));
    assert_eq!(fixture.live_dirs(), ["existing", "one"]);
}

fn writers_are_paused_while_a_workspace_is_read(fixture: &Fixture) {
    let workspaces = fixture.open();
    fixture.create(&workspaces, "one");
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
    // With a pool, only `park` pauses the writers, since it could lose later
    // writes.
    let times = if fixture.pool.is_some() { 1 } else { 3 };
    assert_eq!(*calls.0.borrow(), ["freeze", "thaw"].repeat(times));
}

fn a_resumed_workspace_equals_the_parked_one(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    fs::write(files.join("mine"), "kept").unwrap();
    let before = fixture.times(&files);
    let tree = fixture.plain_import(&files);
    workspaces
        .park(&id("one"), info(), &NeverFreeze, &progress())
        .unwrap();
    assert!(!files.exists());
    assert_eq!(workspaces.get(&id("one")).unwrap().state, State::Parked);
    assert!(matches!(workspaces.path(&id("one")), Err(Error::Parked(_))));
    drop(workspaces);

    let workspaces = fixture.open();
    let files = workspaces.resume(&id("one"), &progress()).unwrap();
    assert_eq!(fixture.plain_import(&files), tree);
    assert_eq!(fixture.times(&files), before);
    let again = workspaces.resume(&id("one"), &progress());
    assert!(matches!(again, Err(Error::NotParked(_))));
}

fn marks_that_an_agent_makes_mean_nothing(fixture: &Fixture) {
    use rustix::fs::{XattrFlags, setxattr};
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    fs::write(files.join("src/new"), "new").unwrap();
    fs::write(files.join("empty/new"), "new").unwrap();
    let mark = |path: &str, name: &str, value: &[u8]| {
        let flags = XattrFlags::empty();
        // An overlay of root stores the mark as an ordinary attribute, and
        // other file systems may reject it.
        let _ = setxattr(files.join(path), name, value, flags);
    };
    for overlay in ["user.overlay", "user.overlay.overlay"] {
        mark("src", &format!("{overlay}.opaque"), b"y");
        mark("empty", &format!("{overlay}.redirect"), b"/src");
    }
    let shown = fixture.plain_import(&files);
    let changes = workspaces.changes(&id("one"), &progress()).unwrap();
    assert_eq!(changes.tree, shown);
    let taken = fixture.snapshot(&workspaces, "one");
    assert_eq!(fixture.snapshot_of(taken.id).tree, shown);
    assert!(files.join("src/main.rs").exists());
}

fn a_removed_workspace_leaves_nothing(fixture: &Fixture) {
    let workspaces = fixture.open();
    fixture.create(&workspaces, "one");
    workspaces.remove(&id("one")).unwrap();
    assert!(matches!(
        workspaces.remove(&id("one")),
        Err(Error::NotFound(_))
    ));
    assert_eq!(fixture.live_dirs(), [""; 0]);
}

/// The user has unmounted the workspace and deleted its directory.
fn a_workspace_whose_directory_was_deleted_is_removed(fixture: &Fixture) {
    let workspaces = fixture.open();
    fixture.create(&workspaces, "two");
    if !matches!(fixture.kind, ProviderKind::Reflink | ProviderKind::Copy) {
        let files = fixture.root.join("live/two/files");
        let status = std::process::Command::new("umount").arg(files).status();
        assert!(status.unwrap().success());
    }
    fs::remove_dir_all(fixture.root.join("live/two")).unwrap();
    workspaces.remove(&id("two")).unwrap();
    assert!(workspaces.list().unwrap().is_empty());
}

#[test]
fn rejects_a_limit_that_cannot_be_enforced() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(directory.path(), ProviderKind::Copy);
    let workspaces = fixture.open();
    let limited = workspaces.create(
        &id("one"),
        fixture.base,
        fixture.now(),
        Some(1),
        &progress(),
    );
    assert!(matches!(limited, Err(Error::NoLimit)));
    assert_eq!(fixture.live_dirs(), [""; 0]);
}

fn an_id_is_used_once(fixture: &Fixture) {
    let workspaces = fixture.open();
    fixture.create(&workspaces, "one");
    let create = |workspaces: &Workspaces| {
        workspaces.create(&id("one"), fixture.base, fixture.now(), None, &progress())
    };
    assert!(matches!(create(&workspaces), Err(Error::Exists(_))));
    workspaces
        .park(&id("one"), info(), &NeverFreeze, &progress())
        .unwrap();
    assert!(matches!(create(&workspaces), Err(Error::Exists(_))));
    assert_eq!(fixture.live_dirs(), [""; 0]);
    let place = fixture.root.join("live/two");
    fs::create_dir(&place).unwrap();
    let held = workspaces.create(&id("two"), fixture.base, fixture.now(), None, &progress());
    assert!(matches!(held, Err(Error::Busy(_))));
}

fn hostile_files_affect_nothing_outside(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    let outside = fixture.root.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    fs::remove_dir_all(files.join("src")).unwrap();
    symlink(&outside, files.join("src")).unwrap();
    symlink("../../../outside/secret", files.join("secret")).unwrap();
    let setuid = files.join("setuid");
    fs::write(&setuid, "x").unwrap();
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, files.join("pipe"), 0o600.into()).unwrap();

    let taken = fixture.snapshot(&workspaces, "one");
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

fn finds_random_changes(fixture: &Fixture) {
    support::random::random_changes(fixture, 20);
}

/// The snapshot has no modification times, as after a merge that wrote its
/// files.
fn a_snapshot_without_times_is_changed_and_snapshotted(fixture: &Fixture) {
    let tree = StateTree::empty(&fixture.repository);
    for (path, content) in [("a", "first"), ("b/c", "second")] {
        let path = path.parse().unwrap();
        block_on(tree.write(&path, content.into(), Attributes::default())).unwrap();
    }
    let base = block_on(tree.commit(info())).unwrap();
    assert_eq!(fixture.snapshot_of(base).times, None);
    let workspaces = fixture.open();
    let created = workspaces.create(&id("one"), base, fixture.now(), None, &progress());
    let files = created.unwrap();
    fs::write(files.join("a"), "changed").unwrap();
    let taken = fixture.snapshot(&workspaces, "one");
    let expected = fixture.plain_import(&files);
    assert_eq!(fixture.snapshot_of(taken.id).tree, expected);
}
