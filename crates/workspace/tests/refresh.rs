//! Refreshes workspaces that are in use, on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "tests look at the clock")]

mod support;

use std::fs;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::SystemTime;

use elevo_engine::{ImportOptions, import};
use elevo_objects::SnapshotId;
use elevo_workspace::{Error, NeverFreeze, Refreshed, Workspaces};
use futures::executor::block_on;
use rand::RngExt;
use support::providers::on_every_provider;
use support::random::change_something;
use support::{AGENT, Calls, Fixture, as_agent, id, info, owners, progress};

on_every_provider! {
    a_refresh_writes_only_the_differences
    writers_are_paused_during_a_whole_refresh
    an_open_file_keeps_its_old_content
    a_refresh_without_a_decision_changes_nothing
    a_file_changed_during_a_refresh_is_not_overwritten
    random_refreshes_are_exact;
of_root:
    refreshed_files_belong_to_the_agent
}

/// Stores a directory as a snapshot.
fn stored(fixture: &Fixture, directory: &Path, parents: &[SnapshotId]) -> SnapshotId {
    let options = ImportOptions {
        threads: 2,
        leave_out: Vec::new(),
        ignoring: None,
    };
    let imported = import(&fixture.repository, directory, &options, &progress()).unwrap();
    let info = elevo_engine::CommitInfo {
        parents: parents.to_vec(),
        ..info()
    };
    block_on(imported.commit(&fixture.repository, info)).unwrap()
}

/// Returns `taken` with the changes of `change`, as a merge would.
fn merged(fixture: &Fixture, taken: SnapshotId, change: impl FnOnce(&Path)) -> SnapshotId {
    let directory = tempfile::tempdir().unwrap();
    let options = elevo_engine::CheckoutOptions {
        threads: 2,
        leave_out: Vec::new(),
        ignoring: None,
        force: false,
        clone_source: None,
        owner: None,
    };
    let snapshot = fixture.snapshot_of(taken);
    let present = elevo_engine::ExistingContent::Unknown;
    let (repository, into) = (&fixture.repository, directory.path());
    elevo_engine::checkout(repository, &snapshot, into, &present, &options, &progress()).unwrap();
    change(directory.path());
    stored(fixture, directory.path(), &[taken])
}

fn refresh(
    workspaces: &Workspaces,
    name: &str,
    decide: impl FnOnce(SnapshotId) -> Option<SnapshotId>,
) -> Result<Refreshed, Error> {
    let decide = |taken| Ok(decide(taken));
    workspaces.refresh(&id(name), info(), &NeverFreeze, &progress(), decide)
}

fn a_refresh_writes_only_the_differences(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    let root = fs::metadata(&files).unwrap().modified().unwrap();
    fs::write(files.join("mine"), "of the agent").unwrap();
    fs::write(files.join("src/lib.rs"), "of the agent").unwrap();
    let began = SystemTime::now();
    let refreshed = refresh(&workspaces, "one", |taken| {
        let change = |files: &Path| {
            fs::write(files.join("src/main.rs"), "of another").unwrap();
            let main = fs::File::options()
                .write(true)
                .open(files.join("src/main.rs"));
            main.unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
            fs::remove_file(files.join("link")).unwrap();
            fs::create_dir(files.join("link")).unwrap();
            fs::write(files.join("link/new"), "new").unwrap();
            fs::remove_dir(files.join("empty")).unwrap();
        };
        Some(merged(fixture, taken, change))
    });
    let refreshed = refreshed.unwrap();
    assert!(refreshed.taken.is_new);
    let (now, report) = refreshed.written.unwrap();
    assert_eq!((report.written, report.removed), (3, 2));
    let record = workspaces.get(&id("one")).unwrap();
    assert_eq!((record.base, record.unfinished), (now, None));
    assert_eq!(fixture.plain_import(&files), fixture.snapshot_of(now).tree);
    assert_eq!(fs::read(files.join("mine")).unwrap(), b"of the agent");
    let changes = workspaces.changes(&id("one"), &progress()).unwrap();
    assert!(changes.is_empty());
    let modified = |name: &str| fs::metadata(files.join(name)).unwrap().modified().unwrap();
    assert_eq!(
        modified("run"),
        fixture.modified,
        "the file was not written"
    );
    let second = std::time::Duration::from_secs(1);
    assert!(modified("src/main.rs") + second > began.max(root));

    // The written files have the current time instead of that of the snapshot,
    // so the next snapshot differs in times only.
    let taken = fixture.snapshot(&workspaces, "one");
    assert!(taken.is_new);
    let next = fixture.snapshot_of(taken.id);
    assert_eq!(next.parents, [now]);
    assert_eq!(next.tree, fixture.snapshot_of(now).tree);
}

fn writers_are_paused_during_a_whole_refresh(fixture: &Fixture) {
    let workspaces = fixture.open();
    fixture.create(&workspaces, "one");
    let calls = Calls::default();
    let decide = |taken| {
        calls.0.borrow_mut().push("decide");
        let held = workspaces.changes(&id("one"), &progress());
        assert!(matches!(held, Err(Error::Busy(_))));
        Ok::<_, Error>(Some(taken))
    };
    let refreshed = workspaces.refresh(&id("one"), info(), &calls, &progress(), decide);
    assert!(refreshed.unwrap().written.is_none());
    assert_eq!(*calls.0.borrow(), ["freeze", "decide", "thaw"]);
}

