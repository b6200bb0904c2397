//! Copies the catalog of a stopped server to another place.

use std::time::Duration;

use elevo_catalog::{
    AnyCatalog, Catalog, Error as CatalogError, PostgresCatalog, PostgresOptions, SqliteCatalog,
    SqliteOptions, Transferred, transfer,
};
use elevo_store_local::{OpenError, WritersBlocked};

use crate::platform::catalog_place::{CatalogPlace, options};
use crate::platform::clock;

/// Maximum time for one statement: the database may sort a large table.
const LONG: Duration = Duration::from_secs(3600);

/// The reason why a catalog was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// There is no catalog to copy.
    #[error("there is no catalog {0}")]
    NoCatalog(CatalogPlace),
    /// A server uses one of the catalogs.
    #[error("a server uses the catalog {0}")]
    InUse(CatalogPlace),
    /// The other catalog cannot take the copy.
    #[error("cannot copy to {place}: {why}")]
    Refused {
        /// The other catalog.
        place: CatalogPlace,
        /// The cause.
        why: String,
    },
    /// A database failed.
    #[error("cannot use the catalog {place}")]
    Failed {
        /// The catalog.
        place: Box<CatalogPlace>,
        /// The cause.
        #[source]
        source: CatalogError,
    },
}

/// An open catalog of either kind.
enum Opened {
    Sqlite(SqliteCatalog),
    Postgres(PostgresCatalog),
}

impl Opened {
    async fn open(place: &CatalogPlace) -> Result<Self, CopyError> {
        let opened = match place {
            CatalogPlace::File(path) => {
                let catalog = SqliteCatalog::open(path, &SqliteOptions::default()).await;
                catalog.map(Self::Sqlite)
            }
            CatalogPlace::Database(database) => {
                let options = PostgresOptions {
                    statement: LONG,
                    ..options(database)
                };
                let catalog = PostgresCatalog::open(&database.url.0, &options).await;
                catalog.map(Self::Postgres)
            }
        };
        opened.map_err(failed(place))
    }

    fn any(&self) -> AnyCatalog<'_> {
        match self {
            Self::Sqlite(catalog) => catalog.into(),
            Self::Postgres(catalog) => catalog.into(),
        }
    }

    fn catalog(&self) -> &dyn Catalog {
        match self {
            Self::Sqlite(catalog) => &**catalog,
            Self::Postgres(catalog) => &**catalog,
        }
    }
}

fn failed(place: &CatalogPlace) -> impl FnOnce(CatalogError) -> CopyError {
    let place = Box::new(place.clone());
    move |source| CopyError::Failed { place, source }
}

/// Copies all records of a catalog to an empty place, and compares every row.
/// No server may run with either catalog. Calls `progress` with the name of a
/// table and the number of its rows that were copied. Returns the tables and
/// their numbers of rows.
pub async fn copy_catalog(
    from: &CatalogPlace,
    to: &CatalogPlace,
    progress: &mut (dyn FnMut(&str, u64) + Send),
) -> Result<Vec<(String, u64)>, CopyError> {
    if from.find().await.map_err(failed(from))?.is_none() {
        return Err(CopyError::NoCatalog(from.clone()));
    }
    let _held = (block_writers(from).await?, block_writers(to).await?);
    let source = Opened::open(from).await?;
    check_unused(from, &source).await?;
    let destination = Opened::open(to).await?;
    let mut progress = |copied: &Transferred| progress(&copied.table, copied.rows);
    let copied = transfer(source.any(), destination.any(), &mut progress).await;
    source.catalog().close().await;
    destination.catalog().close().await;
    match copied {
        Ok(tables) => Ok(tables.into_iter().map(|it| (it.table, it.rows)).collect()),
        Err(CatalogError::Refused(why)) => Err(CopyError::Refused {
            place: to.clone(),
            why,
        }),
        Err(error) => Err(failed(to)(error)),
    }
}

/// Keeps servers from using a catalog in a file until the result is dropped: each
/// holds the store beside it. Fails if one runs.
async fn block_writers(place: &CatalogPlace) -> Result<Option<WritersBlocked>, CopyError> {
    let CatalogPlace::File(path) = place else {
        return Ok(None);
    };
    let store = path.with_file_name("store");
    let blocking = move || elevo_store_local::block_writers(&store, Duration::ZERO);
    match tokio::task::spawn_blocking(blocking).await {
        Ok(Ok(blocked)) => Ok(Some(blocked)),
        Ok(Err(OpenError::Busy { .. })) => Err(CopyError::InUse(place.clone())),
        Ok(Err(error)) => Err(failed(place)(CatalogError::Failed(Box::new(error)))),
        Err(error) => Err(failed(place)(CatalogError::Failed(Box::new(error)))),
    }
}

/// Fails if a server renews its session in a catalog in a database.
async fn check_unused(place: &CatalogPlace, opened: &Opened) -> Result<(), CopyError> {
    if matches!(place, CatalogPlace::File(_)) {
        return Ok(());
    }
    let in_use = opened.catalog().is_in_use(clock::now()).await;
    match in_use.map_err(failed(place))? {
        true => Err(CopyError::InUse(place.clone())),
        false => Ok(()),
    }
}
