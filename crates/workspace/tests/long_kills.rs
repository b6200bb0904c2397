//! Tests of `kill -9` at random moments while workspaces are created, forked,
//! parked and removed: acknowledged operations persist, and no other directory
//! or mount is left.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    clippy::disallowed_methods,
    reason = "the served process reads its environment"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use elevo_core::{TenantId, Timestamp};
use elevo_engine::{CommitInfo, ImportOptions, Progress, Repository, import};
use elevo_objects::SnapshotId;
use elevo_store_local::LocalStore;
use elevo_testkit::crash::{Acknowledged, Kills, Victim};
use elevo_testkit::{disk, long};
use elevo_workspace::{
    LazyServer, NeverFreeze, Options, Owner, ProviderKind, State, WorkspaceId, Workspaces,
};
use futures::executor::block_on;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const BASE: &str = "base";
const LAZY: &str = "lazy_workspaces_survive_kills_of_their_creators_and_servers";

fn info(reference: Option<&str>) -> CommitInfo {
    let reference = reference.map(|name| (name.into(), elevo_engine::Expected::Any));
    CommitInfo {
        parents: Vec::new(),
        author: "victim".into(),
        message: String::new(),
        created: Timestamp::new(0, 0).unwrap(),
        labels: BTreeMap::new(),
        reference,
    }
}

fn repository(directory: &Path) -> Repository {
    let path = directory.join("store");
    let options = elevo_store_local::Options::default();
    let store = LocalStore::open(&path, &options).or_else(|_| LocalStore::create(&path, &options));
    Repository::new(Arc::new(store.unwrap()), TenantId::LOCAL, 1 << 20)
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Copy,
    Overlay,
    Pooled,
    /// Over served snapshots.
    Lazy,
    /// In a user namespace.
    Rootless,
}

fn open(directory: &Path, kind: Kind) -> (Workspaces, SnapshotId) {
    let repository = repository(directory);
    let base = block_on(repository.store().reference(TenantId::LOCAL, BASE)).unwrap();
    let options = Options {
        threads: 2,
        provider: Some(match kind {
            Kind::Copy => ProviderKind::Copy,
            Kind::Overlay | Kind::Pooled => ProviderKind::Overlay,
            Kind::Lazy => ProviderKind::Lazy,
            Kind::Rootless => ProviderKind::Rootless,
        }),
        spare_layers: 1 << 20,
        pool: (kind == Kind::Pooled).then_some(1 << 30),
        owner: None,
        lazy: Some(Arc::new(Processes(directory.into()))),
        hidden_mounts: false,
        node: None,
    };
    let root = directory.join("workspaces");
    (
        Workspaces::open(&root, repository, &options).unwrap(),
        base.unwrap(),
    )
}

/// Serves snapshots in child processes. A process that served its own mount and
/// was killed during a call to it would wait for ever.
#[derive(Debug)]
struct Processes(PathBuf);

/// The environment variable with the directory, the snapshot and the mount
/// point that a child process serves.
const SERVE: &str = "ELEVO_TEST_SERVE";

impl LazyServer for Processes {
    fn serve(&self, id: SnapshotId, at: &Path, _: Option<Owner>) -> io::Result<()> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", LAZY, "--nocapture"])
            .env(SERVE, format!("{}|{id}|{}", self.0.display(), at.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("ready")));
        std::thread::spawn(move || child.wait());
        Ok(())
    }
}

fn serve(what: &str) {
    let [directory, id, at] = what.split('|').collect::<Vec<_>>()[..] else {
        unreachable!("{what}");
    };
    let path = Path::new(directory).join("store");
    let store = LocalStore::open_read_only(&path, &elevo_store_local::Options::default());
    let repository = Repository::new(Arc::new(store.unwrap()), TenantId::LOCAL, 1 << 20);
    let snapshot = block_on(repository.snapshot(id.parse().unwrap())).unwrap();
    let options = elevo_lazy::Options::new((0, 0), 2);
    let mount = elevo_lazy::mount(&repository, &snapshot, Path::new(at), options).unwrap();
    io::Write::write_all(&mut io::stdout(), b"ready\n").unwrap();
    mount.join().unwrap();
}

