//! Clients that collect garbage while the others work.

use std::time::Duration;

use elevo_engine::{
    Error, GcOptions, GcProgress, GcRoot, GcRun, GcScope, Recent, Result, StoreError,
};
use elevo_objects::SnapshotId;
use rand::RngExt;

use super::clients::{Client, is_injected};
use super::executor::timestamp;

impl Client {
    /// Collects as long as other clients work.
    pub async fn collect(self) {
        while self.working.get() > 0 {
            let options = self.sim.random(|random| GcOptions {
                scope: if random.random_bool(0.6) {
                    GcScope::Young
                } else {
                    GcScope::Full
                },
                dry_run: random.random_bool(0.15),
                keep_recent: None,
            });
            let now = timestamp(self.sim.now());
            let keep = self.settings.keep.map(Duration::from_micros);
            let options = GcOptions {
                keep_recent: keep.map(|age| Recent { age, now }),
                ..options
            };
            self.sim.note("collection", (options.dry_run, keep));
            match self.collect_once(&options).await {
                Err(Error::Store(StoreError::Refused(_))) => {}
                Err(error) if !is_injected(&error) => panic!("collection: {error:?}"),
                _ => {}
            }
            let micros = self.sim.below(40_000) as u64;
            self.sim.delay(micros).await;
        }
    }

    pub async fn collect_once(&self, options: &GcOptions) -> Result<()> {
        let progress = GcProgress::default();
        let repository = self.repository();
        let mut run = GcRun::begin(&repository, options, &progress).await?;
        for _ in 0..200 {
            if run.older_writers().await? == 0 {
                break;
            }
            self.sim.delay(500).await;
        }
        if run.older_writers().await? > 0 {
            return Ok(());
        }
        run.references().await?;
        let alone = |snapshot| GcRoot {
            snapshot,
            history: false,
        };
        let roots = self.root_ids().into_iter().map(alone);
        run.roots(roots).await?;
        let report = run.finish().await?;
        let counts = (report.snapshots_removed, report.objects_removed);
        self.sim.note("collected", counts);
        Ok(())
    }

    fn root_ids(&self) -> Vec<SnapshotId> {
        let model = self.model.borrow();
        let roots = model.roots.iter();
        roots.filter_map(|at| model.attempts[*at].id).collect()
    }
}
