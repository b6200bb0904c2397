//! Clients that build on commits to which nothing refers, and soon let go of
//! them: only their holds keep these from a collection.

use elevo_engine::{Error, Result, StateTree};

use super::SHARED;
use super::clients::{Client, Target, Work};

/// Number of commits that are built on, the last ones.
const LAST: usize = 20;

impl Client {
    pub async fn build_on_unnamed(&self) -> Result<()> {
        let work = match self.open_unnamed().await? {
            Some(work) => Some(work),
            None => self.open(SHARED).await?,
        };
        let Some(mut work) = work else {
            return Ok(());
        };
        self.edit(&mut work).await?;
        self.pause().await;
        let own = self.own();
        let is_new = self.sim.chance(0.5) && self.is_absent(&own);
        if is_new {
            let made = self.commit(&mut work, Target::New(&own)).await?;
            assert!(made, "{own} is not there");
        } else {
            self.commit(&mut work, Target::Unnamed).await?;
        }
        Ok(())
    }

    async fn open_unnamed(&self) -> Result<Option<Work>> {
        let (attempt, id, files) = {
            let model = self.model.borrow();
            let last = &model.unnamed[model.unnamed.len().saturating_sub(LAST)..];
            let Some(attempt) = self.sim.pick(last) else {
                return Ok(None);
            };
            let id = model.attempts[attempt].id.expect("it was acknowledged");
            (attempt, id, model.attempts[attempt].files.clone())
        };
        match StateTree::open(&self.repository(), id).await {
            Err(Error::NoSuchSnapshot(_)) => Ok(None),
            tree => Ok(Some(Work {
                tree: tree?,
                files,
                at: Some((attempt, id)),
                holds: true,
            })),
        }
    }
}
