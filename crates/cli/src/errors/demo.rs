use serde_json::{Value, json};

use super::described::{Advice, Described, describe};
use super::exit::Exit;

/// Errors of the demo.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoProblem {
    #[error("there is no container engine for the sandboxes: {obstacle}")]
    NoEngine { host: String, obstacle: String },
    #[error("the built-in template is not installed")]
    NoTemplate,
    #[error("the command `{0}` failed")]
    Command(String),
    #[error("the demo did not go as expected: {0}")]
    Unexpected(&'static str),
    #[error("the demo was interrupted")]
    Interrupted,
    #[error("the demo could not delete everything that it had created: {}", .0.join(", "))]
    Left(Vec<String>),
}

impl DemoProblem {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::NoEngine { host, .. } => describe(
                Exit::Failed,
                "engine_unavailable",
                json!({ "host": host }),
                "start Docker or set DOCKER_HOST; `elevo demo --no-sandbox` needs no engine",
            ),
            Self::NoTemplate => describe(
                Exit::NotFound,
                "template_not_found",
                Value::Null,
                "SHARE_DIR/images/busybox.tar.zst of a release has it; `elevo demo --template \
                 IMAGE` uses another image, and `elevo demo --no-sandbox` needs none",
            ),
            Self::Command(command) => describe(
                Exit::Failed,
                "command_failed",
                json!({ "command": command }),
                "the image needs /bin/sh, sed and cat; choose another with --template",
            ),
            Self::Unexpected(_) => describe(
                Exit::Failed,
                "demo_failed",
                Value::Null,
                "please report this as a defect of Elevo",
            ),
            Self::Interrupted => describe(Exit::Failed, "interrupted", Value::Null, Advice::None),
            Self::Left(left) => describe(
                Exit::Failed,
                "demo_left",
                json!({ "left": left }),
                "delete these by hand: end the processes, unmount the mounts, then delete the \
                 directory",
            ),
        }
    }
}
