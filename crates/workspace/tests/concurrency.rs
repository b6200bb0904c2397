//! Tests of many threads that work on the same workspaces, and of empty
//! workspaces, on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "tests measure time")]

mod support;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{
    ImportOptions, MemoryStore, Repository, Store, StoreLayer, StoreResult, import,
};
use elevo_objects::{Kind, ObjectKey, Tree};
use elevo_workspace::{Error, NeverFreeze, Options, Workspaces};
use futures::executor::block_on;
use support::providers::on_every_provider;
use support::{Fixture, id, info, progress};

on_every_provider! {
    many_threads_create_fork_and_remove_workspaces
    one_thread_at_a_time_gets_an_id
    fifty_workspaces_are_created_at_once
    tidy_deletes_nothing_that_a_new_workspace_needs
    a_new_base_delays_only_workspaces_that_need_it
    empty_workspaces_have_one_base
}

/// Checks that no record, directory, mount, subvolume or trash is left.
fn assert_no_trace(fixture: &Fixture, workspaces: &Workspaces) {
    assert!(workspaces.list().unwrap().is_empty());
    assert_eq!(fixture.live_dirs(), [""; 0]);
    let count = |name: &str| {
        let entries = fs::read_dir(fixture.root.join(name));
        entries.map_or(0, Iterator::count)
    };
    assert_eq!((count("uppers"), count("trash")), (0, 0));
    let mounts = support::mounts_below(&fixture.root.join("live"));
    assert_eq!(mounts, [""; 0].map(std::path::PathBuf::from));
}

fn many_threads_create_fork_and_remove_workspaces(fixture: &Fixture) {
    let fixture = fixture.owned();
    let workspaces = fixture.open();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (fixture, workspaces) = (&fixture, &workspaces);
            scope.spawn(move || {
                for round in 0..13 {
                    create_fork_and_remove(fixture, workspaces, &format!("{thread}-{round}"));
                }
            });
        }
    });
    assert_no_trace(&fixture, &workspaces);
    drop(workspaces);
    assert_no_trace(&fixture, &fixture.open());
}

/// Creates, forks and removes a workspace.
fn create_fork_and_remove(fixture: &Fixture, workspaces: &Workspaces, name: &str) {
    let files = fixture.create(workspaces, name);
    fs::write(files.join("mine"), name).unwrap();
    fs::write(workspaces.home(&id(name)).unwrap().join("mine"), name).unwrap();
    let fork = id(&format!("{name}-fork"));
    let into = std::slice::from_ref(&fork);
    workspaces
        .fork(&id(name), into, info(), &NeverFreeze, &progress())
        .unwrap();
    workspaces.remove(&id(name)).unwrap();
    for directory in [workspaces.path(&fork), workspaces.home(&fork)] {
        let mine = fs::read_to_string(directory.unwrap().join("mine"));
        assert_eq!(mine.unwrap(), name);
    }
    if name.ends_with('0') {
        workspaces
            .park(&fork, info(), &NeverFreeze, &progress())
            .unwrap();
        let files = workspaces.resume(&fork, &progress()).unwrap();
        assert_eq!(fs::read_to_string(files.join("mine")).unwrap(), name);
    }
    assert!(
        workspaces
            .list()
            .unwrap()
            .iter()
            .any(|record| record.id == fork)
    );
    workspaces.remove(&fork).unwrap();
}

fn one_thread_at_a_time_gets_an_id(fixture: &Fixture) {
    // Two instances act like two processes.
    let several = [fixture.open(), fixture.open()];
    let name = id("wanted");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (workspaces, name) = (&several[thread % 2], &name);
            scope.spawn(move || {
                for _ in 0..10 {
                    want(fixture, workspaces, name);
                }
            });
        }
    });
    let [workspaces, _] = several;
    // The order of the threads decides whether the workspace exists now.
    match workspaces.remove(&name) {
        Ok(()) | Err(Error::NotFound(_)) => {}
        Err(error) => panic!("{error:?}"),
    }
    assert_no_trace(fixture, &workspaces);
}

