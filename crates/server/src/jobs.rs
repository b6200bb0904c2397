//! Background jobs of the server: each job is a loop that runs one service at
//! an interval or after a notification. A failed run is logged, and the next
//! run retries.

pub(crate) mod deliveries;

use elevo_core::SandboxId;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use elevo_agent_link::LinkEvent;
use elevo_catalog::EventKind;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::app::App;
use crate::app::maintenance::garbage::GarbageSchedule;
use crate::app::stopping::Phase;
use crate::app::sync::Looks;
use crate::failure::{Failure, Result};

/// Runs all jobs until the server starts to stop, and then cancels them. Fails
/// once the catalog does not belong to the store any more: the jobs would delete
/// data that the right catalog refers to.
pub(crate) async fn run(app: Arc<App>) -> anyhow::Result<()> {
    let mut jobs = JoinSet::new();
    let (one, two, three) = (app.clone(), app.clone(), app.clone());
    jobs.spawn(async move { every(Duration::from_secs(1), || async { expire(&one).await }).await });
    jobs.spawn(
        async move { every(Duration::from_secs(10), || async { look_after(&two).await }).await },
    );
    jobs.spawn(
        async move { every(Duration::from_secs(600), || async { tidy(&three).await }).await },
    );
    let (warming, collecting) = (app.clone(), app.clone());
    jobs.spawn(async move { warming.pools.tend().await });
    jobs.spawn(async move { collect(&collecting).await });
    let erasing = app.clone();
    jobs.spawn(async move { erase(&erasing).await });
    let (telling, pulsing) = (app.clone(), app.clone());
    jobs.spawn(async move { tell_expiring(&telling).await });
    jobs.spawn(async move { pulsing.events.watch().await });
    let delivering = app.clone();
    jobs.spawn(async move { deliver(&delivering).await });
    let watching = app.clone();
    jobs.spawn(async move { watching.disk_space.watch_room().await });
    let workspaces = app.clone();
    jobs.spawn(async move { workspaces.disk_space.watch_workspaces().await });
    let links = app.clone();
    jobs.spawn(async move { watch_agents(&links).await });
    let (syncing, following) = (app.clone(), app.clone());
    jobs.spawn(async move { synchronise(&syncing).await });
    jobs.spawn(async move { follow_heads(&following).await });
    let ended = tokio::select! {
        () = app.stopping.entered(Phase::Draining) => Ok(()),
        refusal = app.installation.refused() => Err(refusal.into()),
    };
    jobs.shutdown().await;
    ended
}

/// Runs `work` once in every period, for the first time after one period.
async fn every<F: Future<Output = Result<()>>>(period: Duration, work: impl Fn() -> F) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick of an interval is immediate.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        if let Err(failure) = work().await {
            tracing::warn!(
                cause = failure.summary(),
                "a background job failed; the next run retries"
            );
        }
    }
}

async fn expire(app: &Arc<App>) -> Result<()> {
    // This starts a task for each tenant and does not wait for the tasks:
    // stopping sandboxes takes longer than the second between two runs.
    app.expiry.begin_expiry().await?;
    app.terminals.close_unwatched().await;
    Ok(())
}

async fn look_after(app: &Arc<App>) -> Result<()> {
    app.requests.release_again().await?;
    app.recovery.recover_sandboxes().await?;
    app.templates.add_first_later().await?;
    app.starts.end_abandoned_starts().await?;
    app.lost.look_after_all().await?;
    crate::platform::metrics::upkeep();
    Ok(())
}

async fn tidy(app: &Arc<App>) -> Result<()> {
    if let Err(error) = app.installation.grow(&*app.catalog).await {
        let cause = format!("{error:#}");
        tracing::warn!(
            cause,
            "cannot increment the generation of the catalog; an older copy of it may not be \
             detected"
        );
    }
    if app.installation.is_refused() {
        return Ok(());
    }
    // A failure is logged and not returned, so that the next job still runs.
    let forgetting = app.leases.run("forget requests", forget_requests(app));
    if let Err(failure) = forgetting.await {
        tracing::warn!(
            cause = failure.summary(),
            "cannot delete expired idempotency keys"
        );
    }
    let deleting = app.leases.run("delete events", app.events.delete_old());
    if let Err(failure) = deleting.await {
        tracing::warn!(cause = failure.summary(), "cannot delete old events");
    }
    if let Err(failure) = remove_old_records(app).await {
        let cause = failure.summary();
        tracing::warn!(cause, "cannot delete old records of the audit log");
    }
    // The operator can compare this hash with the files of the audit log to
    // detect a change of the files.
    tracing::info!(head = %app.audit.head(), "head of the audit log");
    let expiring = app.leases.run("expire reviews", app.reviews.expire());
    if let Err(failure) = expiring.await {
        tracing::warn!(cause = failure.summary(), "cannot close expired reviews");
    }
    app.cleanup.run().await;
    app.disk_space.store_parked().await;
    app.cleanup.tidy_layers().await;
    Ok(())
}

