//! The session of this server in a catalog that several processes share, and the
//! leases of the jobs that one server does for all.

use std::sync::Arc;
use std::time::Duration;

use elevo_catalog::{Catalog, ServerSession};

use crate::app::resources::Resources;
use crate::failure::{Result, chain};
use crate::platform::clock;

/// Time after which a session expires unless the server renews it.
pub(crate) const SESSION: Duration = Duration::from_secs(10);
/// Interval between two renewals of the session, and of a lease.
const BEAT: Duration = Duration::from_secs(2);
/// Maximum time of one renewal of the session. Less than the session lasts, so
/// that another attempt can follow on another connection.
const ANSWER: Duration = Duration::from_secs(3);
/// Time after which a lease expires unless the server renews it.
const HELD: Duration = Duration::from_secs(15);

/// Holds the session and the leases of this server. A catalog in a file has one
/// server, so nothing is written to it for them.
pub(crate) struct Leases {
    catalog: Arc<dyn Catalog>,
    session: ServerSession,
    /// Whether other servers can use the catalog.
    is_shared: bool,
    /// Interval between two renewals.
    beat: Duration,
}

impl Leases {
    pub(crate) fn new(resources: &Resources) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            session: resources.node.session,
            is_shared: resources.config.catalog.is_some(),
            beat: BEAT,
        }
    }

    /// Renews the session of this server. Returns only if another server has
    /// begun a session on the same node, after which this one must end.
    pub(crate) async fn keep_session(&self) {
        loop {
            tokio::time::sleep(self.beat).await;
            if !self.is_shared {
                continue;
            }
            let renewed = self
                .catalog
                .renew_session(self.session, SESSION, clock::now());
            let cause = match tokio::time::timeout(ANSWER, renewed).await {
                Ok(Ok(true)) => continue,
                Ok(Ok(false)) => return,
                Ok(Err(error)) => chain(&error),
                Err(_) => "no answer in time".into(),
            };
            tracing::warn!(
                cause,
                "cannot renew the session of this server in the catalog"
            );
        }
    }

    /// Ends the session of this server, so that commands that need a stopped
    /// server need not wait until the session expires.
    pub(crate) async fn end_session(&self) {
        if !self.is_shared {
            return;
        }
        let ended = self
            .catalog
            .renew_session(self.session, Duration::ZERO, clock::now());
        if let Err(error) = ended.await {
            let cause = chain(&error);
            tracing::warn!(
                cause,
                "cannot end the session of this server in the catalog"
            );
        }
    }

    /// Runs a job while this server holds the lease with its name. Does nothing
    /// if another server holds the lease. Cancels the job if the lease is lost.
    pub(crate) async fn run(
        &self,
        name: &str,
        work: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        if !self.is_shared {
            return work.await;
        }
        let Some(token) = self.take(name).await? else {
            return Ok(());
        };
        let done = tokio::select! {
            done = work => done,
            () = self.renew(name, token) => {
                tracing::warn!(job = name, "the lease of a job was lost; another server continues it");
                return Ok(());
            }
        };
        self.catalog
            .release_lease(name, self.session, token)
            .await?;
        done
    }

    /// Takes or renews a lease. Returns its token, or `None` if another server
    /// holds it.
    async fn take(&self, name: &str) -> Result<Option<u64>> {
        let taken = self
            .catalog
            .take_lease(name, self.session, HELD, clock::now());
        Ok(taken.await?.map(|lease| lease.token))
    }

    /// Renews a lease until it is lost.
    async fn renew(&self, name: &str, token: u64) {
        let mut renewed = clock::instant();
        while renewed.elapsed() < HELD {
            tokio::time::sleep(self.beat).await;
            match self.take(name).await {
                Ok(Some(found)) if found == token => renewed = clock::instant(),
                Ok(Some(new)) => {
                    // Another server may have done a part of the job since.
                    let released = self.catalog.release_lease(name, self.session, new);
                    if let Err(error) = released.await {
                        let cause = chain(&error);
                        tracing::warn!(job = name, cause, "cannot release the lease of a job");
                    }
                    return;
                }
                Ok(None) => return,
                // The lease is still held until it expires.
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use elevo_catalog::{SqliteCatalog, SqliteOptions};
    use tokio::sync::oneshot;

    use super::*;

    async fn server(catalog: &Arc<dyn Catalog>, node: &str) -> Leases {
        let node = catalog.begin_session(node, SESSION, clock::now()).await;
        Leases {
            catalog: catalog.clone(),
            session: node.unwrap().session,
            is_shared: true,
            beat: Duration::from_millis(5),
        }
    }

    async fn two_servers() -> (tempfile::TempDir, Arc<dyn Catalog>, Leases, Leases) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("catalog.db");
        let catalog = SqliteCatalog::open(&path, &SqliteOptions::default()).await;
        let catalog: Arc<dyn Catalog> = Arc::new(catalog.unwrap());
        let (one, two) = (server(&catalog, "one").await, server(&catalog, "two").await);
        (directory, catalog, one, two)
    }

    #[tokio::test]
    async fn a_job_runs_on_one_server_at_a_time() {
        let (_directory, _catalog, one, two) = two_servers().await;
        let (started, has_started) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let first = one.run("job", async {
            started.send(()).unwrap();
            ended.await.unwrap();
            Ok(())
        });
        let second = async {
            has_started.await.unwrap();
            let skipped = two.run("job", async { panic!("both servers run the job") });
            skipped.await.unwrap();
            end.send(()).unwrap();
        };
        let (first, ()) = tokio::join!(first, second);
        first.unwrap();
        let (ran, has_run) = oneshot::channel();
        let third = two.run("job", async {
            ran.send(()).unwrap();
            Ok(())
        });
        third.await.unwrap();
        has_run.await.unwrap();
    }

    #[tokio::test]
    async fn a_job_is_cancelled_when_its_lease_is_lost() {
        let (_directory, catalog, one, two) = two_servers().await;
        let (started, has_started) = oneshot::channel();
        let stalled = one.run("job", async {
            started.send(()).unwrap();
            pending().await
        });
        let thief = async {
            has_started.await.unwrap();
            let token = one.take("job").await.unwrap().unwrap();
            let released = catalog.release_lease("job", one.session, token).await;
            assert!(released.unwrap());
            loop {
                // The first server may have taken the lease again, which it then
                // releases.
                if let Some(token) = two.take("job").await.unwrap() {
                    break token;
                }
                tokio::time::sleep(two.beat).await;
            }
        };
        let (cancelled, token) = tokio::join!(stalled, thief);
        cancelled.unwrap();
        let is_held = catalog.check_lease("job", token, clock::now()).await;
        assert!(is_held.unwrap(), "the other server still holds the lease");
    }

    #[tokio::test]
    async fn a_server_ends_when_another_begins_a_session_on_its_node() {
        let (_directory, catalog, one, _two) = two_servers().await;
        let replaced = server(&catalog, "one").await;
        one.keep_session().await;
        let session = replaced.session;
        let renewed = catalog.renew_session(session, SESSION, clock::now());
        assert!(renewed.await.unwrap(), "the newer session continues");
    }
}
