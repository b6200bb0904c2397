//! The promises of `WorkspaceProvider` and of its capabilities, on every
//! provider. The tests of `Workspaces` check most promises of the core; these
//! call the providers directly, capability by capability.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use elevo_objects::Snapshot;
use elevo_workspace::provider::{
    FullProvider, Origin, OverlayProvider, ProviderKind, WorkspaceProvider,
};
use elevo_workspace::{Error, LazyServer};
use rustix::mount::{UnmountFlags, unmount};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use support::numbered::numbered;
use support::providers::{self, on_every_provider};
use support::{Fixture, InProcess, LIMIT, progress};

on_every_provider! {
    a_provider_has_the_capabilities_of_its_kind
    a_scan_and_a_read_find_the_same_files
    a_release_accepts_any_state
    a_limit_is_enforced_or_rejected
    a_mount_that_was_lost_keeps_the_changes;
of_root:
    a_view_shows_only_prepared_snapshots
    a_view_in_any_state_is_repaired
    containers_get_the_directory_below_a_view
}

/// A provider, called without `Workspaces`.
struct Subject {
    provider: Box<dyn WorkspaceProvider>,
    root: PathBuf,
    base: Snapshot,
    id: elevo_objects::SnapshotId,
}

impl Subject {
    fn new(fixture: &Fixture) -> Self {
        fs::create_dir_all(fixture.root.join("live")).unwrap();
        fs::create_dir_all(fixture.root.join("trash")).unwrap();
        let root = fixture.root.canonicalize().unwrap();
        Self {
            provider: provider(fixture, &root),
            root,
            base: fixture.snapshot_of(fixture.base),
            id: fixture.base,
        }
    }

    fn origin(&self) -> Origin<'_> {
        Origin {
            id: self.id,
            snapshot: &self.base,
            limit: None,
            owner: None,
            read_only: false,
        }
    }

    fn reader(&self) -> Origin<'_> {
        Origin {
            read_only: true,
            ..self.origin()
        }
    }

    /// Creates an empty directory for a workspace.
    fn live_dir(&self, name: &str) -> PathBuf {
        let live_dir = self.root.join("live").join(name);
        fs::create_dir(&live_dir).unwrap();
        live_dir
    }

    /// Creates a workspace with a home.
    fn create(&self, name: &str, origin: Origin<'_>) -> PathBuf {
        let live_dir = self.live_dir(name);
        self.provider
            .create(&live_dir, origin, &progress())
            .unwrap();
        fs::create_dir(self.provider.home(&live_dir)).unwrap();
        live_dir
    }
}

fn provider(fixture: &Fixture, root: &Path) -> Box<dyn WorkspaceProvider> {
    let repository = fixture.repository.clone();
    let overlay = || {
        let overlay = OverlayProvider::new(repository.clone(), 2, root, 1 << 30);
        match fixture.pool {
            Some(bytes) => overlay.with_pool(root, bytes).unwrap(),
            None => overlay,
        }
    };
    let server =
        || -> std::sync::Arc<dyn LazyServer> { std::sync::Arc::new(InProcess(repository.clone())) };
    match fixture.kind {
        ProviderKind::Overlay => Box::new(overlay()),
        ProviderKind::Lazy => Box::new(overlay().lazy(root, server())),
        ProviderKind::Rootless => Box::new(overlay().rootless()),
        ProviderKind::RootlessLazy => Box::new(overlay().rootless().lazy(root, server())),
        ProviderKind::Reflink => {
            let reflink = FullProvider::reflink(repository, 2, root);
            Box::new(reflink.with_view_mounts(root))
        }
        ProviderKind::Copy => Box::new(FullProvider::copy(repository, 2).with_view_mounts(root)),
    }
}

fn is_overlay(fixture: &Fixture) -> bool {
    !matches!(fixture.kind, ProviderKind::Reflink | ProviderKind::Copy)
}

fn a_provider_has_the_capabilities_of_its_kind(fixture: &Fixture) {
    let subject = Subject::new(fixture);
    let live_dir = subject.create("one", subject.origin());
    let provider = &subject.provider;
    let is_pooled = fixture.pool.is_some();
    assert_eq!(provider.kind(), fixture.kind);
    assert_eq!(provider.mounts().is_some(), is_overlay(fixture));
    assert_eq!(provider.private().is_some(), fixture.kind.is_private());
    assert_eq!(provider.atomic_forks(&live_dir).is_some(), is_pooled);
    assert_eq!(provider.limits(&live_dir).is_some(), is_pooled);
    assert_eq!(provider.volume().is_some(), is_pooled);
}

fn a_scan_and_a_read_find_the_same_files(fixture: &Fixture) {
    let subject = Subject::new(fixture);
    let live_dir = subject.create("one", subject.origin());
    let files = subject.provider.files(&live_dir);
    fs::write(files.join("src/new"), "new").unwrap();
    fs::remove_file(files.join("run")).unwrap();
    let scan = subject
        .provider
        .scan(&live_dir, subject.origin(), &progress());
    let scan = scan.unwrap();
    assert_eq!(scan.tree, fixture.plain_import(&files));
    let read = subject
        .provider
        .read(&live_dir, subject.origin(), &progress());
    let taken = read.unwrap().commit(&fixture.repository, support::info());
    assert_eq!(fixture.snapshot_of(taken.unwrap()).tree, scan.tree);
}

