use std::path::PathBuf;

use crate::platform::catalog_place::CatalogPlace;
use crate::platform::installation::roots::Missing;
use crate::platform::store_place::{StorePlace, WrongBucket};

/// The reason why a server does not start with its data. The start has changed
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The catalog is missing or empty, but there is data that needs a catalog.
    #[error("there is no catalog {catalog}, but there is data in {beside}")]
    NoCatalog {
        /// Where the catalog should be.
        catalog: CatalogPlace,
        /// The data.
        beside: String,
    },
    /// The catalog is an earlier copy.
    #[error(
        "the catalog {} is an older copy: its generation is {found}, and the store was last used \
         with generation {known}",
        catalog
    )]
    OlderCatalog {
        /// The catalog.
        catalog: CatalogPlace,
        /// The generation of the catalog.
        found: u64,
        /// The generation that the store records.
        known: u64,
    },
    /// The store is an earlier copy.
    #[error(
        "the store {store} is an older copy: it was last used with generation {found} of the \
         catalog, which has generation {known}"
    )]
    OlderStore {
        /// The store.
        store: StorePlace,
        /// The generation that the store records.
        found: u64,
        /// The generation of the catalog.
        known: u64,
    },
    /// The catalog and another part belong to different installations.
    #[error(
        "the catalog {catalog} is of installation `{own}`, but {part} is of installation `{other}`"
    )]
    Foreign {
        /// The catalog.
        catalog: CatalogPlace,
        /// The installation of the catalog.
        own: String,
        /// The store or the workspace root.
        part: String,
        /// The installation of the other part.
        other: String,
    },
    /// There is a catalog, but its store is missing.
    #[error("there is no store {store}, but there is a catalog {catalog}")]
    NoStore {
        /// Where the store should be.
        store: StorePlace,
        /// The catalog.
        catalog: CatalogPlace,
    },
    /// The store lacks snapshots that the catalog refers to.
    #[error("the store {store} lacks {missing} that the catalog {catalog} names")]
    MissingRoots {
        /// The store.
        store: StorePlace,
        /// The catalog.
        catalog: CatalogPlace,
        /// The missing snapshots.
        missing: Missing,
    },
    /// The database of the store and its bucket do not belong together.
    #[error("the store {store} cannot be used: {cause}")]
    Bucket {
        /// The store.
        store: StorePlace,
        /// The difference.
        cause: String,
    },
    /// The workspace root has workspaces, but not the id of an installation.
    #[error("the workspaces in {} do not have the id of an installation", root.display())]
    UnknownWorkspaces {
        /// The workspace root.
        root: PathBuf,
    },
    /// The catalog has workspaces, but the workspace root has none.
    #[error("the catalog has workspaces, but there are none in {}", root.display())]
    NoWorkspaces {
        /// The workspace root.
        root: PathBuf,
    },
    /// A newer version of Elevo wrote the catalog.
    #[error(
        "the catalog {} has format {found}, and this version of Elevo reads up to {known}",
        catalog
    )]
    NewerCatalog {
        /// The catalog.
        catalog: CatalogPlace,
        /// Format of the catalog.
        found: i64,
        /// The newest format that this version reads.
        known: i64,
    },
    /// A newer version of Elevo wrote the data directory.
    #[error(
        "the data directory {} has format {found}, and this version of Elevo reads up to {known}",
        data.display()
    )]
    NewerDirectory {
        /// The data directory.
        data: PathBuf,
        /// Format of the directory.
        found: u32,
        /// The newest format that this version reads.
        known: u32,
    },
}

const ADOPT: &str = "To continue with the existing data, start once with --adopt: workspaces that the \
                     catalog does not know go to the quarantine (QUARANTINE_KEEP), and no garbage is \
                     collected for a day.";

const NEWER: &str = "Install the version that wrote it or a newer one, or restore a backup from before \
                     the upgrade into another directory";

impl Refusal {
    /// Returns the refusal that an error of a store stands for, if it does.
    pub(super) fn of_store(error: anyhow::Error) -> anyhow::Error {
        match error.downcast::<WrongBucket>() {
            Ok(WrongBucket { store, cause }) => Self::Bucket { store, cause }.into(),
            Err(error) => error,
        }
    }

