//! Workspaces over served snapshots.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use elevo_engine::Owner;
use elevo_objects::SnapshotId;
use elevo_testkit::disk::in_own_namespace;
use elevo_workspace::{LazyServer, Workspaces, write_out};
use rustix::mount::{UnmountFlags, unmount};
use support::{Fixture, id, info, progress};

/// Counts the snapshots that another server serves.
#[derive(Debug)]
struct Counting(Arc<dyn LazyServer>, AtomicUsize);

impl LazyServer for Counting {
    fn serve(&self, id: SnapshotId, at: &Path, owner: Option<Owner>) -> std::io::Result<()> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.serve(id, at, owner)
    }
}

fn counting(directory: &Path) -> (Fixture, Arc<Counting>) {
    let fixture = Fixture::lazy(directory);
    let server = fixture.lazy.clone().unwrap();
    let server = Arc::new(Counting(server, AtomicUsize::new(0)));
    let lazy: Arc<dyn LazyServer> = server.clone();
    let fixture = Fixture {
        lazy: Some(lazy),
        ..fixture
    };
    (fixture, server)
}

fn make(workspaces: &Workspaces, fixture: &Fixture, name: &str) -> PathBuf {
    let made = workspaces.create(&id(name), fixture.base, fixture.now(), None, &progress());
    made.unwrap();
    workspaces.path(&id(name)).unwrap()
}

/// Returns the mounts below a directory.
fn mounts(root: &Path) -> Vec<String> {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let root = root.to_str().unwrap();
    let below = all.lines().filter(|line| line.contains(root));
    below.map(str::to_owned).collect()
}

#[test]
fn a_snapshot_is_served_once_and_leaves_nothing() {
    if !in_own_namespace("a_snapshot_is_served_once_and_leaves_nothing") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (fixture, server) = counting(directory.path());
    let workspaces = fixture.open();
    let [one, two] = ["one", "two"].map(|name| make(&workspaces, &fixture, name));
    assert_eq!(server.1.load(Ordering::SeqCst), 1);
    fs::write(one.join("run"), "changed").unwrap();
    fs::remove_file(one.join("src/main.rs")).unwrap();
    fs::rename(one.join("src"), one.join("moved")).unwrap();
    assert_eq!(fs::read(two.join("run")).unwrap(), b"1234");
    assert!(two.join("src/main.rs").exists());
    let layers = fs::read_dir(fixture.root.join("layers")).unwrap();
    let layers: Vec<_> = layers.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(layers, ["lock"], "no layer was written out");
    workspaces.remove(&id("one")).unwrap();
    assert_eq!(fs::read(two.join("run")).unwrap(), b"1234");
    workspaces.remove(&id("two")).unwrap();
    workspaces.tidy().unwrap();
    assert_eq!(mounts(&fixture.root), Vec::<String>::new());
    assert_eq!(fs::read_dir(fixture.root.join("lazy")).unwrap().count(), 0);
}

#[test]
fn a_snapshot_that_was_written_out_is_used_by_the_next_workspace() {
    if !in_own_namespace("a_snapshot_that_was_written_out_is_used_by_the_next_workspace") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (fixture, server) = counting(directory.path());
    let workspaces = fixture.open();
    let first = make(&workspaces, &fixture, "first");
    write_out(&fixture.root, &fixture.repository, 1, fixture.base, None).unwrap();
    let next = make(&workspaces, &fixture, "next");
    assert_eq!(server.1.load(Ordering::SeqCst), 1);
    let served = mounts(&first.canonicalize().unwrap());
    assert!(
        served.iter().any(|line| line.contains("/lazy/")),
        "{served:?}"
    );
    let written = mounts(&next.canonicalize().unwrap());
    assert!(
        written.iter().any(|line| line.contains("/layers/")),
        "{written:?}"
    );
    assert_eq!(fs::read(next.join("run")).unwrap(), b"1234");
}

/// Before a change, the overlay copies a file up, but not its holes.
#[test]
fn a_sparse_file_is_changed_without_reading_its_holes() {
    use std::os::unix::fs::FileExt;
    if !in_own_namespace("a_sparse_file_is_changed_without_reading_its_holes") {
        return;
    }
    const HOLE: u64 = 1 << 42;
    let directory = tempfile::tempdir().unwrap();
    let (fixture, _) = counting(directory.path());
    let workspaces = fixture.open();
    let files = make(&workspaces, &fixture, "one");
    let file = fs::File::create(files.join("sparse")).unwrap();
    file.write_all_at(b"end", HOLE).unwrap();
    let taken = fixture.snapshot(&workspaces, "one");
    let fixture = Fixture {
        base: taken.id,
        root: directory.path().join("elsewhere"),
        ..fixture
    };
    let workspaces = fixture.open();
    let files = make(&workspaces, &fixture, "two");
    let file = fs::File::options()
        .write(true)
        .open(files.join("sparse"))
        .unwrap();
    file.write_all_at(b"middle", HOLE / 2).unwrap();
    let taken = fixture.snapshot(&workspaces, "two");
    assert!(taken.is_new);
    let [before, after] = [fixture.base, taken.id].map(|id| fixture.snapshot_of(id).tree.bytes);
    assert!(before > HOLE && before == after);
    assert_eq!(fs::metadata(files.join("sparse")).unwrap().len(), HOLE + 3);
}

#[test]
fn a_workspace_survives_the_death_of_its_server() {
    if !in_own_namespace("a_workspace_survives_the_death_of_its_server") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (fixture, server) = counting(directory.path());
    let workspaces = fixture.open();
    let files = make(&workspaces, &fixture, "one");
    let other = make(&workspaces, &fixture, "other");
    fs::write(files.join("new"), "kept").unwrap();
    // The kernel ends the connection as if its server had exited.
    let lower = fs::read_dir(fixture.root.join("lazy")).unwrap();
    let lower = lower
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_dir());
    let lower = lower.unwrap();
    abort(&lower);
    assert!(fs::read(files.join("run")).is_err());
    let files = workspaces.path(&id("one")).unwrap();
    assert_eq!(server.1.load(Ordering::SeqCst), 2);
    assert_eq!(fs::read(files.join("run")).unwrap(), b"1234");
    assert_eq!(fs::read(files.join("new")).unwrap(), b"kept");
    // Serving the snapshot again does not help workspaces over the old mount.
    assert!(fs::read(other.join("run")).is_err());
    let other = workspaces.path(&id("other")).unwrap();
    assert_eq!(fs::read(other.join("run")).unwrap(), b"1234");
    assert_eq!(server.1.load(Ordering::SeqCst), 2);
    let taken = workspaces.snapshot(
        &id("one"),
        info(),
        &elevo_workspace::NeverFreeze,
        &progress(),
    );
    assert!(taken.unwrap().is_new);
    // Removal also works when the lower was unmounted below the overlay.
    unmount(&lower, UnmountFlags::DETACH).unwrap();
    workspaces.remove(&id("one")).unwrap();
}

/// Aborts the connection of a FUSE mount.
fn abort(at: &Path) {
    use std::os::unix::fs::MetadataExt;
    let control = Path::new("/sys/fs/fuse/connections");
    if fs::read_dir(control).map_or(0, Iterator::count) == 0 {
        let data: Option<&std::ffi::CStr> = None;
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("fusectl", control, "fusectl", flags, data).unwrap();
    }
    let device = rustix::fs::minor(fs::metadata(at).unwrap().dev());
    fs::write(control.join(device.to_string()).join("abort"), "1").unwrap();
}
