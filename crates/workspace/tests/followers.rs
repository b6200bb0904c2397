//! Workspaces that follow snapshots, seen by other processes: in containers,
//! and in processes that share the mounts of the one that moves them on.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "tests measure time")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use elevo_testkit::disk;
use elevo_workspace::ProviderKind;
use support::numbered::{create, follow, mounts, number_in, numbered, run};
use support::{Bench, id};

/// Names the directory that a child process of this test reads.
const READ: &str = "ELEVO_TEST_READ";

/// Reads in a loop until the file `stop` exists, which holds the number of the
/// last snapshot. Every read must see all of one snapshot, and never an older
/// one.
fn read_in_a_loop(directory: &Path, stop: &Path) {
    let (mut last, mut seen, mut rounds) = (0, 1, 0_u64);
    let by_path = || {
        let text = fs::read_to_string(directory.join("3")).unwrap();
        text.parse::<usize>().unwrap()
    };
    while !stop.exists() {
        let before = by_path();
        let number = number_in(&fs::File::open(directory).unwrap());
        let after = by_path();
        assert!(last <= before && before <= number && number <= after);
        seen += usize::from(after != last);
        last = after;
        rounds += 1;
    }
    elevo_testkit::long::note(format_args!("{rounds} rounds, {seen} snapshots seen"));
    assert_eq!(last.to_string(), fs::read_to_string(stop).unwrap());
    assert!(seen > 2, "it was too slow to see anything");
}

/// Starts a process in a new mount namespace, like a container, with `source`
/// bound on the directory that it reads; or, without `source`, with the mounts
/// of this namespace.
fn start_reading(test: &str, bench: &Bench, source: Option<&Path>, read: &Path) -> Child {
    let script = match source {
        Some(_) => {
            "mount --rbind \"$1\" \"$2\" && mount --make-rslave \"$2\" && touch \"$3\" || exit 1
             while ! [ -e \"$2/0\" ]; do sleep 0.01; done; shift 3; exec \"$@\""
        }
        None => "touch \"$3\"; shift 3; exec \"$@\"",
    };
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "slave", "--kill-child", "--"]);
    command.args(["sh", "-c", script, "sh"]);
    command.arg(source.unwrap_or(read)).arg(read);
    command.arg(bench.root.join("started"));
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--include-ignored"]);
    command.env(READ, read).stdin(Stdio::null());
    let child = command.spawn().unwrap();
    let began = Instant::now();
    while !bench.root.join("started").exists() {
        assert!(began.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::remove_file(bench.root.join("started")).unwrap();
    child
}

/// Two processes read a workspace that follows snapshots: one in a container,
/// and one that has all mounts of this namespace.
fn read_while_it_follows(test: &str, bench: &Bench, count: usize, pause: Duration) {
    let workspaces = bench.open();
    let snapshots = numbered(bench, count);
    let files = create(bench, &workspaces, "one", snapshots[0]);
    let container = bench.root.join("container");
    fs::create_dir(&container).unwrap();
    let bound = workspaces.bind(&id("one")).unwrap();
    let source = bound.source().to_owned();
    assert_eq!(fs::read_dir(&source).unwrap().count(), 0);
    let inside = start_reading(test, bench, Some(&source), &container);
    workspaces.show(bound).unwrap();
    assert_eq!(
        fs::read_dir(&source).unwrap().count(),
        0,
        "the source is bare again"
    );
    let beside = start_reading(test, bench, None, &files);
    let mut took = Vec::new();
    for snapshot in &snapshots[1..] {
        std::thread::sleep(pause);
        let began = Instant::now();
        follow(&workspaces, "one", *snapshot);
        took.push(began.elapsed());
    }
    std::thread::sleep(Duration::from_millis(300));
    // Atomically, since the readers poll for the file.
    fs::write(bench.root.join("stopping"), format!("{}", count - 1)).unwrap();
    fs::rename(bench.root.join("stopping"), bench.root.join("stop")).unwrap();
    for mut reader in [inside, beside] {
        assert!(reader.wait().unwrap().success());
    }
    took.sort();
    let (half, most) = (took[took.len() / 2], took[took.len() - 1]);
    elevo_testkit::long::note(format_args!("follow: p50 {half:?}, at most {most:?}"));
    let of_readers = mounts(&bench.root.join("read")) + mounts(&bench.root.join("read.bare"));
    assert!(of_readers <= 3, "one of the reader and two of all");
    workspaces.tidy().unwrap();
    assert!(mounts(&bench.root.join("views")) <= 1);
    workspaces.remove(&id("one")).unwrap();
}

/// The pause between two snapshots that are followed.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs `then` in a namespace, with or without shared mounts; or reads, if this
/// is a child process that was started for that.
fn in_a_namespace(test: &str, is_shared: bool, then: impl FnOnce(&Path)) {
    if let Some(read) = std::env::var_os(READ) {
        let read = PathBuf::from(read);
        // Next to `read`, or above the workspace that `read` is in.
        let root = read.ancestors().find(|path| path.join("registry").exists());
        return read_in_a_loop(&read, &root.unwrap().join("stop"));
    }
    if disk::in_own_namespace(test) {
        let directory = tempfile::tempdir().unwrap();
        if is_shared {
            run(Command::new("mount").args(["--make-rshared", "/"]));
        }
        then(directory.path());
    }
}

#[test]
fn containers_see_what_an_overlay_follows() {
    let test = "containers_see_what_an_overlay_follows";
    in_a_namespace(test, false, |directory| {
        let bench = Bench::new(directory, ProviderKind::Overlay);
        read_while_it_follows(test, &bench, 50, PAUSE);
    });
}

#[test]
fn containers_see_it_where_all_mounts_are_shared() {
    let test = "containers_see_it_where_all_mounts_are_shared";
    in_a_namespace(test, true, |directory| {
        read_while_it_follows(test, &Bench::pooled(directory), 50, PAUSE);
    });
}

#[test]
fn containers_see_what_a_copy_follows() {
    let test = "containers_see_what_a_copy_follows";
    in_a_namespace(test, false, |directory| {
        // A tree that is not shown any more is deleted at the next switch but
        // one.
        let bench = Bench::new(directory, ProviderKind::Copy);
        read_while_it_follows(test, &bench, 10, PAUSE * 25);
    });
}
