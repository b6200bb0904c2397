use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;

use elevo_catalog::{Project, Projects, Retention, SqliteCatalog, SqliteOptions, Tenant};
use elevo_core::TenantId;
use elevo_engine::{Commit, Store};
use elevo_objects::{Hash, Snapshot, SnapshotId, Tree};
use elevo_store_local::server_stamp;
use futures::FutureExt;
use serde_json::json;
use tempfile::TempDir;

use super::*;

/// A data directory, with the workspace root elsewhere.
struct Data(TempDir);

impl Data {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn places(&self, adopt: bool, writes: u32) -> Installation {
        Installation {
            data: self.path("data"),
            catalog: CatalogPlace::File(self.path("data/catalog.db")),
            store: StorePlace::Directory(self.path("data/store")),
            stamps: Some(Stamps::File(self.path("data/store"))),
            root: self.path("workspaces"),
            adopt,
            full_percent: 100,
            growing: Mutex::default(),
            refused: watch::Sender::default(),
            writes_left: writes.into(),
        }
    }

    async fn catalog(&self) -> SqliteCatalog {
        let path = self.path("data/catalog.db");
        let opened = SqliteCatalog::open(&path, &SqliteOptions::default()).await;
        opened.unwrap()
    }

    /// Starts a server on the data, and simulates a kill after `writes` writes.
    /// Returns whether parts were adopted.
    async fn start_with(&self, adopt: bool, writes: u32) -> anyhow::Result<bool> {
        let places = self.places(adopt, writes);
        places.check().await?;
        let _store = places.open_store().await?;
        let catalog = self.catalog().await;
        let stamped = AssertUnwindSafe(places.stamp(&catalog))
            .catch_unwind()
            .await;
        // Without the close, the files would change a moment later, when the
        // threads of the catalog end.
        catalog.close().await;
        stamped.unwrap_or_else(|killed| resume_unwind(killed))
    }

    /// Starts with a limit on the number of writes. Returns whether the start
    /// was killed.
    async fn is_killed(&self, adopt: bool, writes: u32) -> bool {
        let start = AssertUnwindSafe(self.start_with(adopt, writes));
        match start.catch_unwind().await {
            Ok(started) => started.map(|_| false).unwrap(),
            Err(_) => true,
        }
    }

    async fn start(&self) -> anyhow::Result<bool> {
        self.start_with(false, u32::MAX).await
    }

    async fn adopt(&self) -> bool {
        self.start_with(true, u32::MAX).await.unwrap()
    }

    async fn refusal(&self) -> &'static str {
        let before = self.tree();
        let error = self.start().await.unwrap_err();
        assert_eq!(self.tree(), before, "a refused start changes nothing");
        let refusal = error.downcast_ref::<Refusal>();
        refusal.unwrap_or_else(|| panic!("{error:?}")).name()
    }

    /// Adds a tenant with a project. `is_stored` selects whether the store has
    /// the head of the project.
    async fn add_project(&self, is_stored: bool) {
        let places = self.places(false, 0);
        let store = places.open_store().await.unwrap();
        let head = match is_stored {
            true => store_snapshot(&*store.store()).await,
            false => SnapshotId(Hash::from_bytes([7; 32])),
        };
        let catalog = self.catalog().await;
        catalog.add_tenant(&tenant()).await.unwrap();
        let added = catalog.add_project(&project(head), &json!({})).await;
        added.unwrap();
        catalog.close().await;
    }

    /// Removes the stamps, as in the data of a server from before stamps
    /// existed.
    async fn make_old(&self) {
        fs::remove_file(self.path("data/store/SERVER")).unwrap();
        fs::remove_file(self.path("workspaces/INSTALLATION")).unwrap();
        let catalog = self.catalog().await;
        catalog.set_setting(GENERATION, "0").await.unwrap();
        catalog.close().await;
    }

    /// Returns every file with its content, except for SQLite's shared memory.
    fn tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.0.path().to_owned()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    found.insert(path.clone(), Vec::new());
                    open.push(path);
                } else if !path.to_string_lossy().ends_with("-shm") {
                    found.insert(path.clone(), fs::read(&path).unwrap());
                }
            }
        }
        found
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).unwrap();
    }

    fn copy_of(&self) -> Self {
        let copy = Self::new();
        let from = self.0.path().join(".");
        let mut command = std::process::Command::new("cp");
        let copied = command.arg("-a").arg(from).arg(copy.0.path()).status();
        assert!(copied.unwrap().success());
        copy
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::new(seconds, 0).unwrap()
}

