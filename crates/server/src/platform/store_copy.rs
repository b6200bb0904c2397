//! Copies the store of a stopped server to another place, and opens stores for other
//! commands on a whole store.

use elevo_core::TenantId;
use elevo_engine::{Copied, CopyOptions, Progress, ServerStamp, check_copy, copy_tenant};
use elevo_store_local::OpenError;

use crate::platform::store_place::{FoundStore, OpenStore, Stamps, StorePlace};

/// The reason why a store was not opened or not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreCopyError {
    /// There is no store.
    #[error("there is no store {0}")]
    NoStore(StorePlace),
    /// Another process uses one of the stores.
    #[error("another process uses the store {0}")]
    InUse(StorePlace),
    /// The other store belongs to another server.
    #[error("the store {place} belongs to another installation, `{installation}`")]
    Foreign {
        /// The other store.
        place: StorePlace,
        /// Its installation.
        installation: String,
    },
    /// The other store has been used since the last copy.
    #[error("the store {0} is newer than the one to copy")]
    Newer(StorePlace),
    /// A store cannot be opened or marked.
    #[error("cannot use the store {0}")]
    Open(
        StorePlace,
        #[source] Box<dyn std::error::Error + Send + Sync>,
    ),
    /// A store failed during the copy.
    #[error("the copy was interrupted")]
    Failed(#[from] elevo_engine::Error),
}

/// The result of the copy of one tenant.
#[derive(Clone, Debug)]
pub struct CopiedTenant {
    /// The tenant.
    pub tenant: TenantId,
    /// The result of the copy.
    pub copied: Copied,
    /// The result of reading the copy back; `None` if that was not requested.
    pub checked: Option<Copied>,
}

impl CopiedTenant {
    /// Whether the other store has everything of this tenant.
    pub fn is_whole(&self) -> bool {
        self.copied.is_whole() && self.checked.as_ref().is_none_or(Copied::is_whole)
    }
}

/// Copies all tenants of a store to another place. No other process may use either
/// store. A repeated call continues an interrupted one. With `verify`, everything
/// is read back and hashed.
///
/// When everything is there, the other store gets the mark of the server that uses
/// this one, so a server accepts it in place of this one.
pub async fn copy_store(
    from: &StorePlace,
    to: &StorePlace,
    verify: bool,
    progress: &Progress,
) -> Result<Vec<CopiedTenant>, StoreCopyError> {
    let found = find(from).await?;
    let theirs = to.find(true, false).await.map_err(open_error(to))?;
    check_stamps(to, found.stamp.as_ref(), theirs.stamp)?;
    let source = open_alone(from).await?;
    let copied = match open_alone(to).await {
        Ok(target) => {
            let copied = copy_all(&source, &target, verify, progress).await;
            let copied = match copied {
                Ok(copied) if copied.iter().all(CopiedTenant::is_whole) => {
                    let marked = mark(to, &target, found.stamp.as_ref()).await;
                    marked.map(|()| copied)
                }
                other => other,
            };
            target.close().await;
            copied
        }
        Err(error) => Err(error),
    };
    source.close().await;
    copied
}

/// Opens a store for a command on all of it. Other processes may use a store in a
/// database.
pub async fn open_store(place: &StorePlace) -> Result<OpenStore, StoreCopyError> {
    find(place).await?;
    open(place).await
}

/// Fails if another process uses an open store.
pub async fn check_alone(place: &StorePlace, store: &OpenStore) -> Result<(), StoreCopyError> {
    let Some(store) = store.cluster() else {
        return Ok(());
    };
    match store.others().await {
        Ok(0) => Ok(()),
        Ok(_) => Err(StoreCopyError::InUse(place.clone())),
        Err(error) => Err(open_error(place)(error.into())),
    }
}

/// Looks at a store that must exist.
async fn find(place: &StorePlace) -> Result<FoundStore, StoreCopyError> {
    let found = place.find(true, false).await.map_err(open_error(place))?;
    match found.is_there {
        true => Ok(found),
        false => Err(StoreCopyError::NoStore(place.clone())),
    }
}

fn check_stamps(
    to: &StorePlace,
    ours: Option<&ServerStamp>,
    theirs: Option<ServerStamp>,
) -> Result<(), StoreCopyError> {
    match theirs {
        Some(theirs) if ours.is_none_or(|ours| ours.installation != theirs.installation) => {
            Err(StoreCopyError::Foreign {
                place: to.clone(),
                installation: theirs.installation,
            })
        }
        Some(theirs) if ours.is_some_and(|ours| theirs.generation > ours.generation) => {
            Err(StoreCopyError::Newer(to.clone()))
        }
        _ => Ok(()),
    }
}

/// Opens a store that no other process uses, and creates it if there is none.
async fn open_alone(place: &StorePlace) -> Result<OpenStore, StoreCopyError> {
    let opened = open(place).await?;
    match check_alone(place, &opened).await {
        Ok(()) => Ok(opened),
        Err(error) => {
            opened.close().await;
            Err(error)
        }
    }
}

async fn open(place: &StorePlace) -> Result<OpenStore, StoreCopyError> {
    let opened = place.open_for_command().await;
    opened.map_err(|error| match error.downcast_ref::<OpenError>() {
        Some(OpenError::Busy { .. }) => StoreCopyError::InUse(place.clone()),
        _ => open_error(place)(error),
    })
}

fn open_error(place: &StorePlace) -> impl FnOnce(anyhow::Error) -> StoreCopyError {
    let place = place.clone();
    move |error| StoreCopyError::Open(place, error.into())
}

async fn copy_all(
    source: &OpenStore,
    target: &OpenStore,
    verify: bool,
    progress: &Progress,
) -> Result<Vec<CopiedTenant>, StoreCopyError> {
    let (from, to, options) = (source.store(), target.store(), CopyOptions::default());
    let mut all = Vec::new();
    let tenants = source.tenants().await;
    for tenant in tenants.map_err(elevo_engine::Error::from)? {
        let copied = copy_tenant(&*from, &*to, tenant, &options, progress).await?;
        let checked = match verify {
            true => Some(check_copy(&*from, &*to, tenant, &options, progress).await?),
            false => None,
        };
        all.push(CopiedTenant {
            tenant,
            copied,
            checked,
        });
    }
    Ok(all)
}

async fn mark(
    place: &StorePlace,
    target: &OpenStore,
    stamp: Option<&ServerStamp>,
) -> Result<(), StoreCopyError> {
    let Some(stamp) = stamp else {
        return Ok(());
    };
    let stamps = match (place, target.cluster()) {
        (_, Some(store)) => Stamps::Row(store),
        (StorePlace::Directory(path), None) => Stamps::File(path.clone()),
        // A database is opened as a cluster.
        (StorePlace::Cluster(_), None) => return Ok(()),
    };
    let marked = async { stamps.lock().await?.set(stamp).await };
    marked.await.map_err(open_error(place))
}
