use std::path::PathBuf;

use clap::Args;
use elevo_api as api;
use reqwest::Method;

use crate::client::Call;
use crate::client::paths::project_path;
use crate::input::editor;
use crate::options::policy::{parse_policy, pretty_policy, read_policy};

/// Print the policy of a project, or set it.
#[derive(Debug, Args)]
#[command(after_help = "\
A policy defines the access to paths, the paths that are never merged, and how
conflicts are resolved. The printed policy can be changed and set again. --edit
opens it in $VISUAL or $EDITOR and sets it, unless it was changed by another
request in the meantime.

Examples:
  elevo project policy site
  elevo project policy site > policy.json
  elevo project policy site --set policy.json
  elevo project policy site --set policy.toml
  elevo project policy site --edit")]
pub(super) struct Policy {
    /// The project, by name or id
    name: String,

    /// Set the policy to the content of a file: JSON, or TOML if its name ends
    /// with .toml; - for JSON on standard input
    #[arg(long, value_name = "FILE", group = "change")]
    set: Option<PathBuf>,

    /// Change the policy in an editor
    #[arg(long, group = "change")]
    edit: bool,
}

pub(super) fn run(call: &mut Call, args: &Policy) -> anyhow::Result<()> {
    let path = project_path(&args.name, &["policy"]);
    if let Some(file) = &args.set {
        let policy = read_policy(file)?;
        return set(call, &path, policy, None);
    }
    let found: api::ProjectPolicy = call.wait(call.client.get(&path))?;
    if args.edit {
        return edit(call, &path, &found);
    }
    if call.output.is_json() {
        call.output.value(&found)?;
        return Ok(());
    }
    Ok(call.output.line(pretty_policy(&found.policy)?)?)
}

fn edit(call: &mut Call, path: &[&str], found: &api::ProjectPolicy) -> anyhow::Result<()> {
    let before = pretty_policy(&found.policy)? + "\n";
    let edited = editor::edit("policy.json", before.as_bytes())?;
    let text = edited.bytes()?;
    if text == before.as_bytes() {
        call.note("nothing was changed");
        return Ok(());
    }
    let policy = parse_policy(edited.path(), &String::from_utf8_lossy(&text));
    let sent = policy
        .map_err(anyhow::Error::from)
        .and_then(|policy| set(call, path, policy, Some(found.version)));
    // Keep the user's edits.
    if sent.is_err() {
        let kept = edited.keep();
        call.note(&format!("your edited text is in {}", kept.display()));
    }
    sent
}

fn set(
    call: &mut Call,
    path: &[&str],
    policy: elevo_policy::Policy,
    expected_version: Option<u64>,
) -> anyhow::Result<()> {
    let wish = api::SetPolicy {
        policy,
        expected_version,
    };
    let request = call.client.request(Method::PUT, path).json(&wish);
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
