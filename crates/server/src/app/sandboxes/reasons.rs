//! The reasons in the rows of sandboxes. Some are compared with stored rows, so
//! their text must not change.

use elevo_catalog::Sandbox;
use elevo_core::SandboxState;
use elevo_sandbox::ContainerStatus;

/// The reason of an existing sandbox while it is being started.
pub(crate) const AGAIN: &str = "it is being started again";

/// Beginning of the reason for a container that has ended.
pub(crate) const ENDED: &str = "its container ended";

/// The reason for an agent that is lost.
pub(crate) const LOST: &str = "its agent does not answer; its processes may still run";

/// The reason for a container that no longer exists.
pub(crate) const GONE: &str = "its container no longer exists; `start` creates a new one";

/// Returns true if a sandbox has failed only because its agent is lost.
pub(crate) fn is_lost(sandbox: &Sandbox) -> bool {
    sandbox.state == SandboxState::Error && sandbox.reason.as_deref() == Some(LOST)
}

/// Returns true if a start must use the existing container of a sandbox: the
/// container has run, and has the files that were written outside the workspace.
/// A container that never started is replaced, because it may be the cause of the
/// failure.
pub(crate) fn keeps_container(sandbox: &Sandbox) -> bool {
    let reason = sandbox.reason.as_deref().unwrap_or_default();
    match sandbox.state {
        SandboxState::Stopped => true,
        SandboxState::Error => reason == LOST || reason.starts_with(ENDED),
        _ => false,
    }
}

/// Returns the reason for a container that has ended.
pub(crate) fn ended(status: &ContainerStatus) -> String {
    match (status.oom_killed, status.exit_code) {
        (true, _) => format!("{ENDED}: it used more memory than it may"),
        (false, Some(code)) => format!("{ENDED} with exit code {code}"),
        (false, None) => ENDED.to_owned(),
    }
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
        let found = ended(&status(true, Some(137)));
        assert_eq!(
            found,
            "its container ended: it used more memory than it may"
        );
        let found = ended(&status(false, Some(3)));
        assert_eq!(found, "its container ended with exit code 3");
        assert_eq!(ended(&status(false, None)), ENDED);
    }
}
