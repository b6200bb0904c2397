//! Checks that a catalog, a store and workspaces belong together.
//!
//! A server deletes workspaces and objects that its catalog does not refer to.
//! With the wrong catalog, the server would delete all of them. So the server
//! does not start unless the three parts of an installation agree:
//!
//! ```text
//! part              where                         says
//! catalog           its settings                  installation, generation
//! store             store/SERVER                  installation, generation
//! workspace root    WORKSPACE_ROOT/INSTALLATION   installation
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
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use elevo_catalog::{ADOPTING, Catalog, GENERATION, INSTALLATION};
use elevo_core::{TenantId, Timestamp};
use elevo_store_local::{LocalStore, Options, ServerStamp, server_stamp, set_server_stamp};
use tokio::sync::{Mutex, watch};

use crate::config::Config;
use crate::platform::catalog_place::CatalogPlace;
use crate::platform::installation::found::{Found, Verdict};
use crate::platform::{clock, descriptors};

pub use crate::platform::installation::refusal::Refusal;
pub use crate::platform::installation::roots::Missing;
pub(crate) use crate::platform::installation::roots::missing;

/// The setting of the catalog with the time of the last adoption.
const ADOPTED: &str = "adopted";
/// The file in the workspace root with the id of the installation.
const ROOT_FILE: &str = "INSTALLATION";
/// Time after an adoption in which no garbage is collected, so that a mistake
/// can be noticed.
const HOLD: Duration = Duration::from_secs(24 * 3600);

/// The paths of an installation.
#[derive(Debug)]
pub(crate) struct Installation {
    data: PathBuf,
    catalog: CatalogPlace,
    store: PathBuf,
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
            store: config.data_dir.join("store"),
            root: config.workspace_root.clone(),
            adopt: config.adopt,
            full_percent: config.full_percent,
            growing: Mutex::default(),
            refused: watch::Sender::default(),
            #[cfg(test)]
            writes_left: u32::MAX.into(),
        }
    }

    /// Fails if a newer version of Elevo wrote a part. Fails with a [`Refusal`]
    /// if the parts do not belong together, unless an adoption is requested or
    /// in progress. Does not change the parts.
    pub(crate) async fn check(&self) -> anyhow::Result<()> {
        format::check(self)?;
        let _still = self.block_writers().await?;
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

    /// Prevents other processes from writing to the store until the result is
    /// dropped.
    async fn block_writers(&self) -> anyhow::Result<elevo_store_local::WritersBlocked> {
        let store = self.store.clone();
        let wait = Options::default().wait;
        let keeping = move || elevo_store_local::block_writers(&store, wait);
        Ok(tokio::task::spawn_blocking(keeping).await??)
    }

    /// Opens the store, and creates it if there is none.
    pub(crate) async fn open_store(&self) -> anyhow::Result<Arc<LocalStore>> {
        let path = self.store.clone();
        let options = Options {
            holder: format!("the server (process {})", std::process::id()),
            full_percent: self.full_percent,
            open_files: descriptors::for_store(
                descriptors::raise()?,
                Options::default().open_files,
            ),
            ..Options::default()
        };
        let opening = tokio::task::spawn_blocking(move || -> anyhow::Result<LocalStore> {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&path)?;
            let store = match elevo_store_local::is_store(&path)? {
                true => LocalStore::open(&path, &options),
                false => LocalStore::create(&path, &options),
            };
            store.with_context(|| format!("cannot open the store {}", path.display()))
        });
        Ok(Arc::new(opening.await??))
    }

    /// Records in all parts that they belong together, and increments the
    /// generation. Returns whether the parts were adopted.
    pub(crate) async fn stamp(&self, catalog: &dyn Catalog) -> anyhow::Result<bool> {
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
        match self.grow_beyond(catalog, known).await {
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
        self.present(catalog).await.map(drop)
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

    /// Reads the catalog's installation and generation, and the store's stamp.
    /// Fails with a [`Refusal`] if they do not belong together.
    async fn present(
        &self,
        catalog: &dyn Catalog,
    ) -> anyhow::Result<(String, u64, Option<ServerStamp>)> {
        // Read first: a catalog that is read later has at least its generation.
        let stamp = server_stamp(&self.store)?;
        let (id, now) = marked(catalog).await?;
        let refusal = stamp
            .as_ref()
            .and_then(|stamp| self.compare(&id, now, stamp));
        if let Some(refusal) = refusal {
            self.refused.send_replace(Some(refusal.clone()));
            return Err(refusal.into());
        }
        Ok((id, now, stamp))
    }

    /// Compares a catalog with the stamp of the store.
    fn compare(&self, id: &str, generation: u64, stamp: &ServerStamp) -> Option<Refusal> {
        if stamp.installation != id {
            return Some(Refusal::Foreign {
                catalog: self.catalog.clone(),
                own: id.to_owned(),
                part: self.store.clone(),
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
        self.grow_beyond(catalog, None).await
    }

    /// Increments the generation. If the parts are adopted, increments it to a
    /// number above `adopted`, the generation that the store records.
    async fn grow_beyond(&self, catalog: &dyn Catalog, adopted: Option<u64>) -> anyhow::Result<()> {
        let _growing = self.growing.lock().await;
        let (id, now, stamp) = match adopted {
            None => self.present(catalog).await?,
            Some(_) => {
                let (id, now) = marked(catalog).await?;
                (id, now, None)
            }
        };
        // A kill after the increment in the catalog may have left the store one
        // generation behind.
        if stamp.is_some_and(|stamp| stamp.generation < now) {
            self.stamp_store(&id, now)?;
        }
        let next = now.max(adopted.unwrap_or(0)) + 1;
        self.set(catalog, GENERATION, &next.to_string()).await?;
        self.stamp_store(&id, next)
    }

    async fn set(&self, catalog: &dyn Catalog, name: &str, value: &str) -> anyhow::Result<()> {
        self.before_write();
        let set = catalog.set_setting(name, value).await;
        set.context("cannot mark the catalog")
    }

    fn stamp_store(&self, id: &str, generation: u64) -> anyhow::Result<()> {
        self.before_write();
        let stamp = ServerStamp {
            installation: id.to_owned(),
            generation,
        };
        set_server_stamp(&self.store, &stamp).context("cannot mark the store")
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
    fs::create_dir_all(root)?;
    let unfinished = root.join(format!("{ROOT_FILE}.new"));
    let mut file = File::create(&unfinished)?;
    file.write_all(format!("{id}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, root.join(ROOT_FILE))?;
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
