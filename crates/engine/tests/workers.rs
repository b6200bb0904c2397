//! Concurrent operations share their threads.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use elevo_engine::{
    CheckoutOptions, ExistingContent, ImportOptions, POOLS, Progress, Workers, checkout, import,
};
use futures::executor::block_on;
use support::{info, repository};

const AT_ONCE: usize = 50;
const THREADS: usize = 3;

/// Number of threads of this process that work on files. They never end, so
/// this is also the maximum so far. Other threads may end during the call.
fn workers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let workers = names.filter(|name| name.starts_with("elevo-files"));
    workers.count()
}

fn fill(directory: &Path, which: usize) {
    for at in 0..20 {
        let below = directory.join(format!("{at}/{at}"));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("file"), format!("{which} {at}\n")).unwrap();
    }
}

/// Runs an import, and a checkout over unknown files, which scans these files
/// within its own operation.
fn import_and_check_out(directory: &Path, which: usize) {
    let (_store, repository) = repository();
    fill(directory, which);
    let options = ImportOptions {
        threads: THREADS,
        leave_out: Vec::new(),
        ignoring: None,
    };
    let imported = import(&repository, directory, &options, &Progress::new()).unwrap();
    let id = block_on(imported.commit(&repository, info("import"))).unwrap();
    let snapshot = block_on(repository.snapshot(id)).unwrap();
    fill(directory, which + 1);
    let options = CheckoutOptions {
        threads: THREADS,
        leave_out: Vec::new(),
        ignoring: None,
        force: true,
        clone_source: None,
        owner: None,
    };
    let (unknown, progress) = (ExistingContent::Unknown, Progress::new());
    checkout(
        &repository,
        &snapshot,
        directory,
        &unknown,
        &options,
        &progress,
    )
    .unwrap();
    let content = fs::read_to_string(directory.join("7/7/file")).unwrap();
    assert_eq!(content, format!("{which} 7\n"));
}

#[test]
fn many_imports_and_checkouts_end_with_a_bounded_number_of_threads() {
    let directory = tempfile::tempdir().unwrap();
    let start = Barrier::new(AT_ONCE);
    thread::scope(|scope| {
        for which in 0..AT_ONCE {
            let (start, directory) = (&start, directory.path().join(which.to_string()));
            scope.spawn(move || {
                start.wait();
                import_and_check_out(&directory, which);
            });
        }
    });
    // The other tests here have pools of one thread and of two.
    let most = POOLS * (THREADS + 2 + 1);
    let count = workers();
    assert!((THREADS..=most).contains(&count), "{count}");
    assert!(most < AT_ONCE * THREADS, "the bound says nothing");
}

#[test]
fn work_within_work_stays_on_its_threads() {
    let (outer, inner) = (Workers::start(1).unwrap(), Workers::start(1).unwrap());
    let start = Barrier::new(AT_ONCE);
    let depth = |workers: &Workers| {
        start.wait();
        outer.run(|| workers.run(|| workers.run(|| 3)))
    };
    let depths: Vec<i32> = thread::scope(|scope| {
        let all: Vec<_> = (0..AT_ONCE)
            .map(|_| scope.spawn(|| depth(&inner)))
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(depths, [3; AT_ONCE]);
}

#[test]
fn a_panic_releases_the_threads() {
    let workers = Workers::start(2).unwrap();
    for _ in 0..2 * POOLS {
        let panics = || workers.run(|| -> () { panic!("on purpose") });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
        assert!(caught.is_err());
    }
    assert_eq!(workers.run(|| 1), 1);
}
