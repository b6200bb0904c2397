//! Which directories are stores, and which processes may open them.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, TrySendError};
use std::thread;
use std::time::Duration;

use elevo_core::TenantId;
use elevo_engine::{Commit, Store, StoreError};
use elevo_store_local::{LocalStore, OpenError, Options, block_writers};
use elevo_testkit::commits;
use elevo_testkit::crash::{Running, Victim};
use elevo_testkit::wait;
use futures::executor::block_on;
use tempfile::TempDir;

const TENANT: TenantId = TenantId::LOCAL;

fn options() -> Options {
    Options {
        holder: "the test".into(),
        wait: Duration::ZERO,
        ..Options::default()
    }
}

/// Returns a temporary directory, and the path of a store in it.
fn place() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store");
    (directory, path)
}

fn commit(store: &LocalStore, n: u64) {
    block_on(store.commit(TENANT, commits::numbered(n))).unwrap();
}

fn files(path: &Path) -> Vec<(PathBuf, u64)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            files.extend(self::files(&entry.path()));
        } else {
            files.push((entry.path(), entry.metadata().unwrap().len()));
        }
    }
    files.sort();
    files
}

#[test]
fn commits_survive_closing_and_opening() {
    let (_directory, path) = place();
    drop(LocalStore::create(&path, &options()).unwrap());
    for n in 0..20 {
        let store = LocalStore::open(&path, &options()).unwrap();
        commit(&store, n);
        (0..=n).for_each(|n| commits::assert_whole(&store, TENANT, n));
    }
}

#[test]
fn short_processes_leave_few_files() {
    let (_directory, path) = place();
    drop(LocalStore::create(&path, &options()).unwrap());
    for n in 0..100 {
        commit(&LocalStore::open(&path, &options()).unwrap(), n);
    }
    let left = files(&path).len();
    assert!(left < 70, "{left} files after 100 processes");
    let store = LocalStore::open(&path, &options()).unwrap();
    (0..100).for_each(|n| commits::assert_whole(&store, TENANT, n));
}

/// Copies a store with an active writer: the state of a writer killed now.
fn killed(path: &Path) -> PathBuf {
    let copy = path.with_file_name("killed");
    for (file, _) in files(path) {
        let target = copy.join(file.strip_prefix(path).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
    }
    copy
}

#[test]
fn commits_continue_after_a_log_that_was_cut_off() {
    let (_directory, path) = place();
    let store = LocalStore::create(&path, &options()).unwrap();
    commit(&store, 1);
    commit(&store, 2);
    let path = killed(&path);
    let mut logs = files(&path).into_iter();
    let (log, length) = logs
        .rfind(|(file, _)| file.extension() == Some("log".as_ref()))
        .unwrap();
    fs::File::options()
        .write(true)
        .open(log)
        .unwrap()
        .set_len(length - 7)
        .unwrap();

    let unlogged = Options {
        logged_puts: 0,
        ..options()
    };
    for n in 3..6 {
        let store = LocalStore::open(&path, &unlogged).unwrap();
        let expected: Vec<_> = [1].into_iter().chain(3..n).collect();
        let mut present = commits::present(&store, TENANT);
        present.sort();
        assert_eq!(present, expected, "all but what was cut off");
        expected
            .into_iter()
            .for_each(|n| commits::assert_whole(&store, TENANT, n));
        let mut next = commits::numbered(n);
        let ahead = commits::put(&store, TENANT, std::mem::take(&mut next.objects));
        next.after.push(ahead.id());
        block_on(store.commit(TENANT, next)).unwrap();
    }
}

#[test]
fn uncommitted_puts_survive_an_orderly_end() {
    let (_directory, path) = place();
    let Commit { objects, .. } = commits::numbered(1);
    let store = LocalStore::create(&path, &options()).unwrap();
    drop(commits::put(&store, TENANT, objects.clone()));
    drop(store);
    let store = LocalStore::open(&path, &options()).unwrap();
    for object in objects {
        let found = block_on(store.get(TENANT, &[object.key])).unwrap();
        assert_eq!(found, [Some(object.data)]);
    }
}

#[test]
fn only_a_store_is_opened() {
    let (directory, path) = place();
    let not_a_store = |path: &Path| {
        for opened in [
            LocalStore::open(path, &options()),
            LocalStore::open_read_only(path, &options()),
        ] {
            assert!(
                matches!(opened, Err(OpenError::NotAStore { .. })),
                "{opened:?}"
            );
        }
    };
    not_a_store(&path);
    assert!(!path.exists(), "opening does not create a store");
    not_a_store(directory.path());
    let file = directory.path().join("file");
    fs::write(&file, "text").unwrap();
    not_a_store(&file);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("FORMAT"), "another program's").unwrap();
    not_a_store(&path);
}

