//! Clients that collect garbage while the others work.

use elevo_engine::{Error, GcOptions, GcProgress, GcRoot, GcRun, GcScope, Result, StoreError};
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
                keep_since: None,
            });
            let now = self.sim.now();
            let since = self.settings.keep.map(|keep| now.saturating_sub(keep));
            let keep_since = since.map(timestamp);
            let options = GcOptions {
                keep_since,
                ..options
            };
            self.sim.note("collection", (options.dry_run, since));
            match self.collect_once(&options).await {
                Err(Error::Store(StoreError::Refused(_))) => {}
                Err(error) if !is_injected(&error) => panic!("collection: {error:?}"),
                _ => {}
            }
            let micros = self.sim.below(40_000) as u64;
            self.sim.delay(micros).await;
        }
    }

    async fn collect_once(&self, options: &GcOptions) -> Result<()> {
        let progress = GcProgress::default();
        let repository = self.repository();
        let mut run = GcRun::begin(repository, options, &progress).await?;
        for _ in 0..200 {
            if run.older_writers() == 0 {
                break;
            }
            self.sim.delay(500).await;
        }
        if run.older_writers() > 0 {
            return Ok(());
        }
        run.references().await?;
        for snapshot in self.root_ids() {
            let history = false;
            run.root(GcRoot { snapshot, history }).await?;
        }
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
