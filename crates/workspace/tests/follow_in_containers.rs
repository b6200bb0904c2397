//! Workspaces that follow snapshots, read by other processes: by one in a
//! container, and by one that shares the mounts of the following process.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "tests measure time")]

mod support;

use std::fs;
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use elevo_testkit::disk;
use elevo_workspace::ProviderKind;
use support::numbered::{create, follow, number_in, numbered, run};
use support::{Fixture, id, mounts_below};

/// The environment variable with the directory that a child process reads.
const READ: &str = "ELEVO_TEST_READ";

/// A child process prints this before the number of a snapshot.
const SEEN: &str = "seen snapshot ";

/// Reads in a loop until the file `stop` exists, which holds the number of the
/// last snapshot. Every read must see all of one snapshot, and never an older
/// one. Prints the number of each snapshot after the first complete read of it.
fn read_in_a_loop(directory: &Path, stop: &Path) {
    let mut seen = Vec::new();
    let by_path = || {
        let text = fs::read_to_string(directory.join("3")).unwrap();
        text.parse::<usize>().unwrap()
    };
    while !stop.exists() {
        let before = by_path();
        let number = number_in(&fs::File::open(directory).unwrap());
        let after = by_path();
        let last = seen.last().copied().unwrap_or_default();
        assert!(last <= before && before <= number && number <= after);
        if seen.last() != Some(&after) {
            seen.push(after);
            let line = format!("{SEEN}{after}\n");
            io::stdout().write_all(line.as_bytes()).unwrap();
        }
    }
    let last: usize = fs::read_to_string(stop).unwrap().parse().unwrap();
    assert_eq!(seen, (0..=last).collect::<Vec<_>>());
}

/// A process that reads in a loop.
struct Reader {
    process: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Reader {
    /// Starts a process in a new mount namespace, like a container, with
    /// `source` bound on the directory that it reads; or, without `source`,
    /// with the mounts of this namespace.
    fn start(test: &str, source: Option<&Path>, read: &Path) -> Self {
        let script = match source {
            // No event reports a mount to a shell, so it polls for the files.
            Some(_) => {
                "mount --rbind \"$1\" \"$2\" && mount --make-rslave \"$2\" || exit 1
                 echo started; while ! [ -e \"$2/0\" ]; do sleep 0.01; done
                 shift 2; exec \"$@\""
            }
            None => "echo started; shift 2; exec \"$@\"",
        };
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "slave", "--kill-child", "--"]);
        command.args(["sh", "-c", script, "sh"]);
        command.arg(source.unwrap_or(read)).arg(read);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--include-ignored"]);
        command.env(READ, read).stdin(Stdio::null());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut reader = Self { process, output };
        reader.wait_for("started");
        reader
    }

    /// Waits until the process prints a line that ends with `end`.
    fn wait_for(&mut self, end: &str) {
        let mut lines = self.output.by_ref().map_while(Result::ok);
        let is_found = lines.any(|line| line.ends_with(end));
        assert!(is_found, "a reader has exited before `{end}`");
    }

    fn wait_for_snapshot(&mut self, number: usize) {
        self.wait_for(&format!("{SEEN}{number}"));
    }

    fn finish(mut self) {
        // Reads the rest of the output, because a full pipe would stop the
        // process.
        self.output.by_ref().for_each(drop);
        assert!(self.process.wait().unwrap().success());
    }
}

