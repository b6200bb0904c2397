//! Garbage collection of the stores of all tenants: on a schedule, when the disk
//! is filling, and on request.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{Catalog, RootPlace};
use elevo_core::{ErrorCode, TenantId, Timestamp};
use elevo_engine::{
    Error as EngineError, GcOptions, GcReport, GcRoot, GcScope, Recent, StoreError, collect_garbage,
};
use elevo_objects::SnapshotId;
use tokio::runtime::Handle;

use crate::app::access::principal::Principal;
use crate::app::maintenance::cleanup::Cleanup;
use crate::app::maintenance::collecting::{Collecting, How, Running};
use crate::app::maintenance::expiry::Expiry;
use crate::app::maintenance::system::System;
use crate::app::projects::Projects;
use crate::app::projects::retention::Dropping;
use crate::app::resources::Resources;
use crate::app::tenant_stores::TenantStores;
use crate::app::timekeeping::Timekeeper;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::platform::installation::Installation;
use crate::platform::{clock, installation};

/// Maximum time that a collection waits for running writers.
const PATIENCE: Duration = Duration::from_secs(300);
/// One in this many scheduled collections is full: it marks all objects, not
/// only the recent ones.
const FULL_EVERY: u32 = 7;
/// Minimum time after a collection before a filling disk starts another one.
const AGAIN: Duration = Duration::from_secs(3600);
/// Maximum roots read at a time.
const PAGE: u32 = 1000;
/// The setting that stores the report of the last collection.
const LAST: &str = "garbage.last";

/// The time of the last collection that the job ran or skipped (at first, of
/// the server's start), and the number of collections that it ran.
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

/// Collects the garbage of all tenants, and reports the progress and the result.
pub(crate) struct Garbage {
    catalog: Arc<dyn Catalog>,
    collecting: Arc<Collecting>,
    config: Arc<Config>,
    stores: Arc<TenantStores>,
    time: Arc<Timekeeper>,
    cleanup: Arc<Cleanup>,
    expiry: Arc<Expiry>,
    projects: Arc<Projects>,
    system: Arc<System>,
    installation: Arc<Installation>,
}

