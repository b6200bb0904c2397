//! Workspaces that are only read and follow snapshots, on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "tests measure time")]

mod support;

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use elevo_engine::{ImportOptions, import};
use elevo_objects::SnapshotId;
use elevo_testkit::disk;
use elevo_workspace::{Error, NeverFreeze, ProviderKind, State, Workspaces};
use futures::executor::block_on;
use support::{AGENT, Bench, id, info, on_every_provider, owners, progress};

on_every_provider! {
    nobody_can_write_to_what_is_only_read
    a_snapshot_of_what_is_only_read_is_its_base
    forks_can_be_written_to_or_only_read
    readers_are_parked_restarted_and_removed
    whoever_follows_sees_the_new_and_keeps_the_open
    only_readers_follow
    a_follower_that_was_cut_off_shows_where_it_went
    layers_stay_while_somebody_has_files_open
}

const FILES: usize = 20;

/// Snapshots whose files all hold the snapshot's number, each of which is also
/// the name of a file of its own.
fn numbered(bench: &Bench, count: usize) -> Vec<SnapshotId> {
    let directory = tempfile::tempdir().unwrap();
    let mut parents = Vec::new();
    let mut taken = Vec::new();
    for number in 0..count {
        for file in 0..FILES {
            let path = directory.path().join(format!("{file}"));
            fs::write(path, format!("{number}")).unwrap();
        }
        let marker = directory.path().join(format!("only-{number}"));
        fs::write(&marker, "").unwrap();
        let options = ImportOptions {
            threads: 1,
            leave_out: Vec::new(),
        };
        let (repository, from) = (&bench.repository, directory.path());
        let imported = import(repository, from, &options, &progress()).unwrap();
        let info = elevo_engine::CommitInfo { parents, ..info() };
        let id = block_on(imported.commit(repository, info)).unwrap();
        fs::remove_file(&marker).unwrap();
        parents = vec![id];
        taken.push(id);
    }
    taken
}

fn create(bench: &Bench, workspaces: &Workspaces, name: &str, base: SnapshotId) -> PathBuf {
    let created = workspaces.create_read_only(&id(name), base, bench.now(), None, &progress());
    let files = created.unwrap();
    assert_eq!(workspaces.path(&id(name)).unwrap(), files);
    files
}

fn follow(workspaces: &Workspaces, name: &str, to: SnapshotId) {
    workspaces.follow(&id(name), to, &progress()).unwrap();
}

fn mounts(below: &Path) -> usize {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    points
        .filter(|point| Path::new(point).starts_with(below))
        .count()
}

/// Mounts can be made as root; elsewhere write bits are cleared.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn nobody_can_write_to_what_is_only_read(bench: &Bench) {
    let owned;
    let bench = match is_root() {
        true => {
            owned = bench.owned();
            &owned
        }
        false => bench,
    };
    let workspaces = bench.open();
    let files = create(bench, &workspaces, "one", bench.base);
    assert_eq!(bench.times(&files)[Path::new("run")], bench.modified);
    if is_root() {
        assert_eq!(
            bench.plain_import(&files),
            bench.snapshot_of(bench.base).tree
        );
        let others = owners(&files);
        assert!(others.iter().all(|(_, owner)| *owner == AGENT));
        support::as_agent(&files, "! chmod u+w run && ! echo x > run && cat run");
    }
    let written = [
        fs::write(files.join("run"), "x").err(),
        fs::write(files.join("new"), "x").err(),
        fs::remove_file(files.join("src/main.rs")).err(),
        fs::rename(files.join("src"), files.join("moved")).err(),
        fs::create_dir(files.join("empty/new")).err(),
    ];
    assert!(written.iter().all(Option::is_some), "{written:?}");
    let home = workspaces.home(&id("one")).unwrap();
    fs::write(home.join("mine"), "mine").unwrap();
    assert!(matches!(
        workspaces.restore(&id("one"), bench.base, &NeverFreeze, &progress()),
        Err(Error::ReadOnly(_))
    ));
    let decide = |_| Ok::<_, Error>(None);
    let refused = workspaces.refresh(&id("one"), info(), &NeverFreeze, &progress(), decide);
    assert!(matches!(refused, Err(Error::ReadOnly(_))));
}