#[test]
fn a_store_of_a_newer_format_is_left_alone() {
    let (_directory, path) = place();
    drop(LocalStore::create(&path, &options()).unwrap());
    fs::write(path.join("FORMAT"), "elevo store 7\n").unwrap();
    let before = files(&path);
    for opened in [
        LocalStore::open(&path, &options()),
        LocalStore::open_read_only(&path, &options()),
    ] {
        let error = opened.unwrap_err();
        let OpenError::NewerFormat {
            found: 7,
            supported: 1,
            ..
        } = error
        else {
            panic!("{error:?}");
        };
        assert!(
            error
                .to_string()
                .contains("install the version that wrote it or a newer one"),
            "{error}"
        );
    }
    assert_eq!(files(&path), before);
}

#[test]
fn a_store_is_created_only_in_an_empty_directory() {
    let (directory, path) = place();
    fs::create_dir(&path).unwrap();
    let store = LocalStore::create(&path, &options()).expect("an empty directory will do");
    commit(&store, 1);
    drop(store);
    let again = LocalStore::create(&path, &options());
    assert!(
        matches!(again, Err(OpenError::AlreadyAStore { .. })),
        "{again:?}"
    );
    let around = LocalStore::create(directory.path(), &options());
    assert!(
        matches!(around, Err(OpenError::NotEmpty { .. })),
        "{around:?}"
    );
    assert!(!directory.path().join("FORMAT").exists());
    commits::assert_whole(&LocalStore::open(&path, &options()).unwrap(), TENANT, 1);
}

#[test]
fn creating_a_store_finishes_a_killed_attempt() {
    let (directory, whole) = place();
    drop(LocalStore::create(&whole, &options()).unwrap());
    fs::remove_file(whole.join("FORMAT")).unwrap();
    // Each directory gets only the first `missing` of these files, as if the
    // creation of a store had been killed.
    let leftovers = files(&whole);
    for missing in 0..leftovers.len() {
        let path = directory.path().join(format!("without {missing}"));
        fs::create_dir_all(path.join("db")).unwrap();
        for (at, (file, _)) in leftovers.iter().enumerate() {
            if at < missing {
                fs::copy(file, path.join(file.strip_prefix(&whole).unwrap())).unwrap();
            }
        }
        fs::write(path.join("FORMAT.new"), "elevo st").unwrap();
        let opened = LocalStore::open(&path, &options());
        assert!(
            matches!(opened, Err(OpenError::NotAStore { .. })),
            "{opened:?}"
        );
        let store = LocalStore::create(&path, &options()).unwrap();
        commit(&store, 1);
        drop(store);
        commits::assert_whole(&LocalStore::open(&path, &options()).unwrap(), TENANT, 1);
    }
}

