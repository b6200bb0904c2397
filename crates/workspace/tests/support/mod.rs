//! The fixture of the tests of workspaces.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "not every test needs all of it"
)]

pub(crate) mod numbered;
pub(crate) mod providers;
pub(crate) mod random;

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
use elevo_testkit::{file_clock, long};
use elevo_workspace::{
    Freeze, LazyServer, NeverFreeze, Options, Owner, ProviderKind, Snapshotted, WorkspaceId,
    Workspaces,
};
use futures::executor::block_on;
use rand::SeedableRng;
use rand::rngs::SmallRng;

/// A snapshot to create workspaces from, and a directory for them.
pub(crate) struct Fixture {
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

/// Serves snapshots in threads of this process, until they are unmounted.
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

/// A hook that records its calls in order.
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

/// Makes a directory with read-only directories in it deletable for an ordinary
/// user.
pub(crate) fn make_deletable(directory: &Path) {
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

impl Fixture {
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

    /// Returns a fixture with overlays over snapshots that threads of this
    /// process serve.
    pub(crate) fn lazy(directory: &Path) -> Self {
        Self::served(directory, ProviderKind::Lazy)
    }

    pub(crate) fn served(directory: &Path, kind: ProviderKind) -> Self {
        let fixture = Self::new(directory, kind);
        let server = InProcess(fixture.repository.clone());
        Self {
            lazy: Some(Arc::new(server)),
            ..fixture
        }
    }

    /// Returns a fixture with overlays whose uppers are in a pool.
    pub(crate) fn pooled(directory: &Path) -> Self {
        Self {
            pool: Some(1 << 30),
            ..Self::new(directory, ProviderKind::Overlay)
        }
    }

    /// Returns the same fixture, but with files that belong to `AGENT`, except
    /// in a user namespace, where the owner cannot be changed.
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
            hidden_mounts: false,
            node: None,
        }
    }

    pub(crate) fn open(&self) -> Workspaces {
        let repository = self.repository.clone();
        Workspaces::open(&self.root, repository, &self.options()).unwrap()
    }

    /// Opens the workspaces with an option that keeps only the needed layers.
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

    /// Simulates a restart of the machine: unmounts everything here, and
    /// damages the layers that must not be trusted after a restart.
    pub(crate) fn restart(&self) {
        for point in mounts_below(&self.root).into_iter().rev() {
            let status = std::process::Command::new("umount").arg(&point).status();
            assert!(status.unwrap().success(), "{}", point.display());
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

    /// Waits until the clock of the file system has advanced, so that the stat
    /// cache trusts the files that were written before.
    pub(crate) fn wait_for_clock_tick(&self) {
        file_clock::wait_for_tick(&self.root);
    }

    /// Returns the names in `live`, sorted.
    pub(crate) fn live_dirs(&self) -> Vec<String> {
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

/// Erases live and parked workspaces, and the remains of a killed process.
pub(crate) fn erases_all_workspaces_at_once(fixture: &Fixture) {
    for _ in 0..2 {
        let workspaces = fixture.open();
        let files = fixture.create(&workspaces, "one");
        fs::create_dir_all(files.join("a/b")).unwrap();
        fs::write(files.join("a/b/c"), "written").unwrap();
        fixture.create(&workspaces, "parked");
        workspaces
            .park(&id("parked"), info(), &NeverFreeze, &progress())
            .unwrap();
        let into = [id("fork")];
        workspaces
            .fork(&id("one"), &into, info(), &NeverFreeze, &progress())
            .unwrap();
        drop(workspaces);
        fs::create_dir_all(fixture.root.join("live/half-made/files")).unwrap();
        // A repeated call succeeds.
        for _ in 0..2 {
            elevo_workspace::erase(&fixture.root).unwrap();
            assert!(!fixture.root.exists());
        }
    }
}
