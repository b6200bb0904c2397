//! Ids that clients choose for commands, so that a command runs once.
//!
//! The catalog has the ids of each sandbox, with a hash of the key and the
//! request. An id is recorded before the command is sent to the workspace agent.
//! So a command whose id is recorded and which the agent does not know has ended
//! long ago, was killed by a stop of the sandbox, or was lost with the server: it
//! is never started again.

use elevo_agent_link::AgentLink;
use elevo_api as api;
use elevo_catalog::{Claimed, CommandClaim};
use elevo_core::{ErrorCode, SandboxId};

use crate::app::access::principal::Principal;
use crate::app::processes::Processes;
use crate::app::requests;
use crate::failure::{Failure, Result};

impl Processes {
    /// Claims the id that a client has chosen for its command. Returns false if
    /// the same request has claimed the id before.
    pub(super) async fn claim(
        &self,
        who: &Principal,
        sandbox: &SandboxId,
        link: &AgentLink,
        id: &str,
        wish: &api::RunCommand,
    ) -> Result<bool> {
        let content = serde_json::to_vec(wish).map_err(|error| Failure::internal(&error))?;
        let claim = CommandClaim {
            sandbox: sandbox.clone(),
            id: id.to_owned(),
            fingerprint: requests::hash("command", [who.key.as_bytes(), &content]),
        };
        match self.catalog.claim_command(who.tenant, &claim).await? {
            Claimed::Again => Ok(false),
            Claimed::Taken => Err(taken(id)),
            // The server has chosen this id for another command or terminal.
            Claimed::New if link.process(id).is_some() => {
                self.release_claim(who, sandbox, id).await?;
                Err(taken(id))
            }
            Claimed::New => Ok(true),
        }
    }

    /// Releases the id of a command that has certainly not started.
    pub(super) async fn release_claim(
        &self,
        who: &Principal,
        sandbox: &SandboxId,
        id: &str,
    ) -> Result<()> {
        let released = self.catalog.release_command(who.tenant, sandbox, id);
        Ok(released.await?)
    }
}

fn taken(id: &str) -> Failure {
    let message = "another request has used this `commandId` in the sandbox";
    Failure::new(ErrorCode::CommandIdTaken, message).about("commandId", id)
}
