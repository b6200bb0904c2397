//! What nobody needs any more is removed from the store: on a schedule, when
//! the disk fills, and when asked.

use std::time::Duration;

use elevo_catalog::RootPlace;
use elevo_core::{TenantId, Timestamp};
use elevo_engine::{
    Depth, Error as EngineError, GcOptions, GcProgress, GcReport, Root, StoreError, collect_garbage,
};
use elevo_objects::SnapshotId;
use tokio::runtime::Handle;

use crate::app::{App, parts};
use crate::clock;
use crate::failure::Result;

/// How long those are waited for who write.
const PATIENCE: Duration = Duration::from_secs(300);
/// One of so many collections looks at everything.
const FULL_EVERY: u32 = 7;
/// How soon a full disk is looked at again.
const AGAIN: Duration = Duration::from_secs(3600);

/// When collections are due.
#[derive(Debug)]
pub(crate) struct GarbageSchedule {
    last: std::time::Instant,
    count: u32,
}

impl Default for GarbageSchedule {
    fn default() -> Self {
        Self {
            last: clock::instant(),
            count: 0,
        }
    }
}

impl App {
    /// Collects if it is time to, or if the disk is filling.
    pub(crate) async fn collect_when_due(&self, schedule: &mut GarbageSchedule) -> Result<()> {
        let settings = &self.config.garbage;
        let since = schedule.last.elapsed();
        let (total, free) = self.disk();
        let used = (total - free).saturating_mul(100) / total.max(1);
        let is_filling = used >= u64::from(settings.disk_percent) && since >= AGAIN;
        let is_time = settings.interval.is_some_and(|interval| since >= interval);
        if !is_filling && !is_time {
            return Ok(());
        }
        *schedule = GarbageSchedule {
            last: clock::instant(),
            count: schedule.count.wrapping_add(1),
        };
        let depth = match is_filling || schedule.count.is_multiple_of(FULL_EVERY) {
            true => Depth::Full,
            false => Depth::Young,
        };
        for tenant in self.catalog.tenants().await? {
            let report = self.collect_garbage(tenant.id, depth).await?;
            tracing::info!(
                tenant = %tenant.id,
                snapshots = report.snapshots_removed,
                objects = report.objects_removed,
                full = report.depth == Depth::Full,
                "garbage collected"
            );
        }
        Ok(())
    }

    /// Removes what neither the catalog nor a workspace needs.
    pub(crate) async fn collect_garbage(&self, tenant: TenantId, depth: Depth) -> Result<GcReport> {
        let repository = self.homes.repository(tenant);
        let (catalog, workspaces) = (self.catalog.clone(), self.homes.directory(tenant));
        let keep = self.config.garbage.keep_unnamed;
        let options = GcOptions {
            depth,
            dry_run: false,
            keep_since: Some(before(keep)),
        };
        let handle = Handle::current();
        parts::blocking(move || {
            // Asked for once the collection has begun, in pages.
            let mut after: Option<RootPlace> = None;
            let mut is_over = false;
            let catalogued = std::iter::from_fn(move || {
                if is_over {
                    return None;
                }
                let page = handle.block_on(catalog.roots(tenant, after.as_ref(), PAGE));
                match page {
                    Ok(page) => {
                        is_over = page.next.is_none();
                        after = page.next;
                        Some(Ok(page.snapshots))
                    }
                    Err(error) => {
                        is_over = true;
                        Some(Err(unreadable(error)))
                    }
                }
            });
            let workspaces = std::iter::once_with(move || {
                elevo_workspace::needed_snapshots(&workspaces).map_err(unreadable)
            });
            let mut roots = catalogued.chain(workspaces).flat_map(roots);
            let began = clock::instant();
            let mut wait = |_| {
                std::thread::sleep(Duration::from_millis(20));
                began.elapsed() < PATIENCE
            };
            let progress = GcProgress::default();
            let report = collect_garbage(&repository, &mut roots, &options, &mut wait, &progress)?;
            Ok(report)
        })
        .await
    }
}

/// So long ago.
fn before(ago: Duration) -> Timestamp {
    let now = clock::now();
    let seconds = now.seconds().saturating_sub_unsigned(ago.as_secs());
    Timestamp::new(seconds, 0).unwrap_or(now)
}

/// Roots are asked for so many at a time.
const PAGE: u32 = 1000;

type Page = std::result::Result<Vec<SnapshotId>, EngineError>;

fn roots(page: Page) -> Vec<std::result::Result<Root, EngineError>> {
    let root = |snapshot| Root {
        snapshot,
        history: false,
    };
    match page {
        Ok(ids) => ids.into_iter().map(|id| Ok(root(id))).collect(),
        Err(error) => vec![Err(error)],
    }
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> EngineError {
    EngineError::Store(StoreError::Storage(Box::new(error)))
}
