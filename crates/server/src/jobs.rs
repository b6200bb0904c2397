//! What the server does by itself.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use elevo_agent_link::LinkEvent;
use elevo_catalog::EventKind;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::app::{App, GarbageSchedule, Looks, Phase};
use crate::failure::{Failure, Result};

/// Runs until the server is about to end.
pub(crate) async fn run(app: Arc<App>) {
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
    jobs.spawn(async move { warming.tend_pools().await });
    jobs.spawn(async move { collect(&collecting).await });
    let erasing = app.clone();
    jobs.spawn(async move { erase(&erasing).await });
    let (telling, pulsing) = (app.clone(), app.clone());
    jobs.spawn(async move { tell_expiring(&telling).await });
    jobs.spawn(async move { pulsing.watch_events().await });
    jobs.spawn(crate::deliveries::run(app.clone()));
    let watching = app.clone();
    jobs.spawn(async move { watching.watch_room().await });
    let workspaces = app.clone();
    jobs.spawn(async move { workspaces.watch_workspaces().await });
    let links = app.clone();
    jobs.spawn(async move { watch_agents(&links).await });
    let (syncing, following) = (app.clone(), app.clone());
    jobs.spawn(async move { synchronise(&syncing).await });
    jobs.spawn(async move { follow_heads(&following).await });
    app.entered(Phase::Draining).await;
    jobs.shutdown().await;
}

async fn every<F: Future<Output = Result<()>>>(period: Duration, work: impl Fn() -> F) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        if let Err(failure) = work().await {
            tracing::warn!(cause = failure.summary(), "a job failed and is tried again");
        }
    }
}

async fn expire(app: &Arc<App>) -> Result<()> {
    // Each tenant's task goes on by itself.
    app.begin_expiry().await?;
    app.close_unwatched().await;
    Ok(())
}

async fn look_after(app: &Arc<App>) -> Result<()> {
    app.release_again().await?;
    app.recover_sandboxes().await?;
    app.end_abandoned_starts().await?;
    app.look_after_all().await?;
    crate::metrics::upkeep();
    Ok(())
}

async fn tidy(app: &Arc<App>) -> Result<()> {
    if let Err(error) = app.installation.grow(&*app.catalog).await {
        let cause = format!("{error:#}");
        tracing::warn!(cause, "an older copy of the catalog may not be recognised");
    }
    // One job that fails must not keep the others from their turn.
    if let Err(failure) = forget_requests(app).await {
        tracing::warn!(cause = failure.summary(), "old requests stay");
    }
    if let Err(failure) = app.forget_events().await {
        tracing::warn!(cause = failure.summary(), "old events stay");
    }
    if let Err(failure) = remove_old_records(app).await {
        let cause = failure.summary();
        tracing::warn!(cause, "old records of the audit log stay");
    }
    // To be held against the files later.
    tracing::info!(head = %app.audit.head(), "audit log");
    if let Err(failure) = app.expire_reviews().await {
        tracing::warn!(cause = failure.summary(), "old reviews stay open");
    }
    app.clear_away().await;
    app.store_parked().await;
    app.tidy_layers().await;
    Ok(())
}

async fn forget_requests(app: &Arc<App>) -> Result<()> {
    let now = app.time().await?;
    app.catalog.forget_idempotent(now).await?;
    Ok(())
}

async fn remove_old_records(app: &Arc<App>) -> Result<()> {
    let now = app.settled_time().await?;
    let removed = app.audit.remove_old(now).await;
    removed.map_err(|error| Failure::internal(&error))
}

/// What nobody needs goes.
async fn collect(app: &Arc<App>) {
    let mut schedule = GarbageSchedule::default();
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        if let Err(failure) = app.collect_when_due(&mut schedule).await {
            tracing::warn!(cause = failure.summary(), "garbage was not collected");
        }
    }
}

/// Tenants that are being erased go.
async fn erase(app: &Arc<App>) {
    loop {
        if let Err(failure) = app.erase_tenants().await {
            tracing::warn!(cause = failure.summary(), "tenants were not erased");
        }
        let due = app.erasure_is_due();
        let _ = tokio::time::timeout(Duration::from_secs(10), due).await;
    }
}

/// Sandboxes that end soon.
async fn tell_expiring(app: &Arc<App>) {
    let mut told = HashSet::new();
    loop {
        if let Err(failure) = app.tell_expiring(&mut told).await {
            tracing::warn!(cause = failure.summary(), "not told what expires");
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

async fn tell_of_agent(app: &Arc<App>, sandbox: &str, kind: EventKind) {
    if let Err(failure) = app.tell(sandbox, kind).await {
        let cause = failure.summary();
        tracing::warn!(sandbox, cause, "an event is lost");
    }
}

/// Agents that go may have gone with their container.
async fn watch_agents(app: &Arc<App>) {
    let mut events = app.links.events();
    loop {
        let gone = match events.recv().await {
            Ok(LinkEvent::Disconnected { sandbox }) => {
                tell_of_agent(app, &sandbox, EventKind::AgentDisconnected).await;
                sandbox
            }
            Ok(LinkEvent::Connected { sandbox }) => {
                app.note_terminals(&sandbox);
                tell_of_agent(app, &sandbox, EventKind::AgentConnected).await;
                let app = app.clone();
                tokio::spawn(async move { look_after_one(&app, &sandbox).await });
                continue;
            }
            // Those that were missed are found by the regular look.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let app = app.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            look_after_one(&app, &gone).await;
            tokio::select! {
                () = tokio::time::sleep(app.config.limits.agent_timeout) => {}
                // A task keeps the store open.
                () = app.entered(Phase::Draining) => return,
            }
            look_after_one(&app, &gone).await;
        });
    }
}

async fn look_after_one(app: &Arc<App>, sandbox: &str) {
    if let Err(failure) = app.look_after(sandbox).await {
        let cause = failure.summary();
        tracing::warn!(sandbox, cause, "not looked after");
    }
}

/// Workspaces that keep up with their project every few seconds.
async fn synchronise(app: &Arc<App>) {
    let mut looks = Looks::default();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Err(failure) = app.synchronise(&mut looks).await {
            tracing::warn!(cause = failure.summary(), "a job failed and is tried again");
        }
    }
}

/// Workspaces that keep up with their project at once.
async fn follow_heads(app: &Arc<App>) {
    let mut heads = app.moving_heads();
    loop {
        let moved = match heads.recv().await {
            Ok(moved) => moved,
            // Those that were missed are found by the regular look.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        if let Err(failure) = app.head_has_moved(&moved).await {
            tracing::warn!(
                cause = failure.summary(),
                "workspaces not brought up to date"
            );
        }
    }
}
