use clap::Args;

use crate::client::Call;
use crate::client::policy::{get_policy, set_policy};
use crate::input::editor;
use crate::options::policy::{parse_policy, pretty_policy};

/// Change the policy of a project in an editor.
#[derive(Debug, Args)]
#[command(after_help = "\
Opens the policy in $VISUAL or $EDITOR and sets it, unless it was changed by
another request in the meantime.

Examples:
  elevo project policy edit site")]
pub(super) struct Edit {
    /// The project, by name or id
    name: String,
}

pub(super) fn run(call: &mut Call, args: &Edit) -> anyhow::Result<()> {
    let found = get_policy(call, &args.name)?;
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
        .and_then(|policy| set_policy(call, &args.name, policy, Some(found.version)));
    // Keep the user's edits.
    if sent.is_err() {
        let kept = edited.keep();
        call.note(&format!("your edited text is in {}", kept.display()));
    }
    sent
}