impl Garbage {
    pub(crate) fn new(
        resources: &Resources,
        cleanup: &Arc<Cleanup>,
        expiry: &Arc<Expiry>,
        projects: &Arc<Projects>,
        system: &Arc<System>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            cleanup: cleanup.clone(),
            collecting: resources.collecting.clone(),
            config: resources.config.clone(),
            expiry: expiry.clone(),
            projects: projects.clone(),
            stores: resources.stores.clone(),
            system: system.clone(),
            installation: resources.installation.clone(),
            time: resources.time.clone(),
        }
    }

    /// Collects garbage if the interval is over or if the disk is filling.
    pub(crate) async fn collect_when_due(
        self: &Arc<Self>,
        schedule: &mut GarbageSchedule,
    ) -> Result<()> {
        let settings = &self.config.garbage;
        let since = schedule.last.elapsed();
        let (total, free) = self.system.disk();
        let used = (total - free).saturating_mul(100) / total.max(1);
        let is_filling = used >= u64::from(settings.disk_percent) && since >= AGAIN;
        let is_time = settings.interval.is_some_and(|interval| since >= interval);
        if !is_filling && !is_time || self.was_collected_elsewhere().await? {
            return Ok(());
        }
        // The catalog may be the wrong one for the adopted data, and then the
        // collection would delete data that is needed.
        if let Some(until) = installation::held_until(&*self.catalog, clock::now()).await? {
            let until = clock::text(until);
            tracing::info!(
                until,
                "the data directory was adopted; no garbage is collected before the time in `until`"
            );
            schedule.last = clock::instant();
            return Ok(());
        }
        *schedule = GarbageSchedule {
            last: clock::instant(),
            count: schedule.count.wrapping_add(1),
        };
        let scope = match is_filling || schedule.count.is_multiple_of(FULL_EVERY) {
            true => GcScope::Full,
            false => GcScope::Young,
        };
        let turn = self.collecting.turn.clone().lock_owned().await;
        self.verify().await?;
        let dry_run = false;
        let report = self.collect_all(turn, How { scope, dry_run }).await?;
        tracing::info!(
            versions = report.dropped_versions,
            snapshots = report.cleaned_snapshots,
            objects = report.cleaned_objects,
            full = scope == GcScope::Full,
            "garbage collected"
        );
        Ok(())
    }

    /// Returns whether one of several servers has collected garbage within the
    /// interval.
    async fn was_collected_elsewhere(&self) -> Result<bool> {
        let interval = self.config.garbage.interval;
        let Some(interval) = interval.filter(|_| !self.installation.is_alone()) else {
            return Ok(false);
        };
        let last = self.catalog.setting(LAST).await?;
        let last = last.and_then(|text| serde_json::from_str::<api::GcReport>(&text).ok());
        let finished = last.filter(|report| !report.dry_run);
        let finished = finished.and_then(|report| clock::parse(&report.finished_at));
        Ok(finished.is_some_and(|finished| clock::after(finished, interval) > clock::now()))
    }

    /// Runs [`Self::collect_now`] for a principal with the scope `system`.
    pub(crate) async fn collect_for(
        self: &Arc<Self>,
        who: &Principal,
        wish: api::Gc,
    ) -> Result<api::GcResult> {
        who.needs(Scope::System)?;
        self.collect_now(wish).await
    }

    /// Deletes expired sandboxes and workspaces, deletes containers without a
    /// row, and collects garbage. A dry run deletes nothing. The operator of the
    /// server needs no scope.
    pub(crate) async fn collect_now(self: &Arc<Self>, wish: api::Gc) -> Result<api::GcResult> {
        let Ok(turn) = self.collecting.turn.clone().try_lock_owned() else {
            let message = "a garbage collection, a backup or an erasure is running";
            return Err(Failure::new(ErrorCode::CollectionRunning, message).retry_after(10));
        };
        let how = How {
            scope: match wish.full.unwrap_or(true) {
                true => GcScope::Full,
                false => GcScope::Young,
            },
            dry_run: wish.dry_run,
        };
        if how.dry_run {
            return self.collect_all(turn, how).await;
        }
        self.verify().await?;
        self.check_not_held(clock::now()).await?;
        let (_, before) = self.system.disk();
        let expired = self.expiry.remove_expired().await?;
        let cleared = self.cleanup.run().await;
        let collected = self.collect_all(turn, how).await?;
        let (_, after) = self.system.disk();
        Ok(api::GcResult {
            cleaned_sandboxes: cleared.cleaned_sandboxes + expired,
            cleaned_workspaces: cleared.cleaned_workspaces,
            freed_space: after.saturating_sub(before),
            ..collected
        })
    }

    /// Fails if the catalog does not belong to the store any more.
    async fn verify(&self) -> Result<()> {
        let verified = self.installation.verify(&*self.catalog).await;
        verified.map_err(|error| match error.downcast::<elevo_catalog::Error>() {
            Ok(error) => error.into(),
            Err(error) => Failure::internal(&*error),
        })
    }

    /// Fails if the data directory was adopted less than a day ago.
    async fn check_not_held(&self, now: Timestamp) -> Result<()> {
        let Some(until) = installation::held_until(&*self.catalog, now).await? else {
            return Ok(());
        };
        let until_text = clock::text(until);
        let message = format!(
            "no garbage is collected in the first 24 hours after the data directory was adopted, \
             that is, until {until_text}"
        );
        let wait = until.seconds().saturating_sub(now.seconds()).max(1);
        Err(Failure::new(ErrorCode::CollectionRunning, message)
            .about("heldUntil", until_text)
            .remediation("Check that all projects and workspaces exist; then wait until the time in `heldUntil`.")
            .retry_after(u32::try_from(wait).unwrap_or(u32::MAX)))
    }

    /// Returns the state of the running collection and the report of the last
    /// one.
    pub(crate) async fn status(&self, who: &Principal) -> Result<api::GcStatus> {
        who.needs(Scope::System)?;
        let current = self.collecting.lock().as_ref().map(Running::out);
        let last = self.catalog.setting(LAST).await?;
        Ok(api::GcStatus {
            running: current.is_some(),
            current,
            last: last.and_then(|text| serde_json::from_str(&text).ok()),
        })
    }

    /// Collects the garbage of all tenants, and records the report. `turn` is the
    /// lock of [`Collecting`]. The collection continues if the client
    /// disconnects.
    async fn collect_all(
        self: &Arc<Self>,
        turn: tokio::sync::OwnedMutexGuard<()>,
        how: How,
    ) -> Result<api::GcResult> {
        let app = self.clone();
        let collecting = tokio::spawn(async move {
            let _turn = turn;
            let started = clock::now();
            *app.collecting.lock() = Some(Running {
                started,
                how,
                tenants: Vec::new(),
            });
            let done = app.collect_each(how).await;
            *app.collecting.lock() = None;
            let report = api::GcReport {
                started_at: clock::text(started),
                finished_at: clock::text(clock::now()),
                dry_run: how.dry_run,
                full: how.is_full(),
                result: done.as_ref().ok().cloned(),
                error: done.as_ref().err().map(|failure| failure.message.clone()),
            };
            let text = serde_json::to_string(&report).unwrap_or_default();
            app.catalog.set_setting(LAST, &text).await?;
            done
        });
        collecting
            .await
            .map_err(|error| Failure::internal(&error))?
    }

    async fn collect_each(&self, how: How) -> Result<api::GcResult> {
        let mut all = api::GcResult::default();
        let mut first_failure = None;
        for tenant in self.catalog.tenants().await? {
            // The erasure of the tenant deletes all its objects.
            if tenant.erasing.is_some() {
                continue;
            }
            match self.collect_garbage(tenant.id, how).await {
                Ok((dropped, report)) => {
                    all.dropped_versions += dropped;
                    all.cleaned_snapshots += report.snapshots_removed;
                    all.cleaned_objects += report.objects_removed;
                }
                Err(failure) => {
                    let cause = failure.summary();
                    tracing::error!(
                        tenant = %tenant.id,
                        cause,
                        "cannot collect the garbage of a tenant"
                    );
                    all.failed_tenants.push(tenant.name);
                    first_failure.get_or_insert(failure);
                }
            }
        }
        // If only some tenants failed, the response names them and has the
        // counts of the others. If all tenants failed, the request fails.
        match first_failure {
            Some(failure) if all.failed_tenants.len() == self.catalog.tenants().await?.len() => {
                Err(failure)
            }
            _ => Ok(all),
        }
    }

    /// Deletes the versions of a tenant that the retention of their projects
    /// does not keep, and collects all objects that neither the catalog nor a
    /// workspace needs. Returns the number of deleted versions and the report.
    async fn collect_garbage(&self, tenant: TenantId, how: How) -> Result<(u64, GcReport)> {
        let (now, age) = (self.time.settled().await?, self.config.garbage.keep_unnamed);
        let since = clock::before(now, age);
        let How { scope, dry_run } = how;
        let dropped = self
            .projects
            .drop_versions(tenant, Dropping { since, dry_run });
        let dropped = dropped.await?;
        let options = GcOptions {
            scope,
            dry_run,
            keep_recent: Some(Recent { age, now }),
        };
        let repository = self.stores.repository(tenant);
        let (catalog, workspaces) = (self.catalog.clone(), self.stores.directory(tenant));
        let (handle, progress) = (Handle::current(), self.collecting.next());
        let collected = self
            .stores
            .blocking(tenant, move || {
                let catalogued = catalogued(handle, catalog, tenant, dropped.would_be);
                let workspaces = std::iter::once_with(move || {
                    elevo_workspace::needed_snapshots(&workspaces).map_err(unreadable)
                });
                let mut roots = catalogued.chain(workspaces).flat_map(roots);
                let began = clock::instant();
                let mut wait = |_| {
                    std::thread::sleep(Duration::from_millis(20));
                    began.elapsed() < PATIENCE
                };
                let report =
                    collect_garbage(&repository, &mut roots, &options, &mut wait, &progress);
                Ok((dropped.count, report.map_err(not_collected)?))
            })
            .await?;
        if !dry_run {
            self.forget_collected(tenant).await?;
        }
        Ok(collected)
    }

    /// Deletes the records of snapshots whose content was collected.
    async fn forget_collected(&self, tenant: TenantId) -> Result<()> {
        let repository = self.stores.repository(tenant);
        let mut after = None;
        loop {
            let page = self.catalog.unnamed_snapshots(tenant, after, PAGE).await?;
            for id in &page {
                match repository.snapshot(*id).await {
                    Err(EngineError::NoSuchSnapshot(_)) => {
                        self.catalog.forget_snapshot(tenant, *id).await?;
                    }
                    found => drop(found?),
                }
            }
            after = page.last().copied();
            if page.len() < PAGE as usize {
                return Ok(());
            }
        }
    }
}