/// Creates or removes the workspace, depending on whether it exists.
fn want(fixture: &Fixture, workspaces: &Workspaces, name: &elevo_workspace::WorkspaceId) {
    let created = workspaces.create(name, fixture.base, fixture.now(), None, &progress());
    let done = match created {
        Ok(_) => return,
        Err(Error::Exists(_)) => workspaces.remove(name),
        Err(error) => Err(error),
    };
    match done {
        Ok(()) | Err(Error::Busy(_) | Error::NotFound(_)) => {}
        Err(error) => panic!("{error:?}"),
    }
}

fn fifty_workspaces_are_created_at_once(fixture: &Fixture) {
    const COUNT: usize = 50;
    let fixture = fixture.owned();
    let workspaces = fixture.open();
    fixture.create(&workspaces, "first");
    let start = Barrier::new(COUNT);
    let make = |number: usize| {
        start.wait();
        let began = Instant::now();
        fixture.create(&workspaces, &format!("ws-{number}"));
        began.elapsed()
    };
    let mut took: Vec<Duration> = std::thread::scope(|scope| {
        let make = &make;
        let threads: Vec<_> = (0..COUNT)
            .map(|number| scope.spawn(move || make(number)))
            .collect();
        let took = threads.into_iter().map(|thread| thread.join().unwrap());
        took.collect()
    });
    took.sort();
    elevo_testkit::long::note(format_args!(
        "{COUNT} at once, {}{}: p50 {:?}, p99 {:?}",
        fixture.kind,
        fixture.pool.map_or("", |_| " with a pool"),
        took[COUNT / 2],
        took[COUNT - 1],
    ));
    assert_eq!(fixture.live_dirs().len(), COUNT + 1);
    std::thread::scope(|scope| {
        for number in 0..COUNT {
            let workspaces = &workspaces;
            scope.spawn(move || workspaces.remove(&id(&format!("ws-{number}"))).unwrap());
        }
    });
    workspaces.remove(&id("first")).unwrap();
    assert_no_trace(&fixture, &workspaces);
}

fn tidy_deletes_nothing_that_a_new_workspace_needs(fixture: &Fixture) {
    let options = Options {
        spare_layers: 0,
        ..fixture.options()
    };
    let open = || Workspaces::open(&fixture.root, fixture.repository.clone(), &options).unwrap();
    let (workspaces, done) = (open(), AtomicBool::new(false));
    let tidied = AtomicUsize::new(0);
    // Waits for two calls of `tidy`: the first one that ends may have begun
    // before the wait, but the second has not.
    let wait_for_tidy = || {
        let before = tidied.load(Ordering::Relaxed);
        while tidied.load(Ordering::Relaxed) < before + 2 {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                workspaces.tidy().unwrap();
                tidied.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _done = Done(&done);
        for round in 0..20 {
            let (name, next) = (format!("ws-{round}"), format!("ws-{round}-next"));
            let files = fixture.create(&workspaces, &name);
            fs::write(files.join("round"), &name).unwrap();
            let taken = fixture.snapshot(&workspaces, &name);
            workspaces.remove(&id(&name)).unwrap();
            let created = workspaces.create(&id(&next), taken.id, fixture.now(), None, &progress());
            let files = created.unwrap();
            wait_for_tidy();
            let tree = fixture.snapshot_of(taken.id).tree;
            assert_eq!(fixture.plain_import(&files), tree, "{round}");
            workspaces.remove(&id(&next)).unwrap();
        }
    });
    assert_no_trace(fixture, &workspaces);
}

/// Sets the flag when dropped, also by a panic.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A store that holds back one object until the gate opens.
struct Slow {
    below: Arc<dyn Store>,
    slow: ObjectKey,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default)]
struct Gate {
    is_open: bool,
    is_wanted: bool,
}