/// Releases a workspace, an empty directory, and a directory that does not
/// exist.
fn a_release_accepts_any_state(fixture: &Fixture) {
    let subject = Subject::new(fixture);
    let live_dir = subject.create("one", subject.origin());
    let [empty, missing] = ["empty", "missing"].map(|name| subject.live_dir(name));
    fs::remove_dir(&missing).unwrap();
    for live_dir in [&live_dir, &empty, &missing] {
        for _ in 0..2 {
            subject.provider.release(live_dir).unwrap();
        }
    }
    let mounted = support::mounts_below(&subject.root.join("live"));
    assert_eq!(mounted, Vec::<PathBuf>::new());
}

fn a_limit_is_enforced_or_rejected(fixture: &Fixture) {
    let subject = Subject::new(fixture);
    let origin = Origin {
        limit: Some(LIMIT),
        ..subject.origin()
    };
    if fixture.pool.is_none() {
        let live_dir = subject.live_dir("one");
        let created = subject.provider.create(&live_dir, origin, &progress());
        assert!(matches!(created, Err(Error::NoLimit)));
        return;
    }
    let live_dir = subject.create("one", origin);
    let limits = subject.provider.limits(&live_dir).unwrap();
    let file = subject.provider.files(&live_dir).join("big");
    write(&file, LIMIT / 2).unwrap();
    let used = limits.used().unwrap().unwrap();
    assert!(used >= LIMIT / 2);
    // Enough to create a file, but not to fill it.
    limits.set_limit(used + (1 << 20)).unwrap();
    write(&file.with_file_name("more"), LIMIT / 4).unwrap_err();
    assert_eq!(fs::metadata(&file).unwrap().len(), LIMIT / 2);
    fs::remove_file(file.with_file_name("more")).unwrap();
    fs::remove_file(&file).unwrap();
    while limits.used().unwrap().unwrap() >= LIMIT / 2 {
        assert!(limits.reclaim().unwrap(), "the space is released in time");
    }
}

fn write(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(&vec![7; bytes as usize])?;
    file.sync_all()
}

fn a_mount_that_was_lost_keeps_the_changes(fixture: &Fixture) {
    let subject = Subject::new(fixture);
    let live_dir = subject.create("one", subject.origin());
    let files = subject.provider.files(&live_dir);
    fs::write(files.join("mine"), "mine").unwrap();
    let Some(mounts) = subject.provider.mounts() else {
        return;
    };
    assert!(mounts.is_mounted(&live_dir));
    unmount(&files, UnmountFlags::DETACH).unwrap();
    assert!(!mounts.is_mounted(&live_dir));
    mounts
        .mount(&live_dir, subject.origin(), &progress())
        .unwrap();
    assert!(mounts.is_mounted(&live_dir));
    assert_eq!(fs::read(files.join("mine")).unwrap(), b"mine");
    assert_eq!(fs::read(files.join("run")).unwrap(), b"1234");
}

fn a_view_shows_only_prepared_snapshots(fixture: &Fixture) {
    let subject = Subject::new(fixture);
    let live_dir = subject.create("one", subject.reader());
    let views = subject.provider.views();
    let path = views.path(&live_dir);
    assert!(views.shows(&live_dir, subject.reader()));
    assert_eq!(fs::read(path.join("run")).unwrap(), b"1234");
    fs::write(path.join("run"), "written").unwrap_err();
    let id = numbered(fixture, 1)[0];
    let snapshot = fixture.snapshot_of(id);
    let next = Origin {
        id,
        snapshot: &snapshot,
        ..subject.reader()
    };
    views.show(&live_dir, next).unwrap_err();
    assert!(views.shows(&live_dir, subject.reader()));
    views.prepare(&live_dir, next, &progress()).unwrap();
    assert!(views.shows(&live_dir, subject.reader()));
    let opened = fs::File::open(path.join("run")).unwrap();
    views.show(&live_dir, next).unwrap();
    assert!(views.shows(&live_dir, next));
    assert!(!views.shows(&live_dir, subject.reader()));
    assert_eq!(fs::read(path.join("0")).unwrap(), b"0");
    assert_eq!(io::read_to_string(opened).unwrap(), "1234");
}

fn a_view_in_any_state_is_repaired(fixture: &Fixture) {
    let subject = Subject::new(fixture);
    let live_dir = subject.create("one", subject.reader());
    let views = subject.provider.views();
    let ensure = || {
        let shown = views.ensure_shown(&live_dir, subject.reader(), &progress());
        shown.unwrap();
        assert!(views.shows(&live_dir, subject.reader()));
        assert_eq!(support::mounts_below(&views.path(&live_dir)).len(), 1);
    };
    ensure();
    unmount(views.path(&live_dir), UnmountFlags::DETACH).unwrap();
    assert!(!views.shows(&live_dir, subject.reader()));
    ensure();
}

