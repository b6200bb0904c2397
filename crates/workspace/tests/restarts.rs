//! Tests of workspaces after a restart of the process or of the machine, and of
//! the deletion of all workspaces at once, on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs;

use elevo_workspace::NeverFreeze;
use support::providers::on_every_provider;
use support::{Fixture, erases_all_workspaces_at_once, id, info, progress};

on_every_provider! {
    workspaces_survive_a_restart_and_half_created_ones_are_deleted
    a_restart_of_the_machine_loses_nothing
    all_workspaces_are_erased_at_once
}

fn workspaces_survive_a_restart_and_half_created_ones_are_deleted(fixture: &Fixture) {
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    fs::write(files.join("mine"), "kept").unwrap();
    drop(workspaces);
    let half = fixture.root.join("live/half/files");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("x"), "x").unwrap();
    fs::create_dir(fixture.root.join("live/empty")).unwrap();
    let busy = fixture.root.join("live/busy");
    fs::create_dir(&busy).unwrap();
    let lock = fs::File::create(busy.join("lock")).unwrap();
    lock.lock().unwrap();

    let workspaces = fixture.open();
    assert_eq!(
        fixture.live_dirs(),
        ["busy", "one"],
        "another process is creating `busy`"
    );
    assert_eq!(fs::read(files.join("mine")).unwrap(), b"kept");
    assert_eq!(workspaces.path(&id("one")).unwrap(), files);
    drop(lock);
    fixture.open();
    assert_eq!(fixture.live_dirs(), ["one"]);
}

/// A restart loses all mounts, and the page cache of layers that were not
/// synced.
fn a_restart_of_the_machine_loses_nothing(fixture: &Fixture) {
    let workspaces = fixture.open();
    let one = fixture.create(&workspaces, "one");
    fs::write(one.join("mine"), "kept").unwrap();
    fs::remove_file(one.join("run")).unwrap();
    let into = [id("two")];
    workspaces
        .fork(&id("one"), &into, info(), &NeverFreeze, &progress())
        .unwrap();
    let two = workspaces.path(&into[0]).unwrap();
    fs::write(two.join("mine"), "of two").unwrap();
    let expected = [&one, &two].map(|files| (fixture.plain_import(files), fixture.times(files)));
    drop(workspaces);
    fixture.restart();

    let workspaces = fixture.open();
    for (name, expected) in ["one", "two"].into_iter().zip(expected) {
        let files = workspaces.path(&id(name)).unwrap();
        assert_eq!(fixture.plain_import(&files), expected.0, "{name}");
        assert_eq!(fixture.times(&files), expected.1, "{name}");
        let changes = workspaces.changes(&id(name), &progress()).unwrap();
        assert_eq!(changes.tree, expected.0, "{name}");
    }
}

fn all_workspaces_are_erased_at_once(fixture: &Fixture) {
    erases_all_workspaces_at_once(fixture);
}
