use std::fmt;
use std::str::FromStr;

/// State of a sandbox. A new sandbox is `starting`, and a sandbox can be deleted
/// in any state.
///
/// ```text
/// starting ─► running, stopping, stopped, error
/// running  ─► stopping, stopped, error
/// stopping ─► stopped, error
/// stopped  ─► starting, error
/// error    ─► starting, running, stopping, stopped
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SandboxState {
    /// The container is being created, or its agent has not connected yet.
    Starting,
    /// Commands can run.
    Running,
    /// The container is being stopped.
    Stopping,
    /// The sandbox has its workspace but no processes.
    Stopped,
    /// An operation failed; the sandbox can be started, stopped or deleted.
    Error,
}

impl SandboxState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Error,
    ];

    /// Name of the state on the wire and in the catalog.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Error => "error",
        }
    }

    /// Returns whether a sandbox may change from this state to `next`.
    pub const fn can_become(self, next: Self) -> bool {
        use SandboxState::{Error, Running, Starting, Stopped, Stopping};
        matches!(
            (self, next),
            (Starting, Running | Stopping | Stopped | Error)
                | (Running, Stopping | Stopped | Error)
                | (Stopping, Stopped | Error)
                | (Stopped, Starting | Error)
                | (Error, Starting | Stopping | Stopped | Running)
        )
    }
}

impl fmt::Display for SandboxState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SandboxState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|state| state.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is not a state of a sandbox; the states are {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_can_be_left_and_never_becomes_itself() {
        for state in SandboxState::ALL {
            assert!(!state.can_become(state), "{state}");
            let next = |next| state.can_become(next);
            assert!(SandboxState::ALL.into_iter().any(next), "{state}");
            assert_eq!(state.name().parse(), Ok(state));
        }
    }
}
