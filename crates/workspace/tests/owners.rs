//! Workspaces that belong to the user that sandboxes run as, and their homes,
//! on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use elevo_testkit::disk;
use elevo_workspace::{Error, NeverFreeze, Owner, ProviderKind, State, Workspaces};
use support::providers::on_every_provider_of_root;
use support::{AGENT, Fixture, LIMIT, as_agent, id, info, owners, progress};

on_every_provider_of_root! {
    an_agent_without_privileges_can_change_everything
    each_owner_has_separate_files
    a_workspace_keeps_its_owner_after_a_restart
    snapshots_do_not_depend_on_the_owner
    a_home_belongs_to_the_agent_and_is_in_no_snapshot
    a_home_is_forked_with_its_workspace
    a_home_is_kept_while_its_workspace_is_parked
    a_workspace_without_a_home_gets_one
    a_hostile_home_affects_nothing_outside
}

const ROOT: Owner = Owner { uid: 0, gid: 0 };

fn assert_all_of(directory: &Path, owner: Owner) {
    let others = owners(directory);
    let mut others = others.into_iter().filter(|(_, found)| *found != owner);
    assert_eq!(others.next(), None);
}

/// Every change that needs write permission on a file or directory.
const CHANGES: &str = "
    echo changed >> src/main.rs
    echo new > src/new.rs
    mkdir empty/deeper && echo x > empty/deeper/x
    mv src moved && rm moved/new.rs
    chmod 700 run && rm link && ln -s run link
    rmdir empty/deeper 2>/dev/null || rm -r empty/deeper
    echo at-the-root > root && touch -d 2001-01-01 run
";

fn an_agent_without_privileges_can_change_everything(fixture: &Fixture) {
    let fixture = fixture.owned();
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    assert_all_of(&files, AGENT);
    as_agent(&files, CHANGES);
    let taken = fixture.snapshot(&workspaces, "one");
    assert_eq!(taken.losses, [], "all files have one owner");
    assert_eq!(
        fixture.snapshot_of(taken.id).tree,
        fixture.plain_import(&files)
    );

    let fork = id("fork");
    let into = std::slice::from_ref(&fork);
    workspaces
        .fork(&id("one"), into, info(), &NeverFreeze, &progress())
        .unwrap();
    let forked = workspaces.path(&fork).unwrap();
    assert_all_of(&forked, AGENT);
    as_agent(&forked, "rm -r moved && echo of-the-fork > root");
    // This workspace is created from the snapshot with the changes.
    let created = workspaces.create(&id("two"), taken.id, fixture.now(), None, &progress());
    let two = created.unwrap();
    assert_all_of(&two, AGENT);
    as_agent(
        &two,
        "rm moved/main.rs && echo of-two > root && mv moved src",
    );
    assert_eq!(fs::read(files.join("root")).unwrap(), b"at-the-root\n");

    workspaces
        .park(&id("one"), info(), &NeverFreeze, &progress())
        .unwrap();
    let files = workspaces.resume(&id("one"), &progress()).unwrap();
    assert_all_of(&files, AGENT);
    as_agent(&files, "rm -r moved root link && echo again > root");
}

fn each_owner_has_separate_files(fixture: &Fixture) {
    let open = |owner| {
        Fixture {
            owner,
            ..fixture.owned()
        }
        .open()
    };
    let other = Owner { uid: 7, gid: 8 };
    let groups = Owner { uid: 1000, gid: 8 };
    let expected = [None, Some(AGENT), Some(other), Some(groups), None];
    let names = ["plain", "agent", "other", "group", "plain-again"];
    for (name, owner) in names.into_iter().zip(expected) {
        let files = fixture.create(&open(owner), name);
        assert_all_of(&files, owner.unwrap_or(ROOT));
    }
    let workspaces = open(Some(other));
    for (name, owner) in names.into_iter().zip(expected) {
        assert_eq!(workspaces.get(&id(name)).unwrap().owner, owner);
        let fork = id(&format!("{name}-fork"));
        let into = std::slice::from_ref(&fork);
        workspaces
            .fork(&id(name), into, info(), &NeverFreeze, &progress())
            .unwrap();
        // A fork has the owner of its origin.
        let files = workspaces.path(&fork).unwrap();
        assert_all_of(&files, owner.unwrap_or(ROOT));
    }
}

fn a_workspace_keeps_its_owner_after_a_restart(fixture: &Fixture) {
    let fixture = fixture.owned();
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    as_agent(&files, "echo mine > src/mine");
    as_agent(&workspaces.home(&id("one")).unwrap(), "echo kept > kept");
    drop(workspaces);
    fixture.restart();
    let plain = Fixture {
        owner: None,
        ..fixture.owned()
    };
    // Opening with another owner deletes nothing that the workspace needs.
    let options = elevo_workspace::Options {
        spare_layers: 0,
        ..plain.options()
    };
    let workspaces = Workspaces::open(&fixture.root, fixture.repository.clone(), &options).unwrap();
    let files = workspaces.path(&id("one")).unwrap();
    workspaces.tidy().unwrap();
    assert_all_of(&files, AGENT);
    as_agent(&files, "echo again > src/main.rs && rm run");
    let home = workspaces.home(&id("one")).unwrap();
    assert_eq!(as_agent(&home, "cat kept"), "kept\n");
    assert!(workspaces.changes(&id("one"), &progress()).is_ok());
}

