//! Workspaces on a disk that is full or nearly so.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use elevo_testkit::disk::{self, Disk};
use elevo_workspace::{NeverFreeze, is_pool_stuck, remount_pool};

use support::{Fixture, id, info, progress};

const MIB: usize = 1 << 20;

fn write(path: &Path, bytes: usize) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    for _ in 0..bytes / MIB {
        file.write_all(&vec![7; MIB])?;
    }
    file.sync_all()
}

#[test]
fn a_pool_is_remounted_with_all_synced_data_after_a_full_disk() {
    if !disk::in_own_namespace("a_pool_is_remounted_with_all_synced_data_after_a_full_disk") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // The name has a space, which the kernel escapes in its list of mounts.
    let disk = Disk::make(directory.path(), "a disk", 512 << 20);
    let fixture = Fixture::pooled(disk.path());
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    fs::write(files.join("kept"), "kept").unwrap();
    File::open(files.join("kept")).unwrap().sync_all().unwrap();
    assert!(!is_pool_stuck(&fixture.root));
    remount_pool(&fixture.root).unwrap();
    assert_eq!(fs::read_to_string(files.join("kept")).unwrap(), "kept");

    // The disk below the pool fills, so that the pool cannot be written to.
    let ballast = disk.path().join("ballast");
    let _ = write(&ballast, 600 * MIB);
    for n in 0..100 {
        let _ = write(&files.join(format!("big {n}")), MIB);
        let _ = rustix::fs::syncfs(File::open(&files).unwrap());
        if is_pool_stuck(&fixture.root) {
            break;
        }
    }
    assert!(is_pool_stuck(&fixture.root));
    fs::write(files.join("new"), "new").unwrap_err();

    // With free space, the pool is mounted again and accepts writes.
    fs::remove_file(&ballast).unwrap();
    remount_pool(&fixture.root).unwrap();
    assert!(!is_pool_stuck(&fixture.root));
    let taken = workspaces.snapshot(&id("one"), info(), &NeverFreeze, &progress());
    assert!(taken.unwrap().is_new);
    let files = workspaces.path(&id("one")).unwrap();
    assert_eq!(fs::read_to_string(files.join("kept")).unwrap(), "kept");
    fs::write(files.join("new"), "new").unwrap();
    workspaces.remove(&id("one")).unwrap();
}

#[test]
fn capped_workspaces_stop_growing_until_the_cap_ends() {
    if !disk::in_own_namespace("capped_workspaces_stop_growing_until_the_cap_ends") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let fixture = Fixture::pooled(directory.path());
    let workspaces = fixture.open();
    let files = fixture.create(&workspaces, "one");
    assert_eq!(workspaces.count_live().unwrap(), 1);
    write(&files.join("before"), 2 * MIB).unwrap();
    workspaces.cap_growth(Some(2 << 20)).unwrap();
    for _ in 0..3 {
        workspaces.cap_growth(Some(0)).unwrap();
    }
    let rejected = write(&files.join("large"), 8 * MIB).unwrap_err();
    assert_eq!(rejected.kind(), ErrorKind::QuotaExceeded);
    // Files can still be deleted.
    fs::remove_file(files.join("large")).unwrap();
    fs::remove_file(files.join("before")).unwrap();
    workspaces.cap_growth(None).unwrap();
    write(&files.join("large"), 8 * MIB).unwrap();
}
