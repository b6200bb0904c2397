//! Statements on nodes and the sessions of servers.

use std::time::Duration;

use async_trait::async_trait;
use elevo_core::Timestamp;

use super::{SqliteCatalog, failure, settings};
use crate::bounds::{self, micros, micros_after};
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
pub(super) const NAME_FIRST: &str = "UPDATE nodes SET name = ? WHERE id = 1 AND session = 0";

pub(super) const BEGIN: &str = concat!(
    "INSERT INTO nodes (name, session, started, expires) \
     VALUES (?1, (SELECT coalesce(max(session), 0) + 1 FROM nodes), ?2, ?3) \
     ON CONFLICT (name) DO UPDATE SET session = excluded.session, \
         started = excluded.started, expires = excluded.expires RETURNING ",
    columns!()
);

pub(super) const RENEW: &str = "UPDATE nodes SET expires = ? WHERE session = ?";

const SELECT_ALL: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM nodes WHERE session > 0 ORDER BY id"
);

const IS_IN_USE: &str = "SELECT EXISTS (SELECT 1 FROM nodes WHERE session > 0 AND expires > ?)";

#[async_trait]
impl Nodes for SqliteCatalog {
    async fn begin_session(&self, node: &str, duration: Duration, now: Timestamp) -> Result<Node> {
        bounds::name("the name of a node", node)?;
        let mut transaction = self.database.write().await?;
        let named = sqlx::query(NAME_FIRST).bind(node);
        named
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        let begun = sqlx::query_as(BEGIN)
            .bind(node)
            .bind(micros(now)?)
            .bind(micros_after(now, duration)?)
            .fetch_one(&mut *transaction)
            .await
            .map_err(failure::of)?;
        transaction.commit().await?;
        Ok(begun)
    }

    async fn renew_session(
        &self,
        session: ServerSession,
        duration: Duration,
        now: Timestamp,
    ) -> Result<bool> {
        let renew = sqlx::query(RENEW)
            .bind(micros_after(now, duration)?)
            .bind(bounds::session(session)?);
        Ok(self.database.run(renew).await? > 0)
    }

    async fn sessions(&self) -> Result<Vec<Node>> {
        sqlx::query_as(SELECT_ALL)
            .fetch_all(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn is_in_use(&self, now: Timestamp) -> Result<bool> {
        let is_in_use = sqlx::query_scalar(IS_IN_USE).bind(micros(now)?);
        let is_in_use = is_in_use.fetch_one(self.database.readers());
        is_in_use.await.map_err(failure::of)
    }

    async fn give_to(&self, installation: &str, now: Timestamp) -> Result<bool> {
        settings::check(INSTALLATION, installation)?;
        let mut transaction = self.database.write().await?;
        let is_in_use = sqlx::query_scalar(IS_IN_USE).bind(micros(now)?);
        let is_in_use = is_in_use.fetch_one(&mut *transaction);
        if is_in_use.await.map_err(failure::of)? {
            return Ok(false);
        }
        sqlx::query(settings::SET)
            .bind(INSTALLATION)
            .bind(installation)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        transaction.commit().await?;
        Ok(true)
    }
}