fn a_snapshot_of_what_is_only_read_is_its_base(bench: &Bench) {
    let workspaces = bench.open();
    create(bench, &workspaces, "one", bench.base);
    let read = progress();
    let taken = workspaces.snapshot(&id("one"), info(), &NeverFreeze, &read);
    let taken = taken.unwrap();
    assert_eq!((taken.id, taken.is_new), (bench.base, false));
    assert_eq!((read.entries(), read.bytes()), (0, 0));
    let changes = workspaces.changes(&id("one"), &progress()).unwrap();
    assert!(changes.is_empty());
}

fn forks_can_be_written_to_or_only_read(bench: &Bench) {
    let workspaces = bench.open();
    create(bench, &workspaces, "reader", bench.base);
    let home = workspaces.home(&id("reader")).unwrap();
    fs::write(home.join("mine"), "mine").unwrap();
    let tree = bench.snapshot_of(bench.base).tree;
    workspaces
        .fork(
            &id("reader"),
            &[id("writer")],
            info(),
            &NeverFreeze,
            &progress(),
        )
        .unwrap();
    let writer = workspaces.path(&id("writer")).unwrap();
    assert_eq!(bench.plain_import(&writer), tree);
    assert_eq!(bench.times(&writer)[Path::new("run")], bench.modified);
    let home = workspaces.home(&id("writer")).unwrap();
    assert_eq!(fs::read(home.join("mine")).unwrap(), b"mine");
    fs::write(writer.join("run"), "changed").unwrap();
    let into = [id("of-writer"), id("of-writer-2")];
    let taken = workspaces
        .fork_read_only(&id("writer"), &into, info(), &NeverFreeze, &progress())
        .unwrap();
    assert!(taken.is_new);
    fs::write(writer.join("run"), "changed again").unwrap();
    for id in &into {
        let files = workspaces.path(id).unwrap();
        assert_eq!(fs::read(files.join("run")).unwrap(), b"changed");
        assert!(fs::write(files.join("run"), "x").is_err());
        let record = workspaces.get(id).unwrap();
        assert_eq!((record.base, record.read_only), (taken.id, true));
    }
    workspaces
        .fork_read_only(&into[0], &[id("last")], info(), &NeverFreeze, &progress())
        .unwrap();
    let last = workspaces.path(&id("last")).unwrap();
    assert_eq!(fs::read(last.join("run")).unwrap(), b"changed");
}

fn readers_are_parked_restarted_and_removed(bench: &Bench) {
    let workspaces = bench.open();
    let snapshots = numbered(bench, 2);
    let files = create(bench, &workspaces, "one", snapshots[0]);
    follow(&workspaces, "one", snapshots[1]);
    let home = workspaces.home(&id("one")).unwrap();
    fs::write(home.join("mine"), "mine").unwrap();
    workspaces
        .park(&id("one"), info(), &NeverFreeze, &progress())
        .unwrap();
    assert!(!files.exists());
    assert_eq!(workspaces.get(&id("one")).unwrap().state, State::Parked);
    let files = workspaces.resume(&id("one"), &progress()).unwrap();
    assert_eq!(fs::read(files.join("0")).unwrap(), b"1");
    assert!(fs::write(files.join("0"), "x").is_err());
    let home = workspaces.home(&id("one")).unwrap();
    assert_eq!(fs::read(home.join("mine")).unwrap(), b"mine");
    drop(workspaces);
    bench.restart();

    let workspaces = bench.open();
    let files = workspaces.path(&id("one")).unwrap();
    assert_eq!(fs::read(files.join("0")).unwrap(), b"1");
    follow(&workspaces, "one", snapshots[0]);
    assert_eq!(fs::read(files.join("0")).unwrap(), b"0");
    workspaces.remove(&id("one")).unwrap();
    assert!(!files.exists());
    assert_eq!(bench.places(), [""; 0]);
    assert_eq!(mounts(&bench.root.join("live")), 0);
    workspaces.tidy().unwrap();
    assert_eq!(mounts(&bench.root.join("views")), 0);
    let left = fs::read_dir(bench.root.join("views"));
    assert_eq!(left.map_or(0, Iterator::count), 0);
    let left = fs::read_dir(bench.root.join("read"));
    assert_eq!(left.map_or(0, Iterator::count), 0);
}

/// What the files seen through an open directory hold: all the same.
fn number_in(directory: &fs::File) -> usize {
    let inside = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    let read = |file| fs::read_to_string(inside.join(format!("{file}"))).unwrap();
    let numbers: Vec<String> = (0..FILES).map(read).collect();
    assert!(
        numbers.iter().all(|number| *number == numbers[0]),
        "{numbers:?}"
    );
    let number = numbers[0].parse().unwrap();
    let names = fs::read_dir(&inside).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), FILES + 1);
    assert!(names.iter().any(|name| *name == *format!("only-{number}")));
    number
}

