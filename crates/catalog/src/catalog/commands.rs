use async_trait::async_trait;
use elevo_core::{SandboxId, TenantId};

use crate::error::Result;
use crate::records::{Claimed, CommandClaim};

/// Commands with an id that a client has chosen.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps this one:
///
/// 24. *A command id is claimed once*: of concurrent calls of
///     [`claim_command`](Self::claim_command) with the same sandbox and id, at
///     most one returns [`New`](Claimed::New).
#[async_trait]
pub trait Commands {
    /// Claims the id of a command for a request. The claim lasts until it is
    /// released or its sandbox is removed. `NotFound` if the tenant has no such
    /// sandbox.
    async fn claim_command(&self, tenant: TenantId, claim: &CommandClaim) -> Result<Claimed>;

    /// Releases the claim of a command that did not start. Does nothing if the
    /// claim does not exist.
    async fn release_command(&self, tenant: TenantId, sandbox: &SandboxId, id: &str) -> Result<()>;
}
