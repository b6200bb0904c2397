//! Statements on nodes and the sessions of servers. They use the clock of the
//! database, as those on leases do.

use std::time::Duration;

use async_trait::async_trait;
use elevo_core::Timestamp;
use sqlx::PgExecutor;

use super::{PostgresCatalog, database, failure, settings};
use crate::bounds::{self, micros_after};
use crate::catalog::Nodes;
use crate::error::Result;
use crate::found::INSTALLATION;
use crate::nodes::{Node, ServerSession};

macro_rules! columns {
    () => {
        "id, name, session, started, expires"
    };
}

/// Names the first node, which has the records of a catalog from before there were
/// nodes, after the first server that uses it.
const NAME_FIRST: &str = "UPDATE nodes SET name = $1 WHERE id = 1 AND session = 0";

const BEGIN: &str = concat!(
    "INSERT INTO nodes (id, name, session, started, expires) \
     VALUES ((SELECT max(id) + 1 FROM nodes), $1, (SELECT max(session) + 1 FROM nodes), \
         now_1(), now_1() + $2) \
     ON CONFLICT (name) DO UPDATE SET session = excluded.session, \
         started = excluded.started, expires = excluded.expires RETURNING ",
    columns!()
);

const RENEW: &str = "UPDATE nodes SET expires = now_1() + $1 WHERE session = $2";

const SELECT_ALL: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM nodes WHERE session > 0 ORDER BY id"
);

const IS_IN_USE: &str =
    "SELECT EXISTS (SELECT 1 FROM nodes WHERE session > 0 AND expires > now_1())";

#[async_trait]
impl Nodes for PostgresCatalog {
    async fn begin_session(&self, node: &str, duration: Duration, now: Timestamp) -> Result<Node> {
        bounds::name("the name of a node", node)?;
        micros_after(now, duration)?;
        let mut transaction = self.database.write().await?;
        // Sessions get their numbers one after the other.
        database::lock_server(&mut transaction).await?;
        let named = sqlx::query(NAME_FIRST).bind(node);
        named
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        let begun = sqlx::query_as(BEGIN)
            .bind(node)
            .bind(duration.as_micros() as i64)
            .fetch_one(&mut *transaction)
            .await
            .map_err(failure::of)?;
        self.database.commit(transaction).await?;
        Ok(begun)
    }

    async fn renew_session(
        &self,
        session: ServerSession,
        duration: Duration,
        now: Timestamp,
    ) -> Result<bool> {
        micros_after(now, duration)?;
        let renew = sqlx::query(RENEW)
            .bind(duration.as_micros() as i64)
            .bind(bounds::session(session)?);
        Ok(self.database.run(renew).await? > 0)
    }

    async fn sessions(&self) -> Result<Vec<Node>> {
        sqlx::query_as(SELECT_ALL)
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn is_in_use(&self, _now: Timestamp) -> Result<bool> {
        is_in_use(self.database.pool()).await
    }

    async fn give_to(&self, installation: &str, _now: Timestamp) -> Result<bool> {
        settings::check(INSTALLATION, installation)?;
        let mut transaction = self.database.write().await?;
        database::lock_server(&mut transaction).await?;
        if is_in_use(&mut *transaction).await? {
            return Ok(false);
        }
        sqlx::query(settings::SET)
            .bind(INSTALLATION)
            .bind(installation)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        self.database.commit(transaction).await?;
        Ok(true)
    }
}

pub(super) async fn is_in_use(executor: impl PgExecutor<'_>) -> Result<bool> {
    let is_in_use = sqlx::query_scalar(IS_IN_USE).fetch_one(executor);
    is_in_use.await.map_err(failure::of)
}
