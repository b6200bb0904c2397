use elevo_core::SandboxId;

/// The id that a client has chosen for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandClaim {
    /// The sandbox that the command runs in.
    pub sandbox: SandboxId,
    /// The id, unique in the sandbox.
    pub id: String,
    /// Hash of the client and its request.
    pub fingerprint: [u8; 32],
}

/// The outcome of [`claim_command`](crate::Commands::claim_command).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The id was not claimed: run the command.
    New,
    /// The same request has claimed the id before.
    Again,
    /// Another request has claimed the id before.
    Taken,
}
