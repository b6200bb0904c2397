//! Shared by the tests of workspaces.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "not every test needs all of it"
)]

pub(crate) mod numbered;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use elevo_core::{TenantId, Timestamp};
use elevo_engine::{CommitInfo, ImportOptions, MemoryStore, Progress, Repository, import};
use elevo_objects::{Snapshot, SnapshotId, Tree};
use elevo_testkit::{disk, long};
use elevo_workspace::{
    Freeze, LazyServer, NeverFreeze, Options, Owner, ProviderKind, Snapshotted, WorkspaceId,
    Workspaces,
};
use futures::executor::block_on;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Runs each `fn test(bench: &Bench)` of the file with each provider: copies in
/// a temporary directory, overlays there with and without a pool or over served
/// snapshots, by root and in a user namespace, and clones on a file system that
/// supports them. Tests in `of_root` do not run in a user namespace.
macro_rules! on_every_provider {
    ($($test:ident)* $(; of_root: $($of_root:ident)*)?) => {
        $crate::support::on_every_provider_of_root! { $($test)* $($($of_root)*)? }
        $crate::support::by! { rootless $($test)* }
        $crate::support::by! { rootless_lazy $($test)* }
    };
}
pub(crate) use on_every_provider;

/// Like `on_every_provider`, without user namespaces, where files cannot have
/// another owner or be visible to other processes.
macro_rules! on_every_provider_of_root {
    ($($test:ident)*) => {
        $crate::support::by! { copy $($test)* }
        $crate::support::by! { overlay $($test)* }
        $crate::support::by! { lazy $($test)* }
        $crate::support::by! { pooled $($test)* }
        $crate::support::by! { reflink $($test)* }
    };
}
pub(crate) use on_every_provider_of_root;

/// The tests of one provider, run by the function in this module of the same
/// name.
macro_rules! by {
    ($way:ident $($test:ident)*) => {
        mod $way {
            $(#[test]
            fn $test() {
                let name = concat!(stringify!($way), "::", stringify!($test));
                super::support::$way(name, super::$test);
            })*
        }
    };
}
pub(crate) use by;

pub(crate) fn copy(name: &str, test: fn(&Bench)) {
    // Only read-only workspaces are mounts, and only for root.
    if !rustix::process::geteuid().is_root() || disk::in_own_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        test(&Bench::new(directory.path(), ProviderKind::Copy));
        let_be_removed(directory.path());
    }
}

pub(crate) fn overlay(name: &str, test: fn(&Bench)) {
    if disk::in_own_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        test(&Bench::new(directory.path(), ProviderKind::Overlay));
    }
}

pub(crate) fn lazy(name: &str, test: fn(&Bench)) {
    if disk::in_own_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        test(&Bench::lazy(directory.path()));
    }
}

pub(crate) fn pooled(name: &str, test: fn(&Bench)) {
    if disk::in_own_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        test(&Bench::pooled(directory.path()));
    }
}

pub(crate) fn reflink(name: &str, test: fn(&Bench)) {
    if disk::in_own_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        let disk = disk::Disk::make_cloning(directory.path(), "disk", 1 << 30);
        test(&Bench::new(disk.path(), ProviderKind::Reflink));
    }
}

pub(crate) fn rootless(name: &str, test: fn(&Bench)) {
    if disk::in_user_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        test(&Bench::new(directory.path(), ProviderKind::Rootless));
    }
}

pub(crate) fn rootless_lazy(name: &str, test: fn(&Bench)) {
    if disk::in_user_namespace(name) {
        let directory = tempfile::tempdir().unwrap();
        test(&Bench::served(directory.path(), ProviderKind::RootlessLazy));
    }
}

/// A snapshot to create workspaces from, and a directory for them.
pub(crate) struct Bench {
    pub(crate) root: PathBuf,
    pub(crate) kind: ProviderKind,
    pub(crate) pool: Option<u64>,
    pub(crate) owner: Option<Owner>,
    pub(crate) lazy: Option<Arc<dyn LazyServer>>,
    pub(crate) base: SnapshotId,
    /// The modification time of some files of `base`.
    pub(crate) modified: SystemTime,
    pub(crate) repository: Repository,
}

/// Serves snapshots in threads of this process.
#[derive(Debug)]
pub(crate) struct InProcess(pub(crate) Repository);