fn tenant() -> Tenant {
    Tenant::new(TenantId::LOCAL, "one", at(1))
}

fn project(head: SnapshotId) -> Project {
    Project {
        id: "prj-1".parse().unwrap(),
        tenant: TenantId::LOCAL,
        name: "site".into(),
        description: None,
        head,
        sequence: 0,
        policy_version: 0,
        retention: Retention::All,
        created: at(1),
        updated: at(1),
        removing: false,
    }
}

async fn store_snapshot(store: &dyn Store) -> SnapshotId {
    let snapshot = Snapshot {
        tree: Tree::EMPTY,
        times: None,
        parents: Vec::new(),
        author: "ada".into(),
        message: String::new(),
        created: at(1),
        labels: BTreeMap::new(),
    };
    let (id, _) = snapshot.encode().unwrap();
    let commit = Commit {
        snapshots: vec![snapshot],
        ..Commit::default()
    };
    store.commit(TenantId::LOCAL, commit).await.unwrap();
    id
}

#[tokio::test]
async fn an_empty_directory_starts_and_starts_again() {
    let data = Data::new();
    for _ in 0..3 {
        assert!(!data.start().await.unwrap());
    }
    data.add_project(true).await;
    assert!(!data.start().await.unwrap());
    assert!(!data.adopt().await, "there is nothing to adopt");
    let stamp = server_stamp(&data.path("data/store")).unwrap().unwrap();
    let root = fs::read_to_string(data.path("workspaces/INSTALLATION")).unwrap();
    assert_eq!(root.trim(), stamp.installation);
    assert_eq!(stamp.generation, 5);
}

#[tokio::test]
async fn rejects_a_catalog_that_is_missing_empty_older_or_foreign() {
    let data = Data::new();
    data.start().await.unwrap();
    data.add_project(true).await;
    data.copy("data/catalog.db", "yesterday");
    data.start().await.unwrap();
    data.copy("data/catalog.db", "today");

    data.copy("yesterday", "data/catalog.db");
    assert_eq!(data.refusal().await, "catalog_older");
    fs::remove_file(data.path("data/catalog.db")).unwrap();
    assert_eq!(data.refusal().await, "catalog_missing");
    fs::write(data.path("data/catalog.db"), "").unwrap();
    assert_eq!(data.refusal().await, "catalog_missing");
    let other = Data::new();
    other.start().await.unwrap();
    fs::copy(other.path("data/catalog.db"), data.path("data/catalog.db")).unwrap();
    assert_eq!(data.refusal().await, "installation_foreign");

    data.copy("today", "data/catalog.db");
    assert!(!data.start().await.unwrap());
}

#[tokio::test]
async fn rejects_a_copy_of_the_catalog_made_while_the_server_ran() {
    let data = Data::new();
    data.start().await.unwrap();
    data.copy("data/catalog.db", "copy");
    let (places, catalog) = (data.places(false, u32::MAX), data.catalog().await);
    places.grow(&catalog).await.unwrap();
    catalog.close().await;
    data.copy("data/catalog.db", "newest");
    data.copy("copy", "data/catalog.db");
    assert_eq!(data.refusal().await, "catalog_older");
    data.copy("newest", "data/catalog.db");
    data.start().await.unwrap();
}

#[tokio::test]
async fn rejects_a_store_that_is_missing_or_older() {
    let data = Data::new();
    data.start().await.unwrap();
    data.add_project(true).await;
    let old = data.copy_of();
    data.start().await.unwrap();
    data.start().await.unwrap();
    fs::rename(data.path("data/store"), data.path("store")).unwrap();
    assert_eq!(data.refusal().await, "store_missing");
    fs::rename(old.path("data/store"), data.path("data/store")).unwrap();
    assert_eq!(data.refusal().await, "store_older");
    fs::remove_dir_all(data.path("data/store")).unwrap();
    fs::rename(data.path("store"), data.path("data/store")).unwrap();
    data.start().await.unwrap();
}