fn an_open_file_keeps_its_old_content(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    let mut options = fs::File::options();
    let mut open = options
        .read(true)
        .write(true)
        .open(files.join("src/main.rs"))
        .unwrap();
    let write = |files: &Path| fs::write(files.join("src/main.rs"), "new and longer").unwrap();
    let refreshed = refresh(&workspaces, "one", |taken| {
        Some(merged(fixture, taken, write))
    });
    refreshed.unwrap();
    let mut old = String::new();
    open.read_to_string(&mut old).unwrap();
    assert_eq!(old, "fn main() {}\n");
    open.rewind().unwrap();
    open.write_all(b"written to the deleted file").unwrap();
    drop(open);
    let new = fs::read_to_string(files.join("src/main.rs")).unwrap();
    assert_eq!(new, "new and longer");
}

fn a_refresh_without_a_decision_changes_nothing(fixture: &Fixture) {
    #[derive(Debug)]
    enum Failed {
        Here,
        There,
    }
    impl From<Error> for Failed {
        fn from(_: Error) -> Self {
            Self::There
        }
    }
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    fs::write(files.join("mine"), "kept").unwrap();
    let tree = fixture.plain_import(&files);
    let decide = |_| Err(Failed::Here);
    let failed = workspaces.refresh(&id("one"), info(), &NeverFreeze, &progress(), decide);
    assert!(matches!(failed, Err(Failed::Here)));
    let nowhere = SnapshotId(elevo_objects::Hash::from_bytes([1; 32]));
    let decide = |_| Ok(Some(nowhere));
    let failed = workspaces.refresh(&id("one"), info(), &NeverFreeze, &progress(), decide);
    assert!(matches!(failed, Err(Failed::There)));
    assert_eq!(fixture.plain_import(&files), tree);
    let record = workspaces.get(&id("one")).unwrap();
    assert_eq!(fixture.snapshot_of(record.base).tree, tree);
    assert_eq!(record.unfinished, None);
    let same = refresh(&workspaces, "one", |_| None).unwrap();
    assert!(same.written.is_none() && !same.taken.is_new);
}

/// A writer that is not paused changes the file.
fn a_file_changed_during_a_refresh_is_not_overwritten(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    let decide = |taken| {
        fs::write(files.join("src/main.rs"), "written too late").unwrap();
        let write = |files: &Path| {
            fs::write(files.join("src/main.rs"), "of another").unwrap();
            fs::write(files.join("run"), "of another").unwrap();
        };
        Some(merged(fixture, taken, write))
    };
    let rejected = refresh(&workspaces, "one", decide);
    assert!(matches!(
        rejected,
        Err(Error::Engine(elevo_engine::Error::InTheWay { .. }))
    ));
    let late = fs::read_to_string(files.join("src/main.rs")).unwrap();
    assert_eq!(late, "written too late");
    assert_eq!(fs::read(files.join("run")).unwrap(), b"1234");
    assert_eq!(workspaces.get(&id("one")).unwrap().unfinished, None);
    // A new file that no written path collides with stays as well.
    let decide = |taken| {
        fs::write(files.join("late"), "written too late").unwrap();
        let write = |files: &Path| fs::write(files.join("run"), "of another").unwrap();
        Some(merged(fixture, taken, write))
    };
    refresh(&workspaces, "one", decide).unwrap();
    assert_eq!(fs::read(files.join("late")).unwrap(), b"written too late");
    assert_eq!(fs::read(files.join("run")).unwrap(), b"of another");
}

fn refreshed_files_belong_to_the_agent(fixture: &Fixture) {
    let fixture = fixture.owned();
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    as_agent(&files, "echo mine > mine");
    let refreshed = refresh(&workspaces, "one", |taken| {
        let change = |files: &Path| {
            fs::write(files.join("src/main.rs"), "of another").unwrap();
            fs::create_dir_all(files.join("deep/er")).unwrap();
            fs::write(files.join("deep/er/new"), "new").unwrap();
        };
        Some(merged(&fixture, taken, change))
    });
    refreshed.unwrap();
    let mut others = owners(&files)
        .into_iter()
        .filter(|(_, owner)| *owner != AGENT);
    assert_eq!(others.next(), None);
    as_agent(&files, "rm -r deep && echo again >> src/main.rs && rm mine");
}

fn random_refreshes_are_exact(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    let mut random = fixture.random();
    for round in 0..15 {
        for _ in 0..random.random_range(1..10) {
            let _ = change_something(&files, &mut random);
        }
        let mine = fixture.plain_import(&files);
        let refreshed = refresh(&workspaces, "one", |taken| {
            assert_eq!(fixture.snapshot_of(taken).tree, mine, "{round}");
            let change = |files: &Path| {
                for _ in 0..random.random_range(1..10) {
                    let _ = change_something(files, &mut random);
                }
            };
            Some(merged(fixture, taken, change))
        });
        let refreshed = refreshed.unwrap();
        let (now, _) = refreshed
            .written
            .unwrap_or((refreshed.taken.id, elevo_engine::CheckoutReport::default()));
        let tree = fixture.snapshot_of(now).tree;
        assert_eq!(fixture.plain_import(&files), tree, "{round}");
        let changes = workspaces.changes(&id("one"), &progress()).unwrap();
        assert!(changes.is_empty(), "{round}");
    }
}
