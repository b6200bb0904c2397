//! Copies the store of a stopped server to another place.

use elevo_core::TenantId;
use elevo_engine::{
    Copied, CopyOptions, Progress, ServerStamp, StoreError, check_copy, copy_tenant,
};
use elevo_store_local::OpenError;

use crate::platform::store_place::{OpenStore, Stamps, StorePlace};

/// The reason why a store was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreCopyError {
    /// There is no store to copy.
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
    let found = from.find(true, false).await.map_err(open_error(from))?;
    if !found.is_there {
        return Err(StoreCopyError::NoStore(from.clone()));
    }
    let theirs = to.find(true, false).await.map_err(open_error(to))?;
    check_stamps(to, found.stamp.as_ref(), theirs.stamp)?;
    let source = open(from).await?;
    let copied = match open(to).await {
        Ok(target) => {
            let copied = copy_all(&source, &target, verify, progress).await;
            let copied = match copied {
                Ok(copied) if copied.iter().all(CopiedTenant::is_whole) => {
                    let marked = mark(to, &target, found.stamp.as_ref()).await;
                    marked.map(|()| copied)
                }
                other => other,
            };
            close(target).await;
            copied
        }
        Err(error) => Err(error),
    };
    close(source).await;
    copied
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
        _ => Ok(()),
    }
}

/// Opens a store that no other process uses.
async fn open(place: &StorePlace) -> Result<OpenStore, StoreCopyError> {
    let opened = place.open(100, false).await;
    let opened = opened.map_err(|error| match error.downcast_ref::<OpenError>() {
        Some(OpenError::Busy { .. }) => StoreCopyError::InUse(place.clone()),
        _ => open_error(place)(error),
    })?;
    if let Some(store) = opened.cluster() {
        match store.others().await {
            Ok(0) => {}
            Ok(_) => {
                close(opened).await;
                return Err(StoreCopyError::InUse(place.clone()));
            }
            Err(error) => return Err(StoreCopyError::Failed(error.into())),
        }
    }
    Ok(opened)
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
    for tenant in tenants(source).await? {
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

async fn tenants(store: &OpenStore) -> Result<Vec<TenantId>, StoreCopyError> {
    let listed = match store {
        OpenStore::Local(store) => store.tenants(),
        OpenStore::Cluster(store) => store.tenants().await,
    };
    listed.map_err(|error: StoreError| StoreCopyError::Failed(error.into()))
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

async fn close(store: OpenStore) {
    if let Some(store) = store.cluster() {
        // It counts as lost otherwise, a moment later.
        let _ = store.close().await;
    }
}