fn prepare(directory: &Path) {
    let files = directory.join("origin");
    for n in 0..100 {
        let path = files.join(format!("{}/{n}", n % 10));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{n}")).unwrap();
    }
    let repository = repository(directory);
    let options = ImportOptions {
        threads: 2,
        leave_out: Vec::new(),
        ignoring: None,
    };
    let imported = import(&repository, &files, &options, &Progress::new()).unwrap();
    block_on(imported.commit(&repository, info(Some(BASE)))).unwrap();
}

fn id(number: u32) -> WorkspaceId {
    format!("ws-{number}").parse().unwrap()
}

/// Runs one operation after another. Acknowledges the workspaces of an
/// operation before it begins, and their states after it ends.
fn work_for_ever(victim: &Victim, kind: Kind) -> ! {
    let (workspaces, base) = open(victim.directory(), kind);
    let mut random = SmallRng::seed_from_u64(victim.seed());
    let progress = Progress::new();
    loop {
        let [one, other] = [(); 2].map(|()| id(random.random_range(0..12)));
        victim.acknowledge(format_args!("trying {one} {other}"));
        let made = match workspaces.get(&one) {
            Err(_) => {
                let created = Timestamp::new(0, 0).unwrap();
                let limit = (kind == Kind::Pooled).then_some(16 << 20);
                let made = workspaces.create(&one, base, created, limit, &progress);
                made.map(|_| vec![format!("live {one}")])
            }
            Ok(record) if record.state == State::Parked => {
                let resumed = workspaces.resume(&one, &progress);
                resumed.map(|_| vec![format!("live {one}")])
            }
            Ok(_) => match random.random_range(0..4) {
                0 => workspaces
                    .remove(&one)
                    .map(|()| vec![format!("gone {one}")]),
                1 => {
                    let parked = workspaces.park(&one, info(None), &NeverFreeze, &progress);
                    parked.map(|_| vec![format!("parked {one}")])
                }
                _ => {
                    let files = workspaces.path(&one).unwrap();
                    let home = workspaces.home(&one).unwrap();
                    fs::write(home.join("kept"), "kept").unwrap();
                    fs::write(files.join("0/new"), format!("{}", random.random::<u64>())).unwrap();
                    let _ =
                        fs::remove_file(files.join(format!("1/{}", random.random_range(0..100))));
                    let into = std::slice::from_ref(&other);
                    match workspaces.fork(&one, into, info(None), &NeverFreeze, &progress) {
                        Err(elevo_workspace::Error::Exists(_)) => Ok(Vec::new()),
                        made => made.map(|_| vec![format!("live {other}")]),
                    }
                }
            },
        };
        made.unwrap()
            .iter()
            .for_each(|done| victim.acknowledge(done));
    }
}

/// The expected state of each workspace, by id.
type Known = BTreeMap<String, Option<State>>;

