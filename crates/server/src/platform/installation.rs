//! Checks that a catalog, a store and workspaces belong together.
//!
//! A server deletes workspaces and objects that its catalog does not refer to.
//! With the wrong catalog, the server would delete all of them. So the server
//! does not start unless the three parts of an installation agree:
//!
//! ```text
//! part              where                           says
//! catalog           its settings                    installation, generation
//! store             store/SERVER, or its database   installation, generation
//! workspace root    WORKSPACE_ROOT/INSTALLATION     installation
//! ```
//!
//! The generation is a number that the server increments at each start, at each
//! stop and every few minutes. So an earlier copy of the catalog has a lower
//! generation than the store records. The server writes in this order, so that
//! the next start accepts the result of a kill between any two writes:
//!
//! ```text
//! start     1. catalog  adopting = yes         only if the parts are adopted
//!           2. catalog  installation           if it has none
//!           3. root     INSTALLATION           if it differs
//!           4. store    the catalog's generation, if a kill left it behind
//!           5. catalog  generation + 1
//!           6. store    SERVER with the new generation
//!           7. catalog  adopted = now, then adopting = no
//! later     4, 5, 6
//! ```
//!
//! Several servers that share the catalog and the store take turns, by a lock on
//! the mark of the store.
//!
//! At every moment, the catalog's generation equals the store's generation or
//! is one more. Until step 6 of the first start, the store has no `SERVER`;
//! until then, the parts are accepted if every root in the catalog is in the
//! store. Data directories of versions without these ids are adopted in the
//! same way. While `adopting` is set, a start continues the adoption.

mod format;
pub(crate) mod found;
pub(crate) mod refusal;
pub(crate) mod roots;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use elevo_catalog::{ADOPTING, Catalog, GENERATION, INSTALLATION};
use elevo_core::{TenantId, Timestamp};
use elevo_engine::ServerStamp;
use tokio::sync::{Mutex, watch};

use crate::config::Config;
use crate::platform::catalog_place::CatalogPlace;
use crate::platform::clock;
use crate::platform::installation::found::{Found, Verdict};
use crate::platform::store_place::{OpenStore, StampLock, Stamps, StorePlace};

pub use crate::platform::installation::refusal::Refusal;
pub use crate::platform::installation::roots::Missing;
pub(crate) use crate::platform::installation::roots::missing;

/// The setting of the catalog with the time of the last adoption.
const ADOPTED: &str = "adopted";
/// The file in the workspace root with the id of the installation.
const ROOT_FILE: &str = "INSTALLATION";
/// The beginning of the random name of a node.
pub(crate) const NODE_PREFIX: &str = "node-";
/// The file in the workspace root with the name of the server's node, if several
/// servers share the store.
const NODE_FILE: &str = "NODE";
/// The name of the node of a server that is alone.
const LONE_NODE: &str = "local";
/// Time after an adoption in which no garbage is collected, so that a mistake
/// can be noticed.
const HOLD: Duration = Duration::from_secs(24 * 3600);

/// The paths of an installation.
#[derive(Debug)]
pub(crate) struct Installation {
    data: PathBuf,
    catalog: CatalogPlace,
    store: StorePlace,
    /// The mark of the store, if it is open.
    stamps: Option<Stamps>,
    root: PathBuf,
    adopt: bool,
    /// Disk usage, in percent, above which the store rejects writes.
    full_percent: u8,
    /// Held while the generation is incremented.
    growing: Mutex<()>,
    /// The reason why the parts no longer belong together, once it is known.
    refused: watch::Sender<Option<Refusal>>,
    /// Number of further writes before a test simulates a kill.
    #[cfg(test)]
    writes_left: std::sync::atomic::AtomicU32,
}

