//! Finds the parts of an installation, and decides whether they belong
//! together.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context;
use elevo_catalog::FoundCatalog;

use crate::platform::installation::{Installation, ROOT_FILE, Refusal, tenant_from};
use crate::platform::store_place::FoundStore;

/// The parts of an installation that a start has found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// `None` if the file is missing, or no server has used it.
    pub(crate) catalog: Option<FoundCatalog>,
    pub(crate) store: FoundStore,
    pub(crate) root: FoundRoot,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FoundRoot {
    pub(crate) installation: Option<String>,
    /// Whether the root has a directory of a tenant.
    pub(crate) has_tenants: bool,
    /// Whether the root has or had workspaces.
    pub(crate) has_workspaces: bool,
}

/// The result of the comparison of the parts.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// No part has data, so the start creates all of them.
    Fresh,
    /// The parts belong together.
    Known,
    /// The store does not record its installation. The parts belong together if
    /// every root of the catalog is in the store.
    Unstamped,
    /// The parts do not belong together, or this cannot be verified.
    Refused(Refusal),
}

impl Found {
    /// Finds all parts, without changing anything.
    pub(crate) async fn look(places: &Installation) -> anyhow::Result<Self> {
        let place = &places.catalog;
        let catalog = match place.find().await {
            Err(elevo_catalog::Error::Newer { found, known }) => {
                let catalog = place.clone();
                return Err(Refusal::NewerCatalog {
                    catalog,
                    found,
                    known,
                }
                .into());
            }
            catalog => catalog,
        };
        let catalog = catalog.with_context(|| format!("cannot read the catalog {place}"))?;
        let catalog = catalog.filter(|catalog| !catalog.is_unused());
        let is_lone = !catalog.as_ref().is_some_and(|it| it.has_tenants);
        let store = places.store.find(is_lone, places.adopt).await;
        let store = store.map_err(Refusal::of_store)?;
        let root = places.root.clone();
        let looking = tokio::task::spawn_blocking(move || {
            let looked = FoundRoot::look(&root);
            looked.with_context(|| format!("cannot read {}", root.display()))
        });
        let root = looking.await??;
        Ok(Self {
            catalog,
            store,
            root,
        })
    }

    /// Decides whether and how a start continues.
    pub(crate) fn verdict(&self, places: &Installation) -> Verdict {
        let is_stamped = self.store.stamp.is_some();
        let refused = match &self.catalog {
            Some(catalog) if catalog.has_tenants || is_stamped => self.beside(catalog, places),
            _ => self.without_tenants(places),
        };
        match refused {
            Some(refusal) => Verdict::Refused(refusal),
            None if is_stamped => Verdict::Known,
            None if self.catalog.as_ref().is_some_and(|it| it.has_tenants) => Verdict::Unstamped,
            None => Verdict::Fresh,
        }
    }

    /// Checks the parts beside a catalog without tenants. Such a catalog is
    /// missing or from an interrupted first start. So the store must be empty,
    /// and the root may have only the id that this start wrote.
    fn without_tenants(&self, places: &Installation) -> Option<Refusal> {
        let catalog = places.catalog.clone();
        let no_catalog = |beside: String| Some(Refusal::NoCatalog { catalog, beside });
        if self.store.stamp.is_some() || self.store.has_data {
            return no_catalog(places.store.to_string());
        }
        let is_others = self.root.installation.is_some()
            && self.root.installation.as_ref() != self.catalog_installation();
        match is_others || self.root.has_workspaces {
            true => no_catalog(places.root.display().to_string()),
            false => None,
        }
    }

    fn beside(&self, catalog: &FoundCatalog, places: &Installation) -> Option<Refusal> {
        let own = catalog.installation.clone().unwrap_or_default();
        if !self.store.is_there {
            let (store, catalog) = (places.store.clone(), places.catalog.clone());
            return Some(Refusal::NoStore { store, catalog });
        }
        if let Some(stamp) = &self.store.stamp
            && let Some(refusal) = places.compare(&own, catalog.generation, stamp)
        {
            return Some(refusal);
        }
        if let Some(other) = &self.root.installation {
            return (*other != own).then(|| Refusal::Foreign {
                catalog: places.catalog.clone(),
                own,
                part: places.root.display().to_string(),
                other: other.clone(),
            });
        }
        let root = places.root.clone();
        if self.store.stamp.is_some() && self.root.has_workspaces {
            return Some(Refusal::UnknownWorkspaces { root });
        }
        // Of several servers, each has its own workspaces.
        let is_missing = catalog.has_workspaces && !self.root.has_tenants && places.is_alone();
        is_missing.then_some(Refusal::NoWorkspaces { root })
    }

    /// Returns the id of the installation, from the first part that has one.
    pub(crate) fn installation(&self) -> Option<String> {
        let of_store = self.store.stamp.as_ref().map(|stamp| &stamp.installation);
        let known = self.catalog_installation().or(of_store);
        known.or(self.root_installation()).cloned()
    }

    pub(crate) fn catalog_installation(&self) -> Option<&String> {
        self.catalog.as_ref()?.installation.as_ref()
    }

    pub(crate) fn root_installation(&self) -> Option<&String> {
        self.root.installation.as_ref()
    }

    pub(crate) fn is_adopting(&self) -> bool {
        self.catalog.as_ref().is_some_and(|it| it.is_adopting)
    }
}

impl FoundRoot {
    fn look(path: &Path) -> io::Result<Self> {
        let installation = match fs::read_to_string(path.join(ROOT_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read?.trim().to_owned()),
        };
        let mut found = Self {
            installation,
            ..Self::default()
        };
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_str().and_then(tenant_from).is_some() {
                found.has_tenants = true;
                found.has_workspaces |= has_workspaces(&entry.path())?;
            }
        }
        Ok(found)
    }
}

/// Returns whether the directory of a tenant has workspaces, or records of
/// workspaces.
fn has_workspaces(tenant: &Path) -> io::Result<bool> {
    match fs::metadata(tenant.join("registry/log")) {
        Ok(log) if log.len() > 0 => return Ok(true),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match fs::read_dir(tenant.join("live")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        entries => Ok(entries?.next().is_some()),
    }
}