    /// Returns a name for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoCatalog { .. } => "catalog_missing",
            Self::OlderCatalog { .. } => "catalog_older",
            Self::OlderStore { .. } => "store_older",
            Self::Foreign { .. } => "installation_foreign",
            Self::NoStore { .. } => "store_missing",
            Self::MissingRoots { .. } => "snapshots_missing",
            Self::Bucket { .. } => "bucket_foreign",
            Self::UnknownWorkspaces { .. } => "workspaces_unknown",
            Self::NoWorkspaces { .. } => "workspaces_missing",
            Self::NewerCatalog { .. } | Self::NewerDirectory { .. } => "newer_format",
        }
    }

    /// Returns advice for the operator.
    pub fn advice(&self) -> String {
        let first = match self {
            Self::NoCatalog { catalog, .. } => {
                format!("Check {}. {}", settings_of(catalog), restoring(catalog))
            }
            Self::OlderCatalog { catalog, .. } => restoring(catalog),
            Self::NoStore {
                store: StorePlace::Cluster(_),
                ..
            } => "Check STORE_URL and S3_BUCKET. To move the store of this server there, use \
                 `elevo store copy`."
                .into(),
            Self::OlderStore {
                store: StorePlace::Cluster(_),
                ..
            }
            | Self::MissingRoots {
                store: StorePlace::Cluster(_),
                ..
            } => "Check STORE_URL. Recover its database up to its newest state (point-in-time \
                  recovery)."
                .into(),
            Self::Bucket { .. } => {
                "Check STORE_URL, S3_BUCKET and S3_PREFIX: each store needs its own database and \
                 its own prefix. After a recovery of the database to an earlier moment, first stop \
                 every server that uses the original database."
                    .into()
            }
            Self::NoStore { .. } | Self::OlderStore { .. } | Self::MissingRoots { .. } => {
                "Check that the disk is mounted. Restore the newest copy of the store, or restore \
                 a backup of the server into another directory."
                    .into()
            }
            Self::Foreign { .. } => {
                "Check DATA_DIR, WORKSPACE_ROOT, CATALOG_URL and STORE_URL: each installation needs \
                 separate ones."
                    .into()
            }
            Self::UnknownWorkspaces { .. } => {
                "Check WORKSPACE_ROOT: it may belong to another server.".into()
            }
            Self::NoWorkspaces { .. } => {
                "Check WORKSPACE_ROOT, and that its disk is mounted.".into()
            }
            // `--adopt` does not help against a newer format.
            Self::NewerDirectory { .. } => return format!("{NEWER}."),
            Self::NewerCatalog {
                catalog: CatalogPlace::Database(_),
                ..
            } => return format!("{NEWER}."),
            Self::NewerCatalog { catalog, known, .. } => {
                return format!(
                    "{NEWER}. The copy {catalog}.version-{known}, if it exists, is the catalog \
                     before the upgrade: delete {catalog}-wal and {catalog}-shm, move the copy to \
                     {catalog} and start once with --adopt; later changes are lost."
                );
            }
        };
        format!("{first} {ADOPT}")
    }
}

/// Returns the settings that choose the parts beside a catalog, and the catalog.
fn settings_of(catalog: &CatalogPlace) -> &'static str {
    match catalog {
        CatalogPlace::File(_) => "DATA_DIR and WORKSPACE_ROOT",
        CatalogPlace::Database(_) => "CATALOG_URL, DATA_DIR and WORKSPACE_ROOT",
    }
}

/// Returns advice on how to get the newest catalog back.
fn restoring(catalog: &CatalogPlace) -> String {
    let first = match catalog {
        CatalogPlace::File(_) => format!("Restore the newest copy of the catalog as {catalog}"),
        CatalogPlace::Database(_) => {
            "Recover the database up to its newest state (point-in-time recovery)".to_owned()
        }
    };
    format!("{first}, or restore a backup of the server into another directory.")
}