fn snapshots_do_not_depend_on_the_owner(fixture: &Fixture) {
    let trees = [None, Some(AGENT)].map(|owner| {
        let fixture = Fixture {
            owner,
            root: fixture.root.join(owner.map_or("plain", |_| "agent")),
            ..fixture.owned()
        };
        let workspaces = fixture.open();
        let files = fixture.create(&workspaces, "one");
        assert!(!fixture.snapshot(&workspaces, "one").is_new);
        fs::write(files.join("src/main.rs"), "the same").unwrap();
        let taken = fixture.snapshot(&workspaces, "one");
        fixture.snapshot_of(taken.id).tree
    });
    assert_eq!(trees[0], trees[1]);
}

#[test]
fn only_root_can_create_workspaces_of_another_owner() {
    use rustix::thread::set_thread_res_uid;
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(directory.path(), ProviderKind::Copy).owned();
    let [root, nobody] = [0, 65_534].map(rustix::process::Uid::from_raw);
    // Changes the user of this thread only.
    set_thread_res_uid(nobody, nobody, root).unwrap();
    let opened = Workspaces::open(
        &fixture.root,
        fixture.repository.clone(),
        &fixture.options(),
    );
    set_thread_res_uid(root, root, root).unwrap();
    assert!(matches!(opened, Err(Error::OwnerNeedsRoot)));
}

fn a_home_belongs_to_the_agent_and_is_in_no_snapshot(fixture: &Fixture) {
    let fixture = fixture.owned();
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    let home = workspaces.home(&id("one")).unwrap();
    let stat = fs::metadata(&home).unwrap();
    assert_eq!(stat.permissions().mode() & 0o7777, 0o700);
    assert_all_of(&home, AGENT);
    as_agent(
        &home,
        "mkdir -p .cache/deep && echo secret > .cache/deep/file",
    );
    assert!(!files.join("home").exists() && !files.join(".cache").exists());
    assert!(
        workspaces
            .changes(&id("one"), &progress())
            .unwrap()
            .is_empty()
    );
    assert!(!fixture.snapshot(&workspaces, "one").is_new);
    assert_eq!(workspaces.home(&id("one")).unwrap(), home);
    workspaces.remove(&id("one")).unwrap();
    assert!(!home.exists());
    assert!(matches!(
        workspaces.home(&id("one")),
        Err(Error::NotFound(_))
    ));
}

fn a_home_is_forked_with_its_workspace(fixture: &Fixture) {
    let fixture = fixture.owned();
    let workspaces = fixture.open();
    fixture.create(&workspaces, "one");
    let home = workspaces.home(&id("one")).unwrap();
    as_agent(
        &home,
        "mkdir d && echo kept > d/f && chmod 600 d/f && ln -s d/f l && touch -d 2001-01-01 d/f d",
    );
    let into = ["two", "three"].map(id);
    workspaces
        .fork(&id("one"), &into, info(), &NeverFreeze, &progress())
        .unwrap();
    for fork in &into {
        let forked = workspaces.home(fork).unwrap();
        assert_eq!(fixture.plain_import(&forked), fixture.plain_import(&home));
        assert_eq!(fixture.times(&forked), fixture.times(&home));
        assert_eq!(fs::metadata(&forked).unwrap().mode() & 0o7777, 0o700);
        assert_all_of(&forked, AGENT);
        as_agent(&forked, "echo more >> d/f && rm l");
    }
    assert_eq!(fs::read(home.join("d/f")).unwrap(), b"kept\n");
    assert!(home.join("l").symlink_metadata().is_ok());
}