fn whoever_follows_sees_the_new_and_keeps_the_open(bench: &Bench) {
    let workspaces = bench.open();
    let snapshots = numbered(bench, 6);
    let files = create(bench, &workspaces, "one", snapshots[0]);
    let other = create(bench, &workspaces, "other", snapshots[0]);
    let opened = fs::File::open(&files).unwrap();
    let file = fs::File::open(files.join("7")).unwrap();
    follow(&workspaces, "one", snapshots[1]);
    assert_eq!(number_in(&fs::File::open(&files).unwrap()), 1);
    assert_eq!(number_in(&opened), 0);
    assert_eq!(std::io::read_to_string(&file).unwrap(), "0");
    assert_eq!(number_in(&fs::File::open(&other).unwrap()), 0);
    assert_eq!(workspaces.path(&id("one")).unwrap(), files);
    assert_eq!(workspaces.get(&id("one")).unwrap().base, snapshots[1]);
    follow(&workspaces, "one", snapshots[1]);
    // Backwards and with no common history as well.
    for (number, to) in [(0, snapshots[0]), (5, snapshots[5])] {
        follow(&workspaces, "one", to);
        assert_eq!(number_in(&fs::File::open(&files).unwrap()), number);
    }
    follow(&workspaces, "one", bench.base);
    assert_eq!(fs::read(files.join("run")).unwrap(), b"1234");
    if bench.kind == ProviderKind::Overlay {
        assert_eq!(number_in(&opened), 0, "for as long as it is open");
    }
    let nowhere = SnapshotId(elevo_objects::Hash::from_bytes([1; 32]));
    let lost = workspaces.follow(&id("one"), nowhere, &progress());
    assert!(matches!(lost, Err(Error::Engine(_))));
    assert_eq!(fs::read(files.join("run")).unwrap(), b"1234");
    drop(workspaces);
    let workspaces = bench.open();
    assert_eq!(fs::read(files.join("run")).unwrap(), b"1234");
    assert_eq!(number_in(&fs::File::open(&other).unwrap()), 0);
    drop(workspaces);
}

fn only_readers_follow(bench: &Bench) {
    let workspaces = bench.open();
    bench.create(&workspaces, "writer");
    let refused = workspaces.follow(&id("writer"), bench.base, &progress());
    assert!(matches!(refused, Err(Error::Writable(_))));
    assert!(matches!(
        workspaces.bind(&id("writer")),
        Err(Error::Writable(_))
    ));
    assert!(!workspaces.shares(&id("writer")).unwrap());
    create(bench, &workspaces, "reader", bench.base);
    assert_eq!(workspaces.shares(&id("reader")).unwrap(), is_root());
    let bound = workspaces.bind(&id("reader"));
    if is_root() {
        let held = workspaces.follow(&id("reader"), bench.base, &progress());
        assert!(matches!(held, Err(Error::Busy(_))), "until it is shown");
        workspaces.show(bound.unwrap()).unwrap();
    } else {
        assert!(matches!(bound, Err(Error::CannotFollow(_))));
    }
    follow(&workspaces, "reader", bench.base);
}