impl Installation {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            data: config.data_dir.clone(),
            catalog: CatalogPlace::of(config),
            store: StorePlace::of(config),
            stamps: None,
            root: config.workspace_root.clone(),
            adopt: config.adopt,
            full_percent: config.full_percent,
            growing: Mutex::default(),
            refused: watch::Sender::default(),
            #[cfg(test)]
            writes_left: u32::MAX.into(),
        }
    }

    /// The same with an open store, which can be marked.
    pub(crate) fn with_store(config: &Config, store: &OpenStore) -> Self {
        Self {
            stamps: Some(match store.cluster() {
                Some(store) => Stamps::Row(store),
                None => Stamps::File(config.data_dir.join("store")),
            }),
            ..Self::new(config)
        }
    }

    /// Whether no other server can use the store.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.store, StorePlace::Directory(_))
    }

    /// Fails if a newer version of Elevo wrote a part. Fails with a [`Refusal`]
    /// if the parts do not belong together, unless an adoption is requested or
    /// in progress. Does not change the parts.
    pub(crate) async fn check(&self) -> anyhow::Result<()> {
        format::check(self)?;
        let _still = self.store.block_writers().await?;
        let found = Found::look(self).await?;
        if self.adopt || found.is_adopting() {
            return Ok(());
        }
        match found.verdict(self) {
            Verdict::Fresh | Verdict::Known => Ok(()),
            Verdict::Unstamped => self.check_roots().await,
            Verdict::Refused(refusal) => Err(refusal.into()),
        }
    }

    /// Fails if the store, which does not record its installation, lacks a
    /// snapshot that the catalog refers to.
    async fn check_roots(&self) -> anyhow::Result<()> {
        match roots::missing_at(&self.catalog, &self.store).await? {
            None => Ok(()),
            Some(missing) => Err(Refusal::MissingRoots {
                store: self.store.clone(),
                catalog: self.catalog.clone(),
                missing,
            }
            .into()),
        }
    }

    /// Opens the store, and creates it if there is none.
    pub(crate) async fn open_store(&self) -> anyhow::Result<OpenStore> {
        let opened = self.store.open(self.full_percent, self.adopt).await;
        opened.map_err(Refusal::of_store)
    }

    async fn lock_stamp(&self) -> anyhow::Result<StampLock> {
        let stamps = self.stamps.as_ref().context("the store is not open")?;
        stamps.lock().await
    }

    /// Returns the name of this server's node in the catalog. With a store that only
    /// one server uses, it is always the same. Otherwise the workspace root has a
    /// random name, since the workspaces in it belong to the node.
    pub(crate) fn node_name(&self) -> anyhow::Result<String> {
        let path = self.root.join(NODE_FILE);
        match fs::read_to_string(&path) {
            Ok(name) => return Ok(name.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        }
        // The root of a server that was alone before.
        if self.is_alone() || self.root.join(ROOT_FILE).exists() {
            return Ok(LONE_NODE.into());
        }
        let name = clock::name(NODE_PREFIX);
        let written = write_file(&self.root, NODE_FILE, &name);
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(name)
    }

    /// Records in all parts that they belong together, and increments the
    /// generation. Returns whether the parts were adopted.
    pub(crate) async fn stamp(&self, catalog: &dyn Catalog) -> anyhow::Result<bool> {
        let lock = self.lock_stamp().await?;
        let found = Found::look(self).await?;
        let is_adopted = match found.verdict(self) {
            Verdict::Fresh => false,
            Verdict::Known => found.is_adopting(),
            Verdict::Unstamped => true,
            Verdict::Refused(_) if self.adopt || found.is_adopting() => true,
            Verdict::Refused(refusal) => return Err(refusal.into()),
        };
        if is_adopted {
            self.set(catalog, ADOPTING, "yes").await?;
        }
        let id = found.installation().unwrap_or_else(|| clock::name(""));
        if found.catalog_installation() != Some(&id) {
            self.set(catalog, INSTALLATION, &id).await?;
        }
        if found.root_installation() != Some(&id) {
            self.stamp_root(&id)?;
        }
        let stamp = found.store.stamp.as_ref();
        let known = stamp.map(|stamp| stamp.generation).filter(|_| is_adopted);
        match self.grow_beyond(catalog, known, lock).await {
            // The parts already agree, and a full disk must not prevent a
            // start.
            Err(error) if !is_adopted && stamp.is_some() && !self.is_refused() => {
                tracing::warn!(cause = %format!("{error:#}"), "cannot increment the generation");
            }
            grown => grown?,
        }
        if is_adopted {
            let now = clock::text(clock::now());
            self.set(catalog, ADOPTED, &now).await?;
            self.set(catalog, ADOPTING, "no").await?;
        }
        Ok(is_adopted)
    }

    /// Fails with a [`Refusal`] if the catalog and the store no longer belong
    /// together: the catalog was given to another installation, or its database
    /// went back to an earlier state. Nothing may be deleted then.
    pub(crate) async fn verify(&self, catalog: &dyn Catalog) -> anyhow::Result<()> {
        let _growing = self.growing.lock().await;
        let lock = self.lock_stamp().await?;
        self.present(catalog, &lock).await.map(drop)
    }

    /// Waits until [`verify`](Self::verify) or [`grow`](Self::grow) fails with a
    /// [`Refusal`].
    pub(crate) async fn refused(&self) -> Refusal {
        let mut refused = self.refused.subscribe();
        let found = refused.wait_for(Option::is_some).await;
        match found.ok().and_then(|found| found.clone()) {
            Some(refusal) => refusal,
            // The sender is a part of `self`.
            None => std::future::pending().await,
        }
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.refused.borrow().is_some()
    }

    /// Reads the catalog's installation and generation, and compares them with the
    /// store's stamp. Fails with a [`Refusal`] if they do not belong together.
    async fn present(
        &self,
        catalog: &dyn Catalog,
        lock: &StampLock,
    ) -> anyhow::Result<(String, u64)> {
        // Read after the stamp: the catalog then has at least its generation.
        let (id, now) = marked(catalog).await?;
        let refusal = lock.stamp().and_then(|stamp| self.compare(&id, now, stamp));
        if let Some(refusal) = refusal {
            self.refused.send_replace(Some(refusal.clone()));
            return Err(refusal.into());
        }
        Ok((id, now))
    }

    /// Compares a catalog with the stamp of the store.
    fn compare(&self, id: &str, generation: u64, stamp: &ServerStamp) -> Option<Refusal> {
        if stamp.installation != id {
            return Some(Refusal::Foreign {
                catalog: self.catalog.clone(),
                own: id.to_owned(),
                part: self.store.to_string(),
                other: stamp.installation.clone(),
            });
        }
        if generation < stamp.generation {
            return Some(Refusal::OlderCatalog {
                catalog: self.catalog.clone(),
                found: generation,
                known: stamp.generation,
            });
        }
        (generation > stamp.generation + 1).then(|| Refusal::OlderStore {
            store: self.store.clone(),
            found: stamp.generation,
            known: generation,
        })
    }

    /// Increments the generation. Fails like [`verify`](Self::verify).
    pub(crate) async fn grow(&self, catalog: &dyn Catalog) -> anyhow::Result<()> {
        let _growing = self.growing.lock().await;
        let lock = self.lock_stamp().await?;
        self.grow_beyond(catalog, None, lock).await
    }

    /// Increments the generation. If the parts are adopted, increments it to a
    /// number above `adopted`, the generation that the store records.
    async fn grow_beyond(
        &self,
        catalog: &dyn Catalog,
        adopted: Option<u64>,
        mut lock: StampLock,
    ) -> anyhow::Result<()> {
        let (id, next) = loop {
            if let Some(adopted) = adopted {
                let (id, now) = marked(catalog).await?;
                break (id, now.max(adopted) + 1);
            }
            let (id, now) = self.present(catalog, &lock).await?;
            if lock.stamp().is_none_or(|stamp| stamp.generation == now) {
                break (id, now + 1);
            }
            // A kill after the increment in the catalog left the store one
            // generation behind.
            self.stamp_store(lock, &id, now).await?;
            lock = self.lock_stamp().await?;
        };
        self.set(catalog, GENERATION, &next.to_string()).await?;
        self.stamp_store(lock, &id, next).await
    }

    async fn set(&self, catalog: &dyn Catalog, name: &str, value: &str) -> anyhow::Result<()> {
        self.before_write();
        let set = catalog.set_setting(name, value).await;
        set.context("cannot mark the catalog")
    }

    async fn stamp_store(&self, lock: StampLock, id: &str, generation: u64) -> anyhow::Result<()> {
        self.before_write();
        let stamp = ServerStamp {
            installation: id.to_owned(),
            generation,
        };
        lock.set(&stamp).await
    }

    fn stamp_root(&self, id: &str) -> anyhow::Result<()> {
        self.before_write();
        write_root_stamp(&self.root, id).context("cannot mark the workspaces")
    }

    /// Lets a test simulate a kill between any two writes.
    #[allow(clippy::unused_self, reason = "only tests do something here")]
    fn before_write(&self) {
        #[cfg(test)]
        {
            use std::sync::atomic::Ordering::Relaxed;
            let left = self.writes_left.load(Relaxed);
            assert!(left > 0, "killed");
            self.writes_left.store(left - 1, Relaxed);
        }
    }
}

