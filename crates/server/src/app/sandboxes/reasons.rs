//! The reasons for the states of sandboxes.

use elevo_catalog::{Sandbox, SandboxFailure};
use elevo_core::SandboxState;
use elevo_sandbox::ContainerStatus;

/// The text for a sandbox that was started before and is being started.
pub(crate) const AGAIN: &str = "it is being started again";

/// The reason for the state of a sandbox.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    /// A text for people.
    pub(crate) text: String,
    /// The kind of failure, if the sandbox can recover from it.
    pub(crate) failure: Option<SandboxFailure>,
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self {
            text,
            failure: None,
        }
    }
}

impl Reason {
    /// The container no longer exists.
    pub(crate) fn container_gone() -> Self {
        let text = "its container no longer exists; `start` creates a new one";
        text.to_owned().into()
    }

    /// The workspace agent is lost.
    pub(crate) fn agent_lost() -> Self {
        Self {
            text: "its agent does not answer; its processes may still run".into(),
            failure: Some(SandboxFailure::AgentLost),
        }
    }

    /// The container has ended.
    pub(crate) fn container_ended(status: &ContainerStatus) -> Self {
        let text = match (status.oom_killed, status.exit_code) {
            (true, _) => "its container ended: it used more memory than it may".into(),
            (false, Some(code)) => format!("its container ended with exit code {code}"),
            (false, None) => "its container ended".into(),
        };
        Self {
            text,
            failure: Some(SandboxFailure::ContainerEnded),
        }
    }
}

/// Returns true if a sandbox has failed only because its agent is lost.
pub(crate) fn is_lost(sandbox: &Sandbox) -> bool {
    sandbox.failure == Some(SandboxFailure::AgentLost)
}

/// Returns true if a start must use the existing container of a sandbox: the
/// container has run, and has the files that were written outside the workspace.
/// A container that never started is replaced, because it may be the cause of the
/// failure.
pub(crate) fn keeps_container(sandbox: &Sandbox) -> bool {
    sandbox.state == SandboxState::Stopped || sandbox.failure.is_some()
}

#[cfg(test)]
mod tests {
    use elevo_sandbox::ContainerState;

    use super::*;

    #[test]
    fn the_reason_says_how_a_container_ended() {
        let status = |oom_killed, exit_code| ContainerStatus {
            state: ContainerState::Exited,
            pid: None,
            exit_code,
            oom_killed,
            error: None,
        };
        for (status, expected) in [
            (
                status(true, Some(137)),
                "its container ended: it used more memory than it may",
            ),
            (
                status(false, Some(3)),
                "its container ended with exit code 3",
            ),
            (status(false, None), "its container ended"),
        ] {
            let reason = Reason::container_ended(&status);
            assert_eq!(reason.text, expected);
            assert_eq!(reason.failure, Some(SandboxFailure::ContainerEnded));
        }
    }
}
