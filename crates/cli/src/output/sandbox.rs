//! Results of the commands on sandboxes.

use elevo_api as api;
use elevo_api::Sandbox as SandboxShape;

use crate::client::{Call, ClientError};
use crate::errors::Exit;

/// The name of a sandbox's state.
pub(crate) fn sandbox_state(sandbox: &SandboxShape) -> &'static str {
    elevo_core::SandboxState::from(sandbox.state).name()
}

/// Prints the changed sandbox: as JSON, or as a line with its id.
pub(crate) fn print_changed_sandbox(
    call: &mut Call,
    sandbox: &SandboxShape,
    done: &str,
) -> anyhow::Result<()> {
    match call.output.is_json() {
        true => call.output.value(sandbox)?,
        false => call.output.line(format!("{done} {}", sandbox.id))?,
    }
    Ok(())
}

/// Prints the ids of new sandboxes, for `id=$(…)`.
pub(crate) fn print_sandbox_ids(call: &mut Call, made: &[api::Sandbox]) -> anyhow::Result<()> {
    for sandbox in made {
        match call.output.is_json() {
            true => call.output.value(sandbox)?,
            false => call.output.line(&sandbox.id)?,
        }
    }
    Ok(())
}

/// Reports the failure of one sandbox of several. Returns its exit code.
pub(crate) fn report_failed_sandbox(call: &mut Call, failed: api::Failed) -> anyhow::Result<Exit> {
    call.report(ClientError::Refused(Box::new(failed.error)).into())
}