/// As if killed between the two steps, which leaves the old mount on top.
fn a_follower_that_was_cut_off_shows_where_it_went(bench: &Bench) {
    let workspaces = bench.open();
    let snapshots = numbered(bench, 3);
    let files = create(bench, &workspaces, "one", snapshots[0]);
    if is_root() {
        let old = bench.root.join("old");
        fs::create_dir(&old).unwrap();
        run(Command::new("mount").arg("--bind").arg(&files).arg(&old));
        follow(&workspaces, "one", snapshots[1]);
        run(Command::new("mount").arg("--bind").arg(&old).arg(&files));
        run(Command::new("umount").arg(&old));
        assert_eq!(fs::read(files.join("0")).unwrap(), b"0");
        drop(workspaces);
        let workspaces = bench.open();
        assert_eq!(fs::read(files.join("0")).unwrap(), b"1");
        assert_eq!(mounts(&files), 1, "nothing is left of it");
        follow(&workspaces, "one", snapshots[2]);
        assert_eq!(mounts(&files), 1);
    } else {
        let link = fs::read_link(&files).unwrap();
        follow(&workspaces, "one", snapshots[1]);
        fs::remove_file(&files).unwrap();
        std::os::unix::fs::symlink(link, &files).unwrap();
        workspaces.path(&id("one")).unwrap();
        assert_eq!(fs::read(files.join("0")).unwrap(), b"1");
    }
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

fn layers_stay_while_somebody_has_files_open(bench: &Bench) {
    if bench.kind != ProviderKind::Overlay {
        // Nobody can tell; see `whoever_follows_sees_the_new_and_keeps_the_open`.
        return;
    }
    let workspaces = bench.open_without_spare_layers();
    let snapshots = numbered(bench, 4);
    let files = create(bench, &workspaces, "one", snapshots[0]);
    let opened = fs::File::open(&files).unwrap();
    let views = || fs::read_dir(bench.root.join("views")).unwrap().count();
    follow(&workspaces, "one", bench.base);
    for _ in 0..3 {
        workspaces.tidy().unwrap();
        assert_eq!(number_in(&opened), 0);
        assert_eq!(views(), 2);
    }
    // Another process, which knows of nothing, and a view of the same again.
    drop(workspaces);
    let workspaces = bench.open_without_spare_layers();
    follow(&workspaces, "one", snapshots[0]);
    let again = fs::File::open(&files).unwrap();
    follow(&workspaces, "one", bench.base);
    workspaces.tidy().unwrap();
    assert_eq!((number_in(&opened), number_in(&again)), (0, 0));
    drop(opened);
    workspaces.tidy().unwrap();
    assert_eq!(number_in(&again), 0);
    drop(again);
    workspaces.tidy().unwrap();
    assert_eq!(views(), 1);
    let layers = || {
        let entries = fs::read_dir(bench.root.join("layers")).unwrap();
        let entries = entries.map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).count()
    };
    assert_eq!(layers(), 1, "that of the base");
}

/// The directory that the process reads which this test starts.
const READ: &str = "ELEVO_TEST_READ";

/// Reads in a loop until there is the file `stop`, which holds the number of
/// the last snapshot: always all of one, and none that was before.
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

/// Starts a process in a mount namespace of its own, as a container has it,
/// with `source` bound where it reads; or without, with what it has from here.
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

/// Two processes read what one workspace follows: one in a container, and one
/// that has all mounts of this namespace.
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
    assert_eq!(fs::read_dir(&source).unwrap().count(), 0, "for the next");
    let beside = start_reading(test, bench, None, &files);
    let mut took = Vec::new();
    for snapshot in &snapshots[1..] {
        std::thread::sleep(pause);
        let began = Instant::now();
        follow(&workspaces, "one", *snapshot);
        took.push(began.elapsed());
    }
    std::thread::sleep(Duration::from_millis(300));
    // At once, since somebody waits for it.
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

/// Between two snapshots that are followed.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs `then` in a namespace where mounts are shared with others or not, or
/// reads if it was started for that.
fn in_a_namespace(test: &str, is_shared: bool, then: impl FnOnce(&Path)) {
    if let Some(read) = std::env::var_os(READ) {
        let read = PathBuf::from(read);
        // Beside `read`, or above the workspace in it.
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
        // What is not shown any more goes with the next but one.
        let bench = Bench::new(directory, ProviderKind::Copy);
        read_while_it_follows(test, &bench, 10, PAUSE * 25);
    });
}

/// What a read-only workspace can be filled with is its home.
#[test]
fn the_limit_of_a_reader_is_that_of_its_home() {
    if !disk::in_own_namespace("the_limit_of_a_reader_is_that_of_its_home") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let bench = Bench::pooled(directory.path());
    let workspaces = bench.open();
    let create = |name, limit| {
        workspaces.create_read_only(&id(name), bench.base, bench.now(), limit, &progress())
    };
    create("limited", Some(support::LIMIT)).unwrap();
    create("unlimited", None).unwrap();
    let uppers = fs::read_dir(bench.root.join("uppers")).unwrap().count();
    assert_eq!(uppers, 1, "without a limit it needs no room there");
    let fill = |name| {
        let home = workspaces.home(&id(name)).unwrap();
        let mut file = fs::File::create(home.join("big"))?;
        std::io::Write::write_all(&mut file, &vec![7; 2 * support::LIMIT as usize])?;
        file.sync_all()
    };
    assert!(fill("limited").is_err());
    fill("unlimited").unwrap();
    for name in ["limited", "unlimited"] {
        workspaces.remove(&id(name)).unwrap();
    }
    assert_eq!(fs::read_dir(bench.root.join("uppers")).unwrap().count(), 0);
}
