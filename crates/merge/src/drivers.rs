//! Which drivers there are.

use std::sync::Arc;

use crate::driver::Driver;
use crate::structured::{Crdt, Json, Toml, Yaml};
use crate::text::Text;

/// Drivers by name. The first that claims a file's name is the one for it.
#[derive(Clone, Debug, Default)]
pub struct Drivers(Vec<Arc<dyn Driver>>);

impl Drivers {
    /// All that are here. The one for text comes last, and claims every file.
    pub fn standard() -> Self {
        Self::default()
            .with(Crdt)
            .with(Json)
            .with(Toml)
            .with(Yaml)
            .with(Text)
    }

    /// Adds a driver after those that are there; replaces the one of its name.
    #[must_use]
    pub fn with(mut self, driver: impl Driver + 'static) -> Self {
        let driver: Arc<dyn Driver> = Arc::new(driver);
        match self
            .0
            .iter_mut()
            .find(|known| known.name() == driver.name())
        {
            Some(known) => *known = driver,
            None => self.0.push(driver),
        }
        self
    }

    /// The driver that a policy names.
    pub fn named(&self, name: &str) -> Option<&Arc<dyn Driver>> {
        self.0.iter().find(|driver| driver.name() == name)
    }

    /// The driver for a file that no policy speaks of.
    pub fn for_file(&self, file_name: &[u8]) -> Option<&Arc<dyn Driver>> {
        self.0.iter().find(|driver| driver.claims(file_name))
    }
}
