//! Collections, one after the other.

use std::time::Duration;

use elevo_engine::{Error, GcOptions, GcProgress, GcRun, GcScope, StoreError};
use elevo_testkit::crash::Victim;
use tokio::time::sleep;

use super::{Line, Process};

/// Pause between two looks at earlier writers.
const LOOK: Duration = Duration::from_millis(10);

pub(super) async fn work(mut process: Process) -> Victim {
    loop {
        let scope = match process.chance(0.5) {
            true => GcScope::Young,
            false => GcScope::Full,
        };
        let step = match collect(&process, scope).await {
            // A process was killed, or the collection of one is still open.
            Err(Error::Store(StoreError::Refused(_))) => Ok(()),
            step => step,
        };
        if process.is_lost(step).await {
            return process.victim;
        }
        // Nothing is bundled during a collection.
        process.pause(600).await;
    }
}

async fn collect(process: &Process, scope: GcScope) -> Result<(), Error> {
    let options = GcOptions {
        scope,
        dry_run: false,
        keep_recent: None,
    };
    let (repository, progress) = (process.repository(), GcProgress::default());
    let mut run = GcRun::begin(&repository, &options, &progress).await?;
    while run.older_writers().await? > 0 {
        sleep(LOOK).await;
    }
    run.references().await?;
    let report = run.finish().await?;
    let removed = report.objects_removed + report.snapshots_removed;
    process.say(&Line::Collected(removed));
    Ok(())
}