#[tokio::test]
async fn rejects_workspaces_that_are_foreign_unmarked_or_missing() {
    let data = Data::new();
    data.start().await.unwrap();
    data.add_project(true).await;
    let live = |data: &Data| {
        let place = data.path(&format!("workspaces/{}/live/ws-1", TenantId::LOCAL));
        fs::create_dir_all(place).unwrap();
    };
    live(&data);
    data.start().await.unwrap();
    let mark = data.path("workspaces/INSTALLATION");
    let own = fs::read(&mark).unwrap();
    fs::write(&mark, "another\n").unwrap();
    assert_eq!(data.refusal().await, "installation_foreign");
    fs::remove_file(&mark).unwrap();
    assert_eq!(data.refusal().await, "workspaces_unknown");
    fs::write(&mark, own).unwrap();
    data.start().await.unwrap();

    let other = Data::new();
    live(&other);
    assert_eq!(other.refusal().await, "catalog_missing");
}

#[tokio::test]
async fn adopts_a_directory_from_before_there_were_ids_once() {
    let data = Data::new();
    data.start().await.unwrap();
    data.add_project(true).await;
    data.make_old().await;
    assert!(data.start().await.unwrap());
    assert!(!data.start().await.unwrap());

    let lacking = Data::new();
    lacking.start().await.unwrap();
    lacking.add_project(false).await;
    lacking.make_old().await;
    assert_eq!(lacking.refusal().await, "snapshots_missing");
    assert!(lacking.adopt().await);
    assert!(!lacking.start().await.unwrap());
}

#[tokio::test]
async fn rejects_an_old_directory_whose_catalog_is_missing() {
    let data = Data::new();
    data.start().await.unwrap();
    data.add_project(true).await;
    data.make_old().await;
    fs::remove_file(data.path("data/catalog.db")).unwrap();
    assert_eq!(data.refusal().await, "catalog_missing");
    // An older server has created an empty catalog.
    let catalog = data.catalog().await;
    catalog.set_setting(INSTALLATION, "new").await.unwrap();
    catalog.close().await;
    assert_eq!(data.refusal().await, "catalog_missing");
}

#[tokio::test]
async fn parts_belong_together_after_an_adoption() {
    let data = Data::new();
    data.start().await.unwrap();
    data.add_project(true).await;
    data.copy("data/catalog.db", "yesterday");
    for _ in 0..3 {
        data.start().await.unwrap();
    }
    data.copy("data/catalog.db", "today");
    data.copy("yesterday", "data/catalog.db");
    assert!(data.adopt().await);
    assert!(!data.start().await.unwrap());
    data.copy("today", "data/catalog.db");
    assert_eq!(data.refusal().await, "catalog_older");
    fs::remove_file(data.path("data/catalog.db")).unwrap();
    assert!(data.adopt().await);
    assert!(!data.start().await.unwrap());
    let stamp = server_stamp(&data.path("data/store")).unwrap().unwrap();
    let found = SqliteCatalog::find(&data.path("data/catalog.db")).await;
    let found = found.unwrap().unwrap();
    assert_eq!(found.installation, Some(stamp.installation));
}

/// Kills a start before each of its writes. The next start must succeed, unless
/// an adoption was killed before its first write.
async fn kill_at_every_write(prepare: impl AsyncFn() -> Data, adopt: bool) -> u32 {
    for writes in 0.. {
        let data = prepare().await;
        if !data.is_killed(adopt, writes).await {
            return writes;
        }
        if adopt && writes == 0 {
            data.refusal().await;
            continue;
        }
        let again = data.start().await;
        again.unwrap_or_else(|error| panic!("after {writes} writes: {error:?}"));
        data.start().await.unwrap();
    }
    unreachable!("a start has a limited number of writes")
}