impl LazyServer for InProcess {
    fn serve(&self, id: SnapshotId, at: &Path, owner: Option<Owner>) -> std::io::Result<()> {
        let snapshot = block_on(self.0.snapshot(id)).unwrap();
        let me = Owner {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        let Owner { uid, gid } = owner.unwrap_or(me);
        let options = elevo_lazy::Options::new((uid, gid), 2);
        let mount = elevo_lazy::mount(&self.0, &snapshot, at, options)?;
        std::thread::spawn(move || mount.join());
        Ok(())
    }
}

/// Records the calls of a hook, in order.
#[derive(Default)]
pub(crate) struct Calls(pub(crate) RefCell<Vec<&'static str>>);

impl Freeze for Calls {
    fn freeze(&self) -> std::io::Result<()> {
        self.0.borrow_mut().push("freeze");
        Ok(())
    }

    fn thaw(&self) {
        self.0.borrow_mut().push("thaw");
    }
}

/// The user that sandboxes run as.
pub(crate) const AGENT: Owner = Owner {
    uid: 1000,
    gid: 1000,
};

/// Runs a script in a directory as `AGENT`, without any privilege. Returns its
/// output.
pub(crate) fn as_agent(directory: &Path, script: &str) -> String {
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=1000", "--regid=1000", "--clear-groups"])
        .args(["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"])
        .args(["sh", "-euc", script])
        .current_dir(directory)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes a directory deletable for an ordinary user, although it may contain
/// read-only directories.
pub(crate) fn let_be_removed(directory: &Path) {
    if rustix::process::geteuid().is_root() {
        return;
    }
    let mut command = std::process::Command::new("chmod");
    let status = command.args(["-R", "u+w"]).arg(directory).status();
    assert!(status.unwrap().success());
}

/// Returns all paths in a directory, itself included, with their owners.
pub(crate) fn owners(directory: &Path) -> Vec<(PathBuf, Owner)> {
    let mut owners = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        let stat = fs::symlink_metadata(&path).unwrap();
        if stat.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        }
        let (uid, gid) = (stat.uid(), stat.gid());
        owners.push((path, Owner { uid, gid }));
    }
    owners
}

/// Returns the mount points in a directory, itself included.
pub(crate) fn mounts_below(directory: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let points = points.map(PathBuf::from);
    points
        .filter(|point| point.starts_with(directory))
        .collect()
}

pub(crate) fn id(text: &str) -> WorkspaceId {
    text.parse().unwrap()
}

pub(crate) fn progress() -> Progress {
    Progress::new()
}

pub(crate) fn info() -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: "tester".into(),
        message: "a snapshot".into(),
        created: Timestamp::new(1_700_000_000, 0).unwrap(),
        labels: BTreeMap::new(),
        reference: None,
    }
}

fn repository() -> Repository {
    Repository::new(Arc::new(MemoryStore::new()), TenantId::LOCAL, 1 << 20)
}

/// Limit of the changes in a workspace with a pool.
pub(crate) const LIMIT: u64 = 16 << 20;

const OPTIONS: ImportOptions = ImportOptions {
    threads: 2,
    leave_out: Vec::new(),
    ignoring: None,
};

impl Bench {
    pub(crate) fn new(directory: &Path, kind: ProviderKind) -> Self {
        let modified = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789);
        let files = directory.join("origin");
        fs::create_dir_all(files.join("src")).unwrap();
        fs::create_dir_all(files.join("empty")).unwrap();
        fs::write(files.join("src/main.rs"), "fn main() {}\n").unwrap();
        fs::write(files.join("run"), "1234").unwrap();
        fs::set_permissions(files.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
        let run = fs::File::options()
            .write(true)
            .open(files.join("run"))
            .unwrap();
        run.set_modified(modified).unwrap();
        symlink("src/main.rs", files.join("link")).unwrap();
        let repository = repository();
        let imported = import(&repository, &files, &OPTIONS, &progress()).unwrap();
        let base = block_on(imported.commit(&repository, info())).unwrap();
        let root = directory.join("workspaces");
        Self {
            root,
            kind,
            pool: None,
            owner: None,
            lazy: None,
            base,
            modified,
            repository,
        }
    }

    /// Overlays over snapshots that threads of this process serve.
    pub(crate) fn lazy(directory: &Path) -> Self {
        Self::served(directory, ProviderKind::Lazy)
    }

    pub(crate) fn served(directory: &Path, kind: ProviderKind) -> Self {
        let bench = Self::new(directory, kind);
        let server = InProcess(bench.repository.clone());
        Self {
            lazy: Some(Arc::new(server)),
            ..bench
        }
    }

    /// Overlays with their uppers in a pool.
    pub(crate) fn pooled(directory: &Path) -> Self {
        Self {
            pool: Some(1 << 30),
            ..Self::new(directory, ProviderKind::Overlay)
        }
    }