/// Returns the snapshots that the catalog needs, in pages. In a dry run,
/// `without` has the versions that a real run would drop first; they are left
/// out. The iterator reads nothing before its first use, because the roots must
/// be read after the collection has begun.
fn catalogued(
    handle: Handle,
    catalog: Arc<dyn Catalog>,
    tenant: TenantId,
    without: HashSet<SnapshotId>,
) -> impl Iterator<Item = Page> {
    let mut after: Option<RootPlace> = None;
    let mut is_over = false;
    std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        match handle.block_on(catalog.roots(tenant, after.as_ref(), PAGE)) {
            Ok(mut page) => {
                is_over = page.next.is_none();
                after = page.next;
                if page.versions {
                    page.snapshots.retain(|id| !without.contains(id));
                }
                Some(Ok(page.snapshots))
            }
            Err(error) => {
                is_over = true;
                Some(Err(unreadable(error)))
            }
        }
    })
}

type Page = std::result::Result<Vec<SnapshotId>, EngineError>;

/// Converts a page of snapshots to roots. The ancestors of a snapshot are not
/// kept: each version of a project that is still needed is a root itself.
fn roots(page: Page) -> Vec<std::result::Result<GcRoot, EngineError>> {
    let root = |snapshot| GcRoot {
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

/// Converts the failure of a collection. If writers blocked the collection, the
/// failure is a temporary overload and not a failure of the store.
pub(crate) fn not_collected(error: EngineError) -> Failure {
    match error {
        EngineError::Store(StoreError::Refused(why)) => {
            Failure::new(ErrorCode::Overloaded, why).retry_after(60)
        }
        error => error.into(),
    }
}
