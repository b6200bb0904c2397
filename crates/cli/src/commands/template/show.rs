use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::pages::items;
use crate::client::paths::TEMPLATES;
use crate::errors::SandboxProblem;
use crate::output::format;
use crate::output::notes::field;
use crate::output::relative_time::relative;

/// Describe a template
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo template show python:3.11
  elevo template show python:3.11 --json | jq -r .image")]
pub(super) struct Show {
    /// The template
    name: String,
}

pub(super) fn run(call: &mut Call, args: &Show) -> anyhow::Result<()> {
    let list: Vec<api::Template> = call.wait(items(&call.client, &TEMPLATES, &[], usize::MAX))?;
    let found = list.into_iter().find(|it| it.name == args.name);
    let found = found.ok_or_else(|| SandboxProblem::UnknownTemplate(args.name.clone()))?;
    if call.output.is_json() {
        return Ok(call.output.value(&found)?);
    }
    let root = match found.writable_root {
        true => "writable",
        false => "read-only",
    };
    let lines = [
        ("name", found.name),
        ("image", found.image),
        ("size", format::bytes(found.size)),
        ("for", found.description.unwrap_or_default()),
        ("tags", found.tags.join(", ")),
        ("root", root.to_owned()),
        (
            "created",
            format!("{} ({})", found.created_at, relative(&found.created_at)),
        ),
    ];
    for (name, value) in lines {
        if !value.is_empty() {
            field(&mut call.output, name, &value)?;
        }
    }
    Ok(())
}