    /// The same with files of the user that sandboxes run as. In a user
    /// namespace the owner cannot be changed.
    pub(crate) fn owned(&self) -> Self {
        let is_rootless = self.kind.is_private();
        let (root, repository) = (self.root.clone(), self.repository.clone());
        Self {
            root,
            repository,
            lazy: self.lazy.clone(),
            owner: (!is_rootless).then_some(AGENT),
            ..*self
        }
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            threads: 2,
            provider: Some(self.kind),
            spare_layers: 1 << 30,
            pool: self.pool,
            owner: self.owner,
            lazy: self.lazy.clone(),
        }
    }

    pub(crate) fn open(&self) -> Workspaces {
        let repository = self.repository.clone();
        Workspaces::open(&self.root, repository, &self.options()).unwrap()
    }

    /// Keeps only the layers that are needed.
    pub(crate) fn open_without_spare_layers(&self) -> Workspaces {
        let options = Options {
            spare_layers: 0,
            ..self.options()
        };
        Workspaces::open(&self.root, self.repository.clone(), &options).unwrap()
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::new(1_700_000_000, 0).unwrap()
    }

    pub(crate) fn create(&self, workspaces: &Workspaces, name: &str) -> PathBuf {
        let limit = self.pool.map(|_| LIMIT);
        let created = workspaces.create(&id(name), self.base, self.now(), limit, &progress());
        let files = created.unwrap();
        assert_eq!(workspaces.path(&id(name)).unwrap(), files);
        files
    }

    pub(crate) fn snapshot(&self, workspaces: &Workspaces, name: &str) -> Snapshotted {
        let taken = workspaces.snapshot(&id(name), info(), &NeverFreeze, &progress());
        taken.unwrap()
    }

    pub(crate) fn snapshot_of(&self, id: SnapshotId) -> Snapshot {
        block_on(self.repository.snapshot(id)).unwrap()
    }

    /// Returns the tree of a directory, by reading all files.
    pub(crate) fn plain_import(&self, files: &Path) -> Tree {
        import(&repository(), files, &OPTIONS, &progress())
            .unwrap()
            .tree
    }

    /// Returns the modification times of everything in a directory.
    pub(crate) fn times(&self, files: &Path) -> BTreeMap<PathBuf, SystemTime> {
        let mut times = BTreeMap::new();
        let mut open = vec![files.to_owned()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let entry = entry.unwrap();
                let stat = entry.metadata().unwrap();
                let path = entry.path();
                let name = path.strip_prefix(files).unwrap().to_owned();
                times.insert(name, stat.modified().unwrap());
                if stat.is_dir() {
                    open.push(path);
                }
            }
        }
        times
    }

    /// Unmounts everything here, and damages layers that a kernel after a
    /// restart must not trust.
    pub(crate) fn restart(&self) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let ours = points.filter(|point| Path::new(point).starts_with(&self.root));
        for point in ours.collect::<Vec<_>>().into_iter().rev() {
            let status = std::process::Command::new("umount").arg(point).status();
            assert!(status.unwrap().success(), "{point}");
        }
        let layers = fs::read_dir(self.root.join("layers"));
        for layer in layers.into_iter().flatten() {
            let layer = layer.unwrap().path();
            let about = fs::read_to_string(layer.join("about")).unwrap_or_default();
            if about.contains("\"below\":\"") {
                let (before, boot) = about.split_once("\"boot\":\"").unwrap();
                let (_, after) = boot.split_once('"').unwrap();
                let other = format!("{before}\"boot\":\"another\"{after}");
                fs::write(layer.join("about"), other).unwrap();
                fs::remove_dir_all(layer.join("files")).unwrap();
            }
        }
    }

    /// Waits until the clock of the file system has advanced.
    pub(crate) fn settle(&self) {
        std::thread::sleep(Duration::from_millis(20));
    }

    pub(crate) fn places(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.join("live")).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries
            .map(name)
            .map(|name| name.into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn random(&self) -> SmallRng {
        SmallRng::seed_from_u64(long::seed())
    }
}

