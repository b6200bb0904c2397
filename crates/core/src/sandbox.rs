use std::fmt;
use std::str::FromStr;

/// Where a sandbox is in its life.
///
/// ```text
///             ┌────────────► error ◄───────────┐
///             │               │ ▲ │            │
/// (new) ─► starting ─► running ─┼─┼─► stopping ─► stopped
///             ▲  └────────┼─────┼─┴──────▲         │ ▲
///             │           └─────┼──────────────────┼─┘
///             └─────────────────┴──────────────────┘
/// ```
///
/// A sandbox can be deleted in any state; then it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SandboxState {
    /// Its container is being made or its agent is awaited.
    Starting,
    /// Commands can run.
    Running,
    /// Its container is being stopped.
    Stopping,
    /// It has its workspace and no processes.
    Stopped,
    /// Something failed; it can be started, stopped or deleted.
    Error,
}

impl SandboxState {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Error,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Error => "error",
        }
    }

    /// Whether a sandbox may go from this state to `next`.
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
            format!("`{text}` is no state of a sandbox; there are {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_can_be_left_and_none_becomes_itself() {
        for state in SandboxState::ALL {
            assert!(!state.can_become(state), "{state}");
            let next = |next| state.can_become(next);
            assert!(SandboxState::ALL.into_iter().any(next), "{state}");
            assert_eq!(state.name().parse(), Ok(state));
        }
    }
}
