//! The reasons that rows of sandboxes state.

use elevo_catalog::Sandbox;
use elevo_core::SandboxState;
use elevo_sandbox::ContainerStatus;

/// Reason stored while an existing sandbox starts again. A new sandbox has
/// none. Recovery relies on this: it may roll back only a sandbox whose id was
/// never returned.
pub(crate) const AGAIN: &str = "it is being started again";

/// Beginning of the reason for a container that has died.
pub(crate) const ENDED: &str = "its container ended";

/// The reason for an agent that is lost.
pub(crate) const LOST: &str = "its agent does not answer; its processes may still run";

/// The reason for a container that was removed.
pub(crate) const GONE: &str = "its container is gone; `start` makes a new one";

/// Whether a sandbox has failed only because its agent is lost.
pub(crate) fn is_lost(sandbox: &Sandbox) -> bool {
    sandbox.state == SandboxState::Error && sandbox.reason.as_deref() == Some(LOST)
}

/// Whether to start the container of a sandbox again: it has run, and has the
/// files that were written to its root. A container that failed to start may be
/// the cause of the failure.
pub(crate) fn keeps_container(sandbox: &Sandbox) -> bool {
    let reason = sandbox.reason.as_deref().unwrap_or_default();
    match sandbox.state {
        SandboxState::Stopped => true,
        SandboxState::Error => reason == LOST || reason.starts_with(ENDED),
        _ => false,
    }
}

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