fn a_home_is_kept_while_its_workspace_is_parked(fixture: &Fixture) {
    let fixture = fixture.owned();
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    let home = workspaces.home(&id("one")).unwrap();
    as_agent(
        &home,
        "mkdir d && echo kept > d/f && chmod 400 d/f && ln -s d/f l && touch -d 2001-01-01 d/f d",
    );
    let (tree, times) = (fixture.plain_import(&home), fixture.times(&home));
    let park = |workspaces: &Workspaces| {
        let parked = workspaces.park(&id("one"), info(), &NeverFreeze, &progress());
        parked.unwrap()
    };
    let taken = park(&workspaces);
    assert!(!taken.is_new, "the home is not in the snapshot");
    let record = workspaces.get(&id("one")).unwrap();
    assert_eq!(record.state, State::Parked);
    assert_eq!(fixture.snapshot_of(record.home.unwrap()).tree, tree);
    assert!(!home.exists() && !files.exists());
    assert!(matches!(workspaces.home(&id("one")), Err(Error::Parked(_))));
    drop(workspaces);

    let workspaces = fixture.open();
    workspaces.resume(&id("one"), &progress()).unwrap();
    let home = workspaces.home(&id("one")).unwrap();
    assert_eq!(fixture.plain_import(&home), tree);
    assert_eq!(fixture.times(&home), times);
    assert_all_of(&home, AGENT);
    as_agent(&home, "rm -rf d l");
    park(&workspaces);
    assert_eq!(workspaces.get(&id("one")).unwrap().home, None);
    workspaces.resume(&id("one"), &progress()).unwrap();
    let home = workspaces.home(&id("one")).unwrap();
    assert_eq!(fs::read_dir(home).unwrap().count(), 0);
}

fn a_workspace_without_a_home_gets_one(fixture: &Fixture) {
    let fixture = fixture.owned();
    let workspaces = fixture.open();
    fixture.create(&workspaces, "one");
    let home = workspaces.home(&id("one")).unwrap();
    fs::remove_dir(&home).unwrap();
    workspaces
        .fork(&id("one"), &[id("two")], info(), &NeverFreeze, &progress())
        .unwrap();
    workspaces
        .park(&id("two"), info(), &NeverFreeze, &progress())
        .unwrap();
    assert_eq!(workspaces.home(&id("one")).unwrap(), home);
    assert_all_of(&home, AGENT);
    assert_eq!(fs::metadata(&home).unwrap().mode() & 0o7777, 0o700);
}

fn a_hostile_home_affects_nothing_outside(fixture: &Fixture) {
    let fixture = fixture.owned();
    let workspaces = fixture.open();
    fixture.create(&workspaces, "one");
    let home = workspaces.home(&id("one")).unwrap();
    let outside = fixture.root.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    symlink(&outside, home.join("link")).unwrap();
    as_agent(
        &home,
        "mkfifo pipe && mkdir closed && echo x > closed/x && chmod 0 closed",
    );
    workspaces
        .fork(&id("one"), &[id("two")], info(), &NeverFreeze, &progress())
        .unwrap();
    workspaces
        .park(&id("one"), info(), &NeverFreeze, &progress())
        .unwrap();
    workspaces.resume(&id("one"), &progress()).unwrap();
    let home = workspaces.home(&id("one")).unwrap();
    let stat = |name: &str| home.join(name).symlink_metadata();
    assert!(stat("link").unwrap().is_symlink() && stat("pipe").is_err());
    assert_eq!(stat("closed").unwrap().mode() & 0o7777, 0);
    for name in ["one", "two"] {
        workspaces.remove(&id(name)).unwrap();
    }
    assert_eq!(
        owners(&outside),
        [(outside.clone(), ROOT), (outside.join("secret"), ROOT),]
    );
}

#[test]
fn files_and_home_share_a_limit() {
    if !disk::in_own_namespace("files_and_home_share_a_limit") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::pooled(directory.path()).owned();
    let workspaces = fixture.open();
    let free = workspaces.create(&id("free"), fixture.base, fixture.now(), None, &progress());
    free.unwrap();
    assert_eq!(workspaces.limit_usage(&id("free")).unwrap(), None);
    let files = fixture.create(&workspaces, "one");
    let home = workspaces.home(&id("one")).unwrap();
    let used = || workspaces.limit_usage(&id("one")).unwrap().unwrap();
    assert_eq!(used().limit, Some(LIMIT));
    assert!(used().used < 1 << 20, "{:?}", used());
    let write = "head -c 8000000 /dev/urandom > big && sync big";
    as_agent(&home, write);
    let before = used().used;
    assert!((8_000_000..9_000_000).contains(&before), "{before}");
    let full = as_agent(
        &files,
        "{ head -c 12000000 /dev/urandom > big && sync big; } 2>&1 || echo full",
    );
    assert!(full.contains("full"), "{full}");
    assert!(used().used <= LIMIT);
    workspaces
        .fork(&id("one"), &[id("two")], info(), &NeverFreeze, &progress())
        .unwrap();
    let fork = workspaces.limit_usage(&id("two")).unwrap().unwrap();
    assert_eq!(fork.limit, Some(LIMIT));
    assert!(fork.used < 1 << 20, "the data of its origin counts there");
    workspaces
        .park(&id("one"), info(), &NeverFreeze, &progress())
        .unwrap();
    assert!(matches!(
        workspaces.limit_usage(&id("one")),
        Err(Error::Parked(_))
    ));
}

#[test]
fn without_a_pool_usage_is_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(directory.path(), ProviderKind::Copy);
    let workspaces = fixture.open();
    fixture.create(&workspaces, "one");
    assert_eq!(workspaces.limit_usage(&id("one")).unwrap(), None);
}