fn verify(directory: &Path, kind: Kind, done: &Acknowledged, known: &mut Known) {
    let mut unsure: Vec<String> = Vec::new();
    for line in done.of_the_last() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["trying", one, other] => unsure = vec![one.into(), other.into()],
            ["live", id] => drop(known.insert(id.into(), Some(State::Live))),
            ["parked", id] => drop(known.insert(id.into(), Some(State::Parked))),
            ["gone", id] => drop(known.insert(id.into(), None)),
            _ => unreachable!("{line}"),
        }
    }
    let (workspaces, _) = open(directory, kind);
    let mut live = Vec::new();
    let records = workspaces.list().unwrap();
    for record in &records {
        if record.state == State::Live {
            let files = workspaces.path(&record.id).unwrap();
            assert!(files.join("2/2").exists(), "{} is whole", record.id);
            let home = workspaces.home(&record.id).unwrap();
            assert!(home.is_dir(), "{} has its home", record.id);
            assert!(workspaces.changes(&record.id, &Progress::new()).is_ok());
            live.push(record.id.to_string());
        }
    }
    let found: Known = records
        .iter()
        .map(|record| (record.id.to_string(), Some(record.state)))
        .collect();
    for id in unsure {
        // The process was killed before or after the operation, without an
        // acknowledgement.
        let found = found.get(&id).copied().flatten();
        known.insert(id, found);
    }
    known.retain(|_, state| state.is_some());
    assert_eq!(*known, found);
    live.sort();
    assert_no_remains(&directory.join("workspaces"), kind, &live);
}

/// Checks that only the live workspaces have directories, mounts and
/// subvolumes, and kills the servers of their snapshots.
fn assert_no_remains(root: &Path, kind: Kind, live: &[String]) {
    let names = |directory: &str| -> Vec<String> {
        let entries = fs::read_dir(root.join(directory)).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("live"), live);
    assert!(names("trash").is_empty());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let root = format!(" {}", root.to_str().unwrap());
    let mounted = mounts.lines().filter(|line| line.contains(&root));
    let (served, mounted): (Vec<_>, Vec<_>) =
        mounted.partition(|line| line.contains(" fuse.elevo "));
    let expected = match kind {
        Kind::Copy => 0,
        Kind::Overlay | Kind::Lazy | Kind::Rootless => live.len(),
        Kind::Pooled => 1 + live.len(),
    };
    assert_eq!(mounted.len(), expected);
    assert!(served.len() <= live.len(), "{served:?}");
    for line in served {
        // Kills the server of a mount that overlays are mounted over.
        let at = line.split(' ').nth(1).unwrap();
        let mut command = Command::new("umount");
        assert!(command.args(["-f", at]).status().unwrap().success());
    }
    if kind == Kind::Pooled {
        let mut uppers = names("uppers");
        // Next to the uppers are their stat caches.
        uppers.retain(|name| {
            let of = name.split('.').next().unwrap_or_default();
            assert!(live.iter().any(|id| id == of), "{name}");
            name == of
        });
        assert_eq!(uppers, live);
    }
}

fn kill(test: &str, kind: Kind) {
    if let Ok(what) = std::env::var(SERVE) {
        return serve(&what);
    }
    if let Some(victim) = Victim::here() {
        work_for_ever(&victim, kind);
    }
    let is_in_namespace = match kind {
        Kind::Rootless => disk::in_user_namespace(test),
        _ => disk::in_own_namespace(test),
    };
    if !is_in_namespace {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path());
    let mut known = Known::new();
    Kills::new(test, directory.path(), long::rounds(200, 10))
        .longest_life(Duration::from_millis(700))
        .run(|done| verify(directory.path(), kind, done, &mut known));
    let (workspaces, _) = open(directory.path(), kind);
    for record in workspaces.list().unwrap() {
        workspaces.remove(&record.id).unwrap();
    }
}

#[test]
fn overlays_survive_kills_of_their_creators() {
    kill("overlays_survive_kills_of_their_creators", Kind::Overlay);
}

#[test]
fn lazy_workspaces_survive_kills_of_their_creators_and_servers() {
    kill(LAZY, Kind::Lazy);
}

#[test]
fn rootless_workspaces_survive_kills_of_their_creators() {
    kill(
        "rootless_workspaces_survive_kills_of_their_creators",
        Kind::Rootless,
    );
}

#[test]
fn copies_survive_kills_of_their_creators() {
    kill("copies_survive_kills_of_their_creators", Kind::Copy);
}

#[test]
fn pools_survive_kills_of_their_creators() {
    kill("pools_survive_kills_of_their_creators", Kind::Pooled);
}