#[test]
fn a_second_writer_gets_the_name_of_the_first() {
    let (_directory, path) = place();
    let first = LocalStore::create(&path, &options()).unwrap();
    let error = LocalStore::open(&path, &options()).unwrap_err();
    let OpenError::Busy { holder, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(holder, "the test");
    assert!(
        error.to_string().contains("written to by the test; wait"),
        "{error}"
    );
    drop(first);
    LocalStore::open(&path, &options()).expect("free again");
}

#[test]
fn a_second_writer_waits_for_the_first() {
    let (_directory, path) = place();
    let first = LocalStore::create(&path, &options()).unwrap();
    let patient = Options {
        wait: Duration::from_secs(60),
        ..options()
    };
    let lock = path.canonicalize().unwrap().join("writer");
    thread::scope(|scope| {
        let second = scope.spawn(|| LocalStore::open(&path, &patient));
        // Both threads have the file of the lock open once the second one waits
        // for the lock.
        wait::until("the second wants the lock", || {
            let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
            let files = open.filter_map(|open| fs::read_link(open.path()).ok());
            (files.filter(|file| *file == lock).count() == 2).then_some(())
        });
        commit(&first, 1);
        drop(first);
        commits::assert_whole(&second.join().unwrap().unwrap(), TENANT, 1);
    });
}

#[test]
fn a_writer_in_another_process_is_named_and_leaves_no_lock_when_killed() {
    const NAME: &str = "a_writer_in_another_process_is_named_and_leaves_no_lock_when_killed";
    if let Some(victim) = Victim::here() {
        let options = Options {
            holder: "the other process".into(),
            ..options()
        };
        let store = LocalStore::open(victim.directory(), &options).unwrap();
        commit(&store, 1);
        victim.acknowledge("open");
        loop {
            thread::park();
        }
    }
    let (_directory, path) = place();
    drop(LocalStore::create(&path, &options()).unwrap());
    let mut other = Running::start(NAME, &path, 0);
    other.wait_for_next();
    let error = LocalStore::open(&path, &options()).unwrap_err();
    let OpenError::Busy { holder, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(holder, "the other process");
    other.kill();
    let text = fs::read_to_string(path.join("writer")).unwrap();
    assert_eq!(
        text, "the other process\n",
        "the text of a killed writer is still there"
    );
    let store = LocalStore::open(&path, &options()).expect("and does not matter");
    commits::assert_whole(&store, TENANT, 1);
}

#[test]
fn a_reader_sees_the_store_as_it_was_when_opened() {
    let (_directory, path) = place();
    let writer = LocalStore::create(&path, &options()).unwrap();
    commit(&writer, 1);
    let early = LocalStore::open_read_only(&path, &options()).unwrap();
    commit(&writer, 2);
    let late = LocalStore::open_read_only(&path, &options()).unwrap();
    assert_eq!(commits::present(&early, TENANT), [1]);
    commits::assert_whole(&early, TENANT, 1);
    (1..=2).for_each(|n| commits::assert_whole(&late, TENANT, n));
    drop(writer);
    (1..=2).for_each(|n| commits::assert_whole(&late, TENANT, n));
    commits::assert_whole(&early, TENANT, 1);
}

#[test]
fn a_reader_writes_nothing() {
    let (_directory, path) = place();
    let store = LocalStore::create(&path, &options()).unwrap();
    commit(&store, 1);
    drop(store);
    let before = files(&path);
    let reader = LocalStore::open_read_only(&path, &options()).unwrap();
    commits::assert_whole(&reader, TENANT, 1);
    let commit = commits::numbered(2);
    let writer = block_on(reader.writing(TENANT)).unwrap();
    let put = block_on(reader.put(TENANT, &writer, commit.objects.clone()));
    assert!(matches!(put, Err(StoreError::ReadOnly)), "{put:?}");
    let committed = block_on(reader.commit(TENANT, commit));
    assert!(
        matches!(committed, Err(StoreError::ReadOnly)),
        "{committed:?}"
    );
    drop(reader);
    assert_eq!(files(&path), before);
}

#[test]
fn readers_come_and_go_while_a_writer_is_busy() {
    let (_directory, path) = place();
    // Small buffers: table files come and go all the time.
    let small = Options {
        write_buffers: 1 << 20,
        wait: Duration::from_secs(60),
        ..options()
    };
    let writer = LocalStore::create(&path, &small).unwrap();
    let committed = AtomicU64::new(0);
    let (opened, openings) = mpsc::sync_channel(1);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..600 {
                // On a busy machine, the writer would finish before a reader
                // came.
                if n % 100 == 0 {
                    openings.recv().unwrap();
                }
                commit(&writer, n);
                committed.store(n + 1, Ordering::SeqCst);
            }
            drop(openings);
        });
        // Moved here, so that it is dropped with this thread, even after a
        // panic.
        let opened = opened;
        for step in (1..=7).cycle() {
            let before = committed.load(Ordering::SeqCst);
            let reader = LocalStore::open_read_only(&path, &small).unwrap();
            for n in (0..before).rev().step_by(step).take(200) {
                commits::assert_whole(&reader, TENANT, n);
            }
            let told = opened.try_send(());
            if matches!(told, Err(TrySendError::Disconnected(()))) && before == 600 {
                break;
            }
        }
    });
}

#[test]
fn keeping_a_store_still_keeps_writers_out_and_writes_nothing() {
    let (_directory, path) = place();
    let store = LocalStore::create(&path, &options()).unwrap();
    commit(&store, 1);
    let busy = block_writers(&path, Duration::ZERO);
    assert!(matches!(busy, Err(OpenError::Busy { .. })), "{busy:?}");
    drop(store);
    let before = files(&path);
    let still = block_writers(&path, Duration::ZERO).unwrap();
    let refused = LocalStore::open(&path, &options());
    assert!(
        matches!(refused, Err(OpenError::Busy { .. })),
        "{refused:?}"
    );
    let reader = LocalStore::open_read_only(&path, &options()).unwrap();
    commits::assert_whole(&reader, TENANT, 1);
    assert_eq!(files(&path), before);
    drop(still);
    commit(&LocalStore::open(&path, &options()).unwrap(), 2);
}
