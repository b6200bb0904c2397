//! The policy of a project on a server.

use elevo_api as api;
use reqwest::Method;

use crate::client::call::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::project_path;

/// Requests the policy of a project.
pub(crate) fn get_policy(call: &Call, project: &str) -> anyhow::Result<api::ProjectPolicy> {
    let project = find(call, Noun::Project, project)?;
    Ok(call.wait(call.client.get(&project_path(&project, &["policy"])))?)
}

/// Sets the policy of a project and prints its version.
pub(crate) fn set_policy(
    call: &mut Call,
    project: &str,
    policy: elevo_policy::Policy,
    expected_version: Option<u64>,
) -> anyhow::Result<()> {
    let wish = api::SetPolicy {
        policy,
        expected_version,
    };
    let project = find(call, Noun::Project, project)?;
    let path = project_path(&project, &["policy"]);
    let request = call.client.request(Method::PUT, &path).json(&wish);
    let set: api::ProjectPolicy = call.wait(call.client.json(request))?;
    match call.output.is_json() {
        true => call.output.value(&set)?,
        false => {
            let version = set.version;
            call.output
                .line(format!("The policy is now version {version}"))?;
        }
    }
    Ok(())
}
