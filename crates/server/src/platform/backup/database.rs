//! The catalog of a backup that does not contain it: a recovered database.

use std::path::Path;
use std::sync::Arc;

use elevo_catalog::Catalog;

use crate::config::CatalogDatabase;
use crate::platform::backup::manifest::Manifest;
use crate::platform::backup::restore_error::RestoreError;
use crate::platform::catalog_place::CatalogPlace;
use crate::platform::{clock, vault};

/// A recovered database, as it is found before anything is restored.
#[derive(Debug)]
pub(super) struct RecoveredDatabase {
    database: CatalogPlace,
    pub(super) catalog: Arc<dyn Catalog>,
    pub(super) generation: u64,
}

impl RecoveredDatabase {
    /// Opens the catalog of a backup. Fails unless the database has the catalog
    /// of the same installation, recovered at least up to the backup, and no
    /// server uses it.
    pub(super) async fn find(
        backup: &Path,
        manifest: &Manifest,
        position: &str,
        database: &Option<CatalogDatabase>,
    ) -> Result<Self, RestoreError> {
        let path = backup.to_owned();
        let Some(database) = database else {
            let position = position.to_owned();
            return Err(RestoreError::NeedsDatabase { path, position });
        };
        let database = CatalogPlace::Database(database.clone());
        let found = match database.find().await {
            Err(elevo_catalog::Error::Newer { found, known }) => {
                return Err(RestoreError::Newer {
                    path,
                    part: "the database of the backup",
                    found,
                    known,
                });
            }
            found => found?.unwrap_or_default(),
        };
        if found.installation.as_ref() != Some(&manifest.installation) {
            return Err(RestoreError::ForeignDatabase { path, database });
        }
        let recovered = found.log_position.as_deref().and_then(position_in_log);
        let is_short = recovered < position_in_log(position);
        if is_short || found.generation < manifest.generation {
            let position = position.to_owned();
            return Err(RestoreError::OlderDatabase {
                path,
                database,
                position,
            });
        }
        let opened = database.open().await;
        let catalog = opened.map_err(|error| RestoreError::Database(error.into()))?;
        if catalog.is_in_use(clock::now()).await? {
            return Err(RestoreError::DatabaseInUse { database });
        }
        Ok(Self {
            database,
            catalog,
            generation: found.generation,
        })
    }

    /// Gives the catalog the id of the new installation, unless a server has
    /// begun to use it. Returns the id of the key of the catalog's secrets.
    pub(super) async fn adopt(self, id: &str) -> Result<Option<String>, RestoreError> {
        let secrets_key = self.catalog.setting(vault::SECRETS_KEY).await?;
        let is_given = self.catalog.give_to(id, clock::now()).await?;
        self.catalog.close().await;
        if !is_given {
            let database = self.database;
            return Err(RestoreError::DatabaseInUse { database });
        }
        Ok(secrets_key)
    }
}

/// Reads a position in the log of PostgreSQL, such as `16/B374D848`.
fn position_in_log(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some(number(high)? << 32 | number(low)?)
}

#[cfg(test)]
mod tests {
    use super::position_in_log;

    #[test]
    fn positions_in_a_log_are_ordered_as_numbers() {
        assert_eq!(position_in_log("16/B374D848"), Some(0x16_B374_D848));
        assert!(position_in_log("9/FF") < position_in_log("10/0"));
        assert_eq!(position_in_log("none"), None);
    }
}