/// Runs random sequences of operations of all kinds, also ones that keep size
/// and times, each generation in a fork of the one before, and repeats them in
/// an ordinary directory. The workspace, its changes and its snapshot must all
/// equal that directory.
pub(crate) fn random_changes(bench: &Bench, generations: usize) {
    let workspaces = bench.open();
    let mut name = id("generation-0");
    let mut files = bench.create(&workspaces, name.as_str());
    let mut random = bench.random();
    let mut changed = 0;
    for generation in 1..=generations {
        let model = tempfile::tempdir().unwrap();
        copy_all(&files, model.path());
        let mut before = bench.plain_import(model.path());
        for round in 0..5 {
            for _ in 0..random.random_range(1..12) {
                let mut same = random.clone();
                let mut outcome = change_something(&files, &mut random);
                let mut rename: fn(_, _) -> _ = fs::rename;
                let is_refused = |error: &std::io::Error| {
                    let is_rootless = bench.kind.is_private();
                    is_rootless && error.kind() == std::io::ErrorKind::CrossesDevices
                };
                if outcome.as_ref().is_err_and(is_refused) {
                    rename = move_by_copying;
                    outcome = change(&files, &mut same.clone(), rename);
                }
                let expected = change(model.path(), &mut same, rename);
                assert_eq!(
                    outcome.is_ok(),
                    expected.is_ok(),
                    "{outcome:?} {expected:?}"
                );
            }
            if round == 2 {
                bench.settle();
            }
            let expected = bench.plain_import(model.path());
            assert_eq!(bench.plain_import(&files), expected, "{generation} {round}");
            let changes = workspaces.changes(&name, &progress()).unwrap();
            assert_eq!(changes.tree, expected, "{generation} {round}");
            let taken = bench.snapshot(&workspaces, name.as_str());
            let tree = bench.snapshot_of(taken.id).tree;
            assert_eq!(tree, expected, "{generation} {round}");
            changed += usize::from(expected != before);
            before = expected;
        }
        let times = bench.times(&files);
        let fork = id(&format!("generation-{generation}"));
        let into = std::slice::from_ref(&fork);
        workspaces
            .fork(&name, into, info(), &NeverFreeze, &progress())
            .unwrap();
        files = workspaces.path(&fork).unwrap();
        assert_eq!(bench.plain_import(&files), before, "{generation}");
        assert_eq!(bench.times(&files), times, "{generation}");
        if generation > 3 {
            let old = id(&format!("generation-{}", generation - 3));
            workspaces.remove(&old).unwrap();
        }
        name = fork;
    }
    assert!(
        changed > generations * 3,
        "only {changed} sequences changed anything"
    );
}

/// Copies like `cp -a`, hard links included.
fn copy_all(from: &Path, into: &Path) {
    let mut source = from.as_os_str().to_owned();
    source.push("/.");
    let mut command = std::process::Command::new("cp");
    let status = command.arg("-a").arg(source).arg(into).status();
    assert!(status.unwrap().success());
}

/// Runs one operation of a kind that programs use. It may fail; it then changes
/// nothing, or has done the same steps everywhere.
pub(crate) fn change_something(files: &Path, random: &mut SmallRng) -> std::io::Result<()> {
    change(files, random, fs::rename)
}

fn change(
    files: &Path,
    random: &mut SmallRng,
    rename: fn(PathBuf, PathBuf) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let [one, other] = [(); 2].map(|()| files.join(some_path(random)));
    match random.random_range(0..13) {
        0..3 => write(&one, random),
        3 => fs::create_dir_all(&one),
        4 => rename(one, other),
        5 => fs::hard_link(&one, &other),
        6 => symlink("somewhere", &one),
        7 => fs::remove_file(&one),
        8 => fs::remove_dir_all(&one),
        9 => truncate(&one, random),
        10 => fs::set_permissions(
            &one,
            fs::Permissions::from_mode(0o600 | random.random_range(0..0o100)),
        ),
        11 => overwrite_unseen(&one, random),
        _ => fs::remove_file(&one).and_then(|()| fs::create_dir(&one)),
    }
}

/// Moves like `mv` where a directory cannot be renamed.
fn move_by_copying(one: PathBuf, other: PathBuf) -> std::io::Result<()> {
    if other.exists() {
        fs::remove_dir(&other)?;
    }
    fs::create_dir(&other)?;
    copy_all(&one, &other);
    fs::remove_dir_all(one)
}

fn some_path(random: &mut SmallRng) -> String {
    let depth = random.random_range(1..4);
    let part = |_| ["a", "b", "c", "d"][random.random_range(0..4)];
    (0..depth).map(part).collect::<Vec<_>>().join("/")
}

fn write(path: &Path, random: &mut SmallRng) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let length = [3, 3, 3, 100, 40_000][random.random_range(0..5)];
    fs::write(path, vec![random.random::<u8>(); length])
}

fn truncate(path: &Path, random: &mut SmallRng) -> std::io::Result<()> {
    let file = fs::File::options().write(true).open(path)?;
    file.set_len(random.random_range(0..50_000))
}

/// Writes other bytes of the same length, and restores the time.
fn overwrite_unseen(path: &Path, random: &mut SmallRng) -> std::io::Result<()> {
    let stat = fs::metadata(path)?;
    let file = fs::File::options().write(true).open(path)?;
    std::os::unix::fs::FileExt::write_all_at(
        &file,
        &vec![random.random::<u8>(); stat.len() as usize],
        0,
    )?;
    file.set_modified(stat.modified()?)
}
