//! The registry of drivers.

use std::sync::Arc;

use crate::driver::Driver;
use crate::structured::{Crdt, Json, Toml, Yaml};
use crate::text::Text;

/// Drivers by name. A file is merged by the first driver that claims its name.
#[derive(Clone, Debug, Default)]
pub struct Drivers(Vec<Arc<dyn Driver>>);

impl Drivers {
    /// Returns all drivers of this crate. The text driver comes last, and
    /// claims every file.
    pub fn standard() -> Self {
        Self::default()
            .with(Crdt)
            .with(Json)
            .with(Toml)
            .with(Yaml)
            .with(Text)
    }

    /// Appends a driver, or replaces the driver of the same name.
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

    /// Returns the driver that a policy names.
    pub fn named(&self, name: &str) -> Option<&Arc<dyn Driver>> {
        self.0.iter().find(|driver| driver.name() == name)
    }

    /// Returns the driver for a file that no policy mentions.
    pub fn for_file(&self, file_name: &[u8]) -> Option<&Arc<dyn Driver>> {
        self.0.iter().find(|driver| driver.claims(file_name))
    }
}
