//! Retries of requests that create, fork or delete sandboxes: finds the results
//! of the earlier attempt.

use std::collections::HashMap;

use elevo_api as api;
use elevo_catalog::Sandbox;
use elevo_core::{ErrorCode, SandboxId, SandboxState};

use crate::app::access::principal::Principal;
use crate::app::requests::once::Once;
use crate::app::sandboxes::pool::Taken;
use crate::app::sandboxes::{Sandboxes, failed, spec};
use crate::failure::{Failure, Result};
use crate::platform::clock;

impl Sandboxes {
    /// Returns the sandbox that an earlier attempt has created. Rolls back a
    /// sandbox that the earlier attempt had not finished.
    pub(crate) async fn created_before(
        &self,
        who: &Principal,
        once: &Once,
    ) -> Result<Option<Sandbox>> {
        if !once.is_again() {
            return Ok(None);
        }
        let id = once.noted().unwrap_or_else(|| once.id());
        self.made_before(who, &id).await
    }

    async fn made_before(&self, who: &Principal, id: &SandboxId) -> Result<Option<Sandbox>> {
        let found = self.catalog.sandbox(who.tenant, id).await?;
        let Some(found) = found.filter(|sandbox| !sandbox.removing) else {
            return Ok(None);
        };
        if found.state != SandboxState::Starting {
            return Ok(Some(found));
        }
        self.starts.end_start(&found).await?;
        Ok(None)
    }

    /// Returns the id of a new sandbox. Records the id if it is not derived
    /// from the request. That is so in two cases: a warm container has an id
    /// already, and a retry uses a new id because parts of the sandbox that was
    /// rolled back may still exist.
    pub(crate) async fn id_for_sandbox(
        &self,
        once: &Once,
        warm: Option<&Taken>,
    ) -> Result<SandboxId> {
        let id = match warm {
            Some(warm) => warm.id().clone(),
            None if once.is_again() => clock::id(),
            None => return Ok(once.id()),
        };
        once.note(&id).await?;
        Ok(id)
    }

    /// Returns the forks that an earlier attempt has created; `None` if there are
    /// none. Rolls back forks that the earlier attempt had not finished.
    pub(crate) async fn forked_before(
        &self,
        who: &Principal,
        count: u32,
        once: &Once,
    ) -> Result<Option<api::Forked>> {
        if !once.is_again() {
            return Ok(None);
        }
        let ids = || (1..=count).map(|number| once.id_of(number)).collect();
        let ids: Vec<SandboxId> = once.noted().unwrap_or_else(ids);
        let mut outcome = api::Forked::default();
        for id in ids {
            match self.made_before(who, &id).await? {
                Some(made) => outcome.succeeded.push(spec::out(&made)?),
                None => {
                    let message = "the server stopped while the fork was being created; fork again";
                    let failure = Failure::new(ErrorCode::SandboxStartFailed, message);
                    outcome.failed.push(failed(id.to_string(), failure));
                }
            }
        }
        Ok(Some(outcome).filter(|outcome| !outcome.succeeded.is_empty()))
    }

    /// Returns the sandboxes that the ids and names of a request mean, and
    /// whether an earlier attempt of the request may have deleted them. The first
    /// attempt records them: later, a name could mean a newer sandbox.
    pub(crate) async fn to_delete(
        &self,
        who: &Principal,
        texts: &[String],
        once: &Once,
    ) -> Result<(HashMap<String, SandboxId>, bool)> {
        if let Some(noted) = once.noted() {
            return Ok((noted, true));
        }
        let mut found = HashMap::new();
        for text in texts {
            if let Ok(id) = self.names.sandbox(who, text).await
                && self.visible(who, &id).await.is_ok()
            {
                found.insert(text.clone(), id);
            }
        }
        if once.is_keyed() {
            once.note(&found).await?;
        }
        Ok((found, false))
    }
}

/// Returns the ids of new forks. Records them if a retry cannot derive them from
/// the request.
pub(crate) async fn ids_for_forks(once: &Once, warm: &[Option<Taken>]) -> Result<Vec<SandboxId>> {
    let id = |(number, warm): (u32, &Option<Taken>)| match warm {
        Some(warm) => warm.id().clone(),
        None if once.is_again() => clock::id(),
        None => once.id_of(number),
    };
    let ids: Vec<_> = (1..).zip(warm).map(id).collect();
    if once.is_again() || warm.iter().any(Option::is_some) {
        once.note(&ids).await?;
    }
    Ok(ids)
}
