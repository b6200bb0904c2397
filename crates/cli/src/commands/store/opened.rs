//! Stores that a command names: directories, and URLs of databases.

use std::io;
use std::path::Path;
use std::sync::Arc;

use elevo_core::TenantId;
use elevo_engine::{Inspect, StoreResult};
use elevo_server::{Compared, OpenStore, StorePlace, check_alone, open_store};
use elevo_store_local::LocalStore;
use tokio::runtime::{Builder, Runtime};

use crate::errors::{FileProblem, ServerProblem};
use crate::local::wait::wait;

/// A store that is open until this is dropped. The calls of one in a database must
/// be inside of a [`runtime`].
pub(super) struct Opened {
    pub(super) store: Arc<dyn Inspect>,
    /// The same store.
    whole: OpenStore,
}

impl Opened {
    pub(super) fn local(store: Arc<LocalStore>) -> Self {
        Self::of(OpenStore::Local(store))
    }

    /// Opens a store in a database that other processes may use.
    pub(super) fn shared(place: &StorePlace) -> anyhow::Result<Self> {
        Ok(Self::of(wait(open_store(place))?))
    }

    /// Opens a store in a database that no other process uses.
    pub(super) fn alone(place: &StorePlace) -> anyhow::Result<Self> {
        let opened = Self::shared(place)?;
        wait(check_alone(place, &opened.whole))?;
        Ok(opened)
    }

    fn of(whole: OpenStore) -> Self {
        Self {
            store: whole.inspect(),
            whole,
        }
    }

    /// The tenants with data in the store; the local tenant if the store is empty.
    pub(super) fn tenants(&self) -> anyhow::Result<Vec<TenantId>> {
        let mut tenants = wait(self.whole.tenants())?;
        if tenants.is_empty() {
            tenants.push(TenantId::LOCAL);
        }
        Ok(tenants)
    }

    /// Compares the files of the bucket with the database, if the store has them.
    pub(super) fn compare_files(&self) -> StoreResult<Option<Compared>> {
        wait(self.whole.compare_files())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        wait(self.whole.close());
    }
}

/// Creates the runtime for stores in databases.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

/// Returns the argument if it is the URL of a database.
pub(super) fn url(argument: &Path) -> Option<&str> {
    argument.to_str().filter(|text| text.contains("://"))
}

/// Returns the place with this URL. The settings of its bucket are in the
/// environment or in the file `config`.
pub(super) fn database(url: &str, config: Option<&Path>) -> anyhow::Result<StorePlace> {
    let file = match config {
        Some(path) => Some(
            std::fs::read_to_string(path).map_err(|source| FileProblem::Io {
                action: "read",
                path: path.into(),
                source,
            })?,
        ),
        None => None,
    };
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let read = StorePlace::of_database(url, file.as_deref(), environment);
    Ok(read.map_err(|invalid| ServerProblem::Settings(invalid.0))?)
}