fn containers_get_the_directory_below_a_view(fixture: &Fixture) {
    let subject = Subject::new(fixture);
    let live_dir = subject.create("one", subject.reader());
    let views = subject.provider.views();
    let bare = views.bare(&live_dir).unwrap().unwrap();
    assert_eq!(fs::read_dir(&bare).unwrap().count(), 0);
    views.show(&live_dir, subject.reader()).unwrap();
    assert_eq!(fs::read_dir(&bare).unwrap().count(), 0);
}

/// Runs a test on overlays with a pool, since only these fork at one moment and
/// have a volume.
fn on_a_pool(name: &str, test: fn(&Fixture)) {
    providers::pooled(name, test);
}

#[test]
fn an_atomic_fork_has_the_changes_and_the_home() {
    on_a_pool("an_atomic_fork_has_the_changes_and_the_home", |fixture| {
        let subject = Subject::new(fixture);
        let live_dir = subject.create("one", subject.origin());
        let (files, home) = (
            subject.provider.files(&live_dir),
            subject.provider.home(&live_dir),
        );
        fs::write(files.join("mine"), "mine").unwrap();
        fs::write(home.join("mine"), "at home").unwrap();
        let forks = ["two", "three"].map(|name| subject.live_dir(name));
        let atomic = subject.provider.atomic_forks(&live_dir).unwrap();
        let into = [forks[0].as_path(), forks[1].as_path()];
        let forked = atomic.fork_into(&into, subject.origin(), &progress());
        forked.unwrap();
        fs::write(files.join("mine"), "later").unwrap();
        for fork in &forks {
            let (files, home) = (subject.provider.files(fork), subject.provider.home(fork));
            assert_eq!(fs::read(files.join("mine")).unwrap(), b"mine");
            assert_eq!(fs::read(home.join("mine")).unwrap(), b"at home");
            assert!(subject.provider.atomic_forks(fork).is_some());
        }
    });
}

#[test]
fn a_volume_finds_and_deletes_interrupted_reads() {
    on_a_pool("a_volume_finds_and_deletes_interrupted_reads", |fixture| {
        let subject = Subject::new(fixture);
        let live_dir = subject.create("one", subject.origin());
        let volume = subject.provider.volume().unwrap();
        volume.sync().unwrap();
        volume.trim().unwrap();
        assert_eq!(volume.interrupted_reads().unwrap(), [""; 0]);
        // A reading process that was killed leaves such a snapshot.
        let uppers = subject.root.join("uppers");
        let status = std::process::Command::new("btrfs")
            .args(["-q", "subvolume", "snapshot", "-r"])
            .args([uppers.join("one"), uppers.join("one.reading")])
            .status();
        assert!(status.unwrap().success());
        assert_eq!(volume.interrupted_reads().unwrap(), ["one"]);
        for _ in 0..2 {
            volume.delete_interrupted_read("one").unwrap();
        }
        assert_eq!(volume.interrupted_reads().unwrap(), [""; 0]);
        let read = subject
            .provider
            .read(&live_dir, subject.origin(), &progress());
        read.unwrap();
        assert_eq!(volume.interrupted_reads().unwrap(), [""; 0]);
    });
}

/// A process without the right to mount gets an entrance instead of a mount.
#[test]
fn a_private_workspace_is_mounted_or_has_an_entrance() {
    let name = "a_private_workspace_is_mounted_or_has_an_entrance";
    providers::rootless(name, |fixture| {
        let subject = Subject::new(fixture);
        let live_dir = subject.create("one", subject.origin());
        let private = subject.provider.private().unwrap();
        let entrance = |live_dir: &Path| private.entrance(live_dir, subject.origin(), &progress());
        assert!(private.can_mount(&live_dir).unwrap());
        assert_eq!(private.users(&live_dir).unwrap(), [0_u32; 0]);
        assert_eq!(entrance(&live_dir).unwrap(), None);
        drop(private.lock_entrance(&live_dir).unwrap());

        // Changes the rights of this thread only.
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::SYS_ADMIN);
        set_capabilities(None, sets).unwrap();
        let live_dir = subject.create("two", subject.origin());
        assert!(!private.can_mount(&live_dir).unwrap());
        assert!(!subject.provider.mounts().unwrap().is_mounted(&live_dir));
        let entrance = entrance(&live_dir).unwrap().unwrap();
        assert_eq!(entrance.files, subject.provider.files(&live_dir));
        assert!(!entrance.lowers.is_empty());
    });
}

#[test]
fn a_workspace_older_than_the_pool_has_no_limits() {
    on_a_pool("a_workspace_older_than_the_pool_has_no_limits", |fixture| {
        let without = Fixture {
            pool: None,
            ..fixture.owned()
        };
        let older = Subject::new(&without);
        let live_dir = older.create("old", older.origin());
        let subject = Subject::new(fixture);
        assert!(subject.provider.limits(&live_dir).is_none());
        assert!(subject.provider.atomic_forks(&live_dir).is_none());
    });
}