async fn forget_requests(app: &Arc<App>) -> Result<()> {
    let now = app.time.now().await?;
    app.catalog.forget_idempotent(now).await?;
    Ok(())
}

async fn remove_old_records(app: &Arc<App>) -> Result<()> {
    let now = app.time.settled().await?;
    let removed = app.audit.remove_old(now).await;
    removed.map_err(|error| Failure::internal(&error))
}

/// Delivers events to webhooks while no other server does.
async fn deliver(app: &Arc<App>) {
    loop {
        let delivering = deliveries::run(app.clone());
        if let Err(failure) = app.leases.run("deliver events", delivering).await {
            let cause = failure.summary();
            tracing::warn!(cause, "cannot take the lease of the deliveries");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Checks every minute whether a garbage collection is due, and runs it.
async fn collect(app: &Arc<App>) {
    let mut schedule = GarbageSchedule::default();
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let collecting = app.garbage.collect_when_due(&mut schedule);
        if let Err(failure) = app.leases.run("collect garbage", collecting).await {
            tracing::warn!(cause = failure.summary(), "cannot collect garbage");
        }
    }
}

/// Erases the tenants that are marked for erasure, immediately after a request
/// marks one and every ten seconds for erasures that failed.
async fn erase(app: &Arc<App>) {
    loop {
        if let Err(failure) = app.erasure.run().await {
            tracing::warn!(
                cause = failure.summary(),
                "cannot erase all tenants that are marked for erasure"
            );
        }
        let due = app.tenants.erasure_is_due();
        let _ = tokio::time::timeout(Duration::from_secs(10), due).await;
    }
}

/// Records an event for each sandbox that expires soon.
async fn tell_expiring(app: &Arc<App>) {
    let mut told = HashSet::new();
    loop {
        if let Err(failure) = app.events.announce_expiring(&mut told).await {
            tracing::warn!(
                cause = failure.summary(),
                "cannot record events for sandboxes that expire soon"
            );
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

async fn tell_of_agent(app: &Arc<App>, sandbox: &SandboxId, kind: EventKind) {
    if let Err(failure) = app.events.announce_by_id(sandbox, kind).await {
        let cause = failure.summary();
        tracing::warn!(
            %sandbox,
            cause,
            "cannot record an event of a workspace agent"
        );
    }
}

/// Records an event and checks the sandbox when its workspace agent connects or
/// disconnects: a container that ended is one reason for a disconnection.
async fn watch_agents(app: &Arc<App>) {
    let mut events = app.links.events();
    loop {
        let (sandbox, is_connected) = match events.recv().await {
            Ok(LinkEvent::Disconnected { sandbox }) => (sandbox, false),
            Ok(LinkEvent::Connected { sandbox }) => (sandbox, true),
            // The check every ten seconds covers sandboxes whose link events
            // were dropped.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        // An agent connects only with the id and the token of a sandbox.
        let Ok(sandbox) = sandbox.parse::<SandboxId>() else {
            continue;
        };
        let app = app.clone();
        if is_connected {
            app.terminals.note_terminals(&sandbox);
            tell_of_agent(&app, &sandbox, EventKind::AgentConnected).await;
            tokio::spawn(async move { look_after_one(&app, &sandbox).await });
            continue;
        }
        tell_of_agent(&app, &sandbox, EventKind::AgentDisconnected).await;
        tokio::spawn(async move {
            // Gives the engine time to report the end of the container.
            tokio::time::sleep(Duration::from_millis(200)).await;
            look_after_one(&app, &sandbox).await;
            tokio::select! {
                () = tokio::time::sleep(app.config.limits.agent_timeout) => {}
                // This task holds `App`, which would keep the store open
                // after the server has stopped.
                () = app.stopping.entered(Phase::Draining) => return,
            }
            look_after_one(&app, &sandbox).await;
        });
    }
}

async fn look_after_one(app: &Arc<App>, sandbox: &SandboxId) {
    if let Err(failure) = app.lost.look_after(sandbox).await {
        let cause = failure.summary();
        tracing::warn!(
            %sandbox,
            cause,
            "cannot check the container and agent of a sandbox"
        );
    }
}

/// Checks every second which workspaces with automatic sync are due, and syncs
/// them with their projects.
async fn synchronise(app: &Arc<App>) {
    let mut looks = Looks::default();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Err(failure) = app.sync.run(&mut looks).await {
            tracing::warn!(
                cause = failure.summary(),
                "cannot sync workspaces; the next run retries"
            );
        }
    }
}

/// Refreshes the workspaces that follow a project as soon as its head moves.
async fn follow_heads(app: &Arc<App>) {
    let mut heads = app.heads.moving_heads();
    loop {
        let moved = match heads.recv().await {
            Ok(moved) => moved,
            // The periodic sync covers heads whose notifications were dropped.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        if let Err(failure) = app.sync.head_has_moved(&moved).await {
            tracing::warn!(
                cause = failure.summary(),
                "cannot refresh the workspaces that follow a project"
            );
        }
    }
}
