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
use support::{Bench, id, info, progress};

/// Counts the calls.
#[derive(Debug)]
struct Counting(Arc<dyn LazyServer>, AtomicUsize);

impl LazyServer for Counting {
    fn serve(&self, id: SnapshotId, at: &Path, owner: Option<Owner>) -> std::io::Result<()> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.serve(id, at, owner)
    }
}

fn counting(directory: &Path) -> (Bench, Arc<Counting>) {
    let bench = Bench::lazy(directory);
    let server = bench.lazy.clone().unwrap();
    let server = Arc::new(Counting(server, AtomicUsize::new(0)));
    let lazy: Arc<dyn LazyServer> = server.clone();
    let bench = Bench {
        lazy: Some(lazy),
        ..bench
    };
    (bench, server)
}

fn make(workspaces: &Workspaces, bench: &Bench, name: &str) -> PathBuf {
    let made = workspaces.create(&id(name), bench.base, bench.now(), None, &progress());
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
fn one_is_served_once_and_leaves_nothing() {
    if !in_own_namespace("one_is_served_once_and_leaves_nothing") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (bench, server) = counting(directory.path());
    let workspaces = bench.open();
    let [one, two] = ["one", "two"].map(|name| make(&workspaces, &bench, name));
    assert_eq!(server.1.load(Ordering::SeqCst), 1);
    fs::write(one.join("run"), "changed").unwrap();
    fs::remove_file(one.join("src/main.rs")).unwrap();
    fs::rename(one.join("src"), one.join("moved")).unwrap();
    assert_eq!(fs::read(two.join("run")).unwrap(), b"1234");
    assert!(two.join("src/main.rs").exists());
    // No layer was written out.
    assert!(fs::read_dir(bench.root.join("layers")).map_or(0, Iterator::count) <= 1);
    workspaces.remove(&id("one")).unwrap();
    assert_eq!(fs::read(two.join("run")).unwrap(), b"1234");
    workspaces.remove(&id("two")).unwrap();
    workspaces.tidy().unwrap();
    assert_eq!(mounts(&bench.root), Vec::<String>::new());
    assert_eq!(fs::read_dir(bench.root.join("lazy")).unwrap().count(), 0);
}

#[test]
fn a_snapshot_that_was_written_out_is_used_by_the_next_workspace() {
    if !in_own_namespace("a_snapshot_that_was_written_out_is_used_by_the_next_workspace") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (bench, server) = counting(directory.path());
    let workspaces = bench.open();
    let first = make(&workspaces, &bench, "first");
    write_out(&bench.root, &bench.repository, 1, bench.base, None).unwrap();
    let next = make(&workspaces, &bench, "next");
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
fn a_file_of_holes_is_changed_at_once() {
    use std::os::unix::fs::FileExt;
    if !in_own_namespace("a_file_of_holes_is_changed_at_once") {
        return;
    }
    const HOLE: u64 = 1 << 42;
    let directory = tempfile::tempdir().unwrap();
    let (bench, _) = counting(directory.path());
    let workspaces = bench.open();
    let files = make(&workspaces, &bench, "one");
    let file = fs::File::create(files.join("sparse")).unwrap();
    file.write_all_at(b"end", HOLE).unwrap();
    let taken = bench.snapshot(&workspaces, "one");
    let bench = Bench {
        base: taken.id,
        root: directory.path().join("elsewhere"),
        ..bench
    };
    let workspaces = bench.open();
    let files = make(&workspaces, &bench, "two");
    let file = fs::File::options()
        .write(true)
        .open(files.join("sparse"))
        .unwrap();
    file.write_all_at(b"middle", HOLE / 2).unwrap();
    let taken = bench.snapshot(&workspaces, "two");
    assert!(taken.is_new);
    let [before, after] = [bench.base, taken.id].map(|id| bench.snapshot_of(id).tree.bytes);
    assert!(before > HOLE && before == after);
    assert_eq!(fs::metadata(files.join("sparse")).unwrap().len(), HOLE + 3);
}

#[test]
fn a_workspace_survives_the_death_of_its_server() {
    if !in_own_namespace("a_workspace_survives_the_death_of_its_server") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (bench, server) = counting(directory.path());
    let workspaces = bench.open();
    let files = make(&workspaces, &bench, "one");
    let other = make(&workspaces, &bench, "other");
    fs::write(files.join("new"), "kept").unwrap();
    // The kernel ends a connection as if its process had exited.
    let lower = fs::read_dir(bench.root.join("lazy")).unwrap();
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
