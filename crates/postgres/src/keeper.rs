//! Keeps a pool on the host that can be written.

use std::time::Duration;

use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::hosts::{Hosts, NoneWritable, Period, Writable, check_writable, host_name};
use crate::pool::Pool;

/// Maximum time for one statement of a background task. A host that needs longer
/// counts as lost.
const ANSWER: Duration = Duration::from_secs(3);
/// Pause before another attempt to find a host.
const RETRY: Duration = Duration::from_millis(200);

/// The hosts of a database.
#[derive(Clone, Debug)]
pub struct Places {
    /// The hosts of the pool.
    pub hosts: Hosts,
    /// The hosts without a pooler, if the pool connects through one.
    pub direct: Option<Hosts>,
}

/// The hosts that are used, with a connection to each.
pub struct Chosen {
    pooled: Writable,
    /// `None` if the other one is direct.
    direct: Option<Writable>,
}

/// The reason why a host is not used any more.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The host did not answer in time. It may only be slow.
    #[error("the host of the database does not answer in time")]
    Slow,
    /// The host cannot be written.
    #[error("the host of the database is read-only")]
    ReadOnly,
    /// A statement failed.
    #[error(transparent)]
    Failed(#[from] sqlx::Error),
}

/// Waits for a statement of a background task, but not for long.
pub async fn answer<T, E: Into<Lost>>(
    statement: impl Future<Output = Result<T, E>>,
) -> Result<T, Lost> {
    match timeout(ANSWER, statement).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(Lost::Slow),
    }
}

impl Places {
    /// Finds the host that can be written.
    pub async fn choose(&self) -> Result<Chosen, NoneWritable> {
        let pooled = self.hosts.writable().await?;
        let direct = match &self.direct {
            Some(direct) => Some(direct.writable().await?),
            None => None,
        };
        Ok(Chosen { pooled, direct })
    }

    /// The hosts without a pooler.
    pub fn direct(&self) -> &Hosts {
        self.direct.as_ref().unwrap_or(&self.hosts)
    }

    /// Finds the host that can be written, however long it takes, and has the
    /// pool use new connections to it. The calls on the earlier ones end, unless
    /// the host is the same and was not restarted: it was only slow, or one
    /// connection alone was lost. If no host is found for `wait`, they end too.
    pub async fn choose_again(&self, earlier: Chosen, pool: &Pool, wait: Duration) -> Chosen {
        let mut earlier = Some(earlier.identity());
        let lost = Instant::now();
        loop {
            if let Ok(chosen) = self.choose().await {
                let host = chosen.host().clone();
                match earlier.as_ref() == Some(&chosen.identity()) {
                    true => pool.use_new_connections(host),
                    false => pool.use_host(host),
                }
                return chosen;
            }
            if lost.elapsed() >= wait {
                earlier = None;
                pool.forget_host();
            }
            sleep(RETRY).await;
        }
    }
}

impl Chosen {
    /// The host of the pool.
    pub fn host(&self) -> &PgConnectOptions {
        &self.pooled.host
    }

    /// A connection that does not go through a pooler.
    pub fn connection(&mut self) -> &mut PgConnection {
        let direct = self.direct.as_mut().unwrap_or(&mut self.pooled);
        &mut direct.connection
    }

    /// The host without a pooler.
    pub fn direct_host(&self) -> &PgConnectOptions {
        &self.direct.as_ref().unwrap_or(&self.pooled).host
    }

    /// Fails unless the hosts can still be written.
    pub async fn check(&mut self) -> Result<(), Lost> {
        let each = [Some(&mut self.pooled), self.direct.as_mut()];
        for one in each.into_iter().flatten() {
            answer(check_writable(&mut one.connection)).await?;
        }
        Ok(())
    }

    /// The host of the pool, and its period. While these stay the same, a call on
    /// an earlier connection may still get its answer.
    fn identity(&self) -> (String, Period) {
        (host_name(self.host()), self.pooled.period)
    }
}

/// A task that checks the host and chooses again. It ends when this is dropped.
#[derive(Debug)]
pub struct Keeper(JoinHandle<()>);

impl Keeper {
    /// Checks the host every `check`. The calls on a lost one end after `wait` if
    /// no other is found.
    pub fn start(
        places: Places,
        mut chosen: Chosen,
        pool: Pool,
        check: Duration,
        wait: Duration,
    ) -> Self {
        Self(tokio::spawn(async move {
            loop {
                sleep(check).await;
                let Err(error) = chosen.check().await else {
                    continue;
                };
                tracing::warn!(%error, "the database does not answer");
                chosen = places.choose_again(chosen, &pool, wait).await;
                tracing::info!("the database answers again");
            }
        }))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}