/// Reads the installation and the generation of a catalog.
async fn marked(catalog: &dyn Catalog) -> anyhow::Result<(String, u64)> {
    let id = catalog.setting(INSTALLATION).await?;
    let id = id.context("the catalog has no installation id")?;
    let text = catalog.setting(GENERATION).await?;
    Ok((id, text.map_or(Ok(0), |text| text.parse())?))
}

/// Writes the id of an installation to the workspace root, atomically.
pub(crate) fn write_root_stamp(root: &Path, id: &str) -> io::Result<()> {
    write_file(root, ROOT_FILE, id)
}

/// Writes a file with one line into the workspace root, atomically.
fn write_file(root: &Path, name: &str, line: &str) -> io::Result<()> {
    fs::create_dir_all(root)?;
    let unfinished = root.join(format!("{name}.new"));
    let mut file = File::create(&unfinished)?;
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, root.join(name))?;
    File::open(root)?.sync_all()
}

/// Returns the time until which an adoption prevents garbage collection; `None`
/// if that time has passed.
pub(crate) async fn held_until(
    catalog: &dyn Catalog,
    now: Timestamp,
) -> elevo_catalog::Result<Option<Timestamp>> {
    let adopted = catalog.setting(ADOPTED).await?;
    let adopted = adopted.and_then(|text| clock::parse(&text));
    let until = adopted.map(|adopted| clock::after(adopted, HOLD));
    Ok(until.filter(|until| *until > now))
}

/// Returns the tenant whose directory has this name.
pub(crate) fn tenant_from(name: &str) -> Option<TenantId> {
    let mut bytes = [0; 16];
    if name.len() != 32 || !name.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&name[at * 2..at * 2 + 2], 16).ok()?;
    }
    Some(TenantId::new(bytes))
}

#[cfg(test)]
mod tests;