/// Two processes read a workspace that follows snapshots: one in a container,
/// and one that has all mounts of this namespace.
fn read_while_it_follows(test: &str, fixture: &Fixture, mounts: Mounts, count: usize) {
    let workspaces = fixture.open();
    let snapshots = numbered(fixture, count);
    let files = create(fixture, &workspaces, "one", snapshots[0]);
    let container = fixture.root.join("container");
    fs::create_dir(&container).unwrap();
    let bound = workspaces.bind(&id("one")).unwrap();
    let source = bound.source().to_owned();
    assert_eq!(fs::read_dir(&source).unwrap().count(), 0);
    let inside = Reader::start(test, Some(&source), &container);
    workspaces.show(bound).unwrap();
    let is_bare = fs::read_dir(&source).unwrap().count() == 0;
    assert!(is_bare, "the mount on the source was removed again");
    let beside = Reader::start(test, None, &files);
    let mut readers = [inside, beside];
    let wait_for_readers = |readers: &mut [Reader; 2], number| {
        readers
            .iter_mut()
            .for_each(|reader| reader.wait_for_snapshot(number));
    };
    wait_for_readers(&mut readers, 0);
    let mut took = Vec::new();
    for (number, snapshot) in snapshots.iter().enumerate().skip(1) {
        let began = Instant::now();
        follow(&workspaces, "one", *snapshot);
        took.push(began.elapsed());
        // The readers continue to read while the next snapshot is shown.
        wait_for_readers(&mut readers, number);
    }
    // The file `stop` is created atomically, since the readers poll for it.
    fs::write(fixture.root.join("stopping"), format!("{}", count - 1)).unwrap();
    fs::rename(fixture.root.join("stopping"), fixture.root.join("stop")).unwrap();
    readers.into_iter().for_each(Reader::finish);
    took.sort();
    let (half, most) = (took[took.len() / 2], took[took.len() - 1]);
    elevo_testkit::long::note(format_args!("follow: p50 {half:?}, at most {most:?}"));
    assert_mounts(fixture, mounts);
    workspaces.tidy().unwrap();
    let views = mounts_below(&fixture.root.join("views"));
    let expected = usize::from(fixture.kind == ProviderKind::Overlay);
    assert_eq!(views.len(), expected, "{views:?}");
    workspaces.remove(&id("one")).unwrap();
}

/// Checks that only the mounts of the last snapshot are left.
fn assert_mounts(fixture: &Fixture, mounts: Mounts) {
    let [read, bare] = ["read", "read.bare"].map(|name| fixture.root.join(name));
    let mut expected = vec![read.join("one"), bare.clone()];
    if mounts == Mounts::Private {
        // The directory itself had to be made a shared mount.
        expected.push(read.clone());
    }
    let mut found = [mounts_below(&read), mounts_below(&bare)].concat();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// The propagation of the mounts of a test.
#[derive(Clone, Copy, PartialEq)]
enum Mounts {
    Private,
    Shared,
}

/// Runs `then` in a namespace with mounts of that propagation. If this is a
/// child process that was started to read, reads instead.
fn in_a_namespace(test: &str, mounts: Mounts, then: impl FnOnce(&Path)) {
    if let Some(read) = std::env::var_os(READ) {
        let read = PathBuf::from(read);
        // The file `stop` is in the directory of the workspaces, which contains
        // `read`.
        let root = read.ancestors().find(|path| path.join("registry").exists());
        return read_in_a_loop(&read, &root.unwrap().join("stop"));
    }
    if disk::in_own_namespace(test) {
        let directory = tempfile::tempdir().unwrap();
        if mounts == Mounts::Shared {
            run(Command::new("mount").args(["--make-rshared", "/"]));
        }
        then(directory.path());
    }
}

#[test]
fn containers_see_what_an_overlay_follows() {
    let test = "containers_see_what_an_overlay_follows";
    in_a_namespace(test, Mounts::Private, |directory| {
        let fixture = Fixture::new(directory, ProviderKind::Overlay);
        read_while_it_follows(test, &fixture, Mounts::Private, 50);
    });
}

#[test]
fn containers_see_what_a_pooled_overlay_follows_in_shared_mounts() {
    let test = "containers_see_what_a_pooled_overlay_follows_in_shared_mounts";
    in_a_namespace(test, Mounts::Shared, |directory| {
        read_while_it_follows(test, &Fixture::pooled(directory), Mounts::Shared, 50);
    });
}

/// A tree that is not shown any more is deleted at the next switch but one. The
/// readers have finished reading it by then, since each switch waits for them.
#[test]
fn containers_see_what_a_copy_follows() {
    let test = "containers_see_what_a_copy_follows";
    in_a_namespace(test, Mounts::Private, |directory| {
        let fixture = Fixture::new(directory, ProviderKind::Copy);
        read_while_it_follows(test, &fixture, Mounts::Private, 10);
    });
}