impl Slow {
    fn set(&self, change: impl FnOnce(&mut Gate)) {
        change(&mut self.gate.lock().unwrap());
        self.changed.notify_all();
    }

    fn wait(&self, until: impl Fn(&Gate) -> bool) {
        let gate = self.gate.lock().unwrap();
        let long = Duration::from_secs(30);
        let waited = self
            .changed
            .wait_timeout_while(gate, long, |gate| !until(gate));
        assert!(!waited.unwrap().1.timed_out());
    }
}

#[async_trait]
impl StoreLayer for Slow {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        if keys.contains(&self.slow) {
            self.set(|gate| gate.is_wanted = true);
            self.wait(|gate| gate.is_open);
        }
        self.below.get(tenant, keys).await
    }
}

fn a_new_base_delays_only_workspaces_that_need_it(fixture: &Fixture) {
    const CONTENT: &str = "content that the store holds back";
    let origin = fixture.root.with_file_name("slow");
    fs::create_dir(&origin).unwrap();
    fs::write(origin.join("slow"), CONTENT).unwrap();
    let options = ImportOptions {
        threads: 1,
        leave_out: Vec::new(),
        ignoring: None,
    };
    let imported = import(&fixture.repository, &origin, &options, &progress()).unwrap();
    let base = block_on(imported.commit(&fixture.repository, info())).unwrap();
    let store = Arc::new(Slow {
        below: fixture.repository.store().clone(),
        slow: Kind::Chunk.key(CONTENT.as_bytes()),
        gate: Mutex::default(),
        changed: Condvar::new(),
    });
    let repository = Repository::new(store.clone(), TenantId::LOCAL, 1 << 20);
    let workspaces = Workspaces::open(&fixture.root, repository, &fixture.options()).unwrap();
    fixture.create(&workspaces, "first");
    std::thread::scope(|scope| {
        let make = |name| workspaces.create(&id(name), base, fixture.now(), None, &progress());
        let slow = ["slow-1", "slow-2"].map(|name| scope.spawn(move || make(name).unwrap()));
        // No caller waits for a served snapshot.
        let is_made_first = fixture.lazy.is_none();
        if is_made_first {
            store.wait(|gate| gate.is_wanted);
        }
        fixture.create(&workspaces, "quick");
        workspaces.remove(&id("first")).unwrap();
        if is_made_first {
            assert!(!slow.iter().any(std::thread::ScopedJoinHandle::is_finished));
            store.set(|gate| gate.is_open = true);
        }
        for made in slow {
            let files = made.join().unwrap();
            assert_eq!(fs::read_to_string(files.join("slow")).unwrap(), CONTENT);
        }
    });
}

fn empty_workspaces_have_one_base(fixture: &Fixture) {
    let workspaces = fixture.open();
    let limit = fixture.pool.map(|_| support::LIMIT);
    let bases = ["one", "two"].map(|name| {
        let files = workspaces
            .create_empty(&id(name), fixture.now(), limit)
            .unwrap();
        assert_eq!(fs::read_dir(&files).unwrap().count(), 0);
        fs::write(files.join("mine"), name).unwrap();
        let base = workspaces.get(&id(name)).unwrap().base;
        let taken = fixture.snapshot(&workspaces, name);
        assert_eq!(fixture.snapshot_of(taken.id).parents, [base]);
        base
    });
    assert_eq!(bases[0], bases[1]);
    let empty = fixture.snapshot_of(bases[0]);
    assert_eq!((empty.tree, empty.parents), (Tree::EMPTY, Vec::new()));
    let elsewhere = Repository::new(Arc::new(MemoryStore::new()), TenantId::LOCAL, 1 << 20);
    let root = fixture.root.with_file_name("elsewhere");
    let workspaces = Workspaces::open(&root, elsewhere, &fixture.options()).unwrap();
    workspaces
        .create_empty(&id("one"), fixture.now(), None)
        .unwrap();
    assert_eq!(workspaces.get(&id("one")).unwrap().base, bases[0]);
}
