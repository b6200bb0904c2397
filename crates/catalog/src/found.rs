//! A catalog as a start finds it, before it changes anything.

use crate::error::{Error, Result};

/// The setting with the id of the installation.
pub const INSTALLATION: &str = "installation";
/// The setting with the generation of the catalog, a number that only grows.
pub const GENERATION: &str = "generation";

/// The setting that is `yes` while a server starts with a catalog, a store and
/// workspaces that do not belong together, and adopts them.
pub const ADOPTING: &str = "adopting";

/// A catalog as it is found before a server opens it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundCatalog {
    /// The id of the installation it belongs to.
    pub installation: Option<String>,
    /// Its generation; 0 if it never had one.
    pub generation: u64,
    /// Whether the setting [`ADOPTING`] is `yes`, because such a start was
    /// interrupted.
    pub is_adopting: bool,
    /// Whether it has a tenant.
    pub has_tenants: bool,
    /// Whether it has a sandbox or a workspace.
    pub has_workspaces: bool,
    /// A position in the log of its database, after everything that the other
    /// fields show; `None` if the catalog is a file.
    pub log_position: Option<String>,
}

impl FoundCatalog {
    /// Returns whether no server has ever used it.
    pub fn is_unused(&self) -> bool {
        let unused = Self {
            log_position: self.log_position.clone(),
            ..Self::default()
        };
        *self == unused
    }
}

/// Reads the value of the setting [`GENERATION`].
pub(crate) fn generation(setting: Option<String>) -> Result<u64> {
    let Some(text) = setting else { return Ok(0) };
    let damaged = |_| Error::Damaged(format!("its generation `{text}` is not a number"));
    text.parse().map_err(damaged)
}