#[tokio::test]
async fn a_start_after_a_kill_between_any_two_writes_is_not_refused() {
    let fresh = async || Data::new();
    assert_eq!(kill_at_every_write(fresh, false).await, 4);
    let ordinary = async || {
        let data = Data::new();
        data.start().await.unwrap();
        data.add_project(true).await;
        data
    };
    assert_eq!(kill_at_every_write(ordinary, false).await, 2);
    let cut_off = async || {
        let data = ordinary().await;
        assert!(data.is_killed(false, 1).await);
        data
    };
    assert_eq!(kill_at_every_write(cut_off, false).await, 3);
    let old = async || {
        let data = ordinary().await;
        data.make_old().await;
        data
    };
    assert_eq!(kill_at_every_write(old, false).await, 6);
    let without_catalog = async || {
        let data = ordinary().await;
        fs::remove_file(data.path("data/catalog.db")).unwrap();
        data
    };
    assert_eq!(kill_at_every_write(without_catalog, true).await, 6);
    let foreign = async || {
        let (data, other) = (ordinary().await, ordinary().await);
        other.start().await.unwrap();
        fs::copy(other.path("data/catalog.db"), data.path("data/catalog.db")).unwrap();
        data
    };
    assert_eq!(kill_at_every_write(foreign, true).await, 6);
}

#[tokio::test]
async fn a_start_succeeds_after_a_first_start_was_killed_before_its_first_write() {
    let data = Data::new();
    let places = data.places(false, 0);
    drop(places.open_store().await.unwrap());
    data.copy_of().start().await.unwrap();
    fs::write(data.path("data/catalog.db"), "").unwrap();
    data.copy_of().start().await.unwrap();
    data.catalog().await.close().await;
    assert!(!data.start().await.unwrap());
}

#[tokio::test]
async fn an_ordinary_start_succeeds_if_the_generation_cannot_be_incremented() {
    let data = Data::new();
    data.start().await.unwrap();
    // A directory in place of the new stamp makes its write fail, like a full
    // disk.
    fs::create_dir(data.path("data/store/SERVER.new")).unwrap();
    for _ in 0..3 {
        data.start().await.unwrap();
    }
    fs::remove_dir(data.path("data/store/SERVER.new")).unwrap();
    data.start().await.unwrap();
}

#[tokio::test]
async fn no_garbage_is_collected_for_a_day_after_an_adoption() {
    let data = Data::new();
    data.start().await.unwrap();
    let catalog = data.catalog().await;
    assert_eq!(held_until(&catalog, at(0)).await.unwrap(), None);
    let adopted = clock::text(at(1_000_000));
    catalog.set_setting(ADOPTED, &adopted).await.unwrap();
    let until = at(1_000_000 + 24 * 3600);
    let before = held_until(&catalog, at(until.seconds() - 1)).await;
    assert_eq!(before.unwrap(), Some(until));
    assert_eq!(held_until(&catalog, until).await.unwrap(), None);
    catalog.close().await;
}

/// Changes a setting of the catalog under a running server.
async fn grow_after(name: &str, value: &str) -> Refusal {
    let data = Data::new();
    data.start().await.unwrap();
    data.add_project(true).await;
    let places = data.places(false, u32::MAX);
    let catalog = data.catalog().await;
    places.grow(&catalog).await.unwrap();
    places.verify(&catalog).await.unwrap();
    assert!(!places.is_refused());
    catalog.set_setting(name, value).await.unwrap();
    let known = server_stamp(&data.path("data/store")).unwrap();
    let verified = places.verify(&catalog).await.unwrap_err();
    let grown = places.grow(&catalog).await.unwrap_err();
    let refusal = places.refused().await;
    for error in [verified, grown] {
        assert_eq!(error.downcast_ref(), Some(&refusal));
    }
    // The evidence is still there.
    assert_eq!(server_stamp(&data.path("data/store")).unwrap(), known);
    assert_eq!(catalog.setting(name).await.unwrap().unwrap(), value);
    catalog.close().await;
    refusal
}

#[tokio::test]
async fn a_catalog_that_goes_back_under_a_running_server_is_refused() {
    let older = grow_after(GENERATION, "1").await;
    assert_eq!(older.name(), "catalog_older");
    let foreign = grow_after(INSTALLATION, "another").await;
    assert_eq!(foreign.name(), "installation_foreign");
}
