//! Descriptions of projects and of their changes.

use elevo_api as api;

use crate::client::Call;
use crate::client::merge::change_letter;
use crate::options::retention;
use crate::output::format::{self, first_line};
use crate::output::notes::field;
use crate::output::relative_time::relative;

pub(crate) fn print_project(call: &mut Call, project: &api::Project) -> anyhow::Result<()> {
    if call.output.is_json() {
        call.output.value(project)?;
        return Ok(());
    }
    let time = |time: &str| format!("{time} ({})", relative(time));
    let holds = project.entries.zip(project.bytes);
    let holds = holds.map(|(entries, bytes)| format::totals(entries, bytes));
    let lines = [
        ("name", project.name.clone()),
        ("id", project.id.clone()),
        ("for", project.description.clone().unwrap_or_default()),
        ("head", project.head.clone()),
        ("steps", project.step.to_string()),
        ("holds", holds.unwrap_or_default()),
        ("policy", format!("version {}", project.policy_version)),
        ("keeps", retention::retention_text(project.retention)),
        ("created", time(&project.created_at)),
        ("changed", time(&project.updated_at)),
    ];
    for (name, value) in lines {
        if !value.is_empty() {
            field(&mut call.output, name, &value)?;
        }
    }
    Ok(())
}

/// Formats a change: a letter, the path, and the path it was moved from.
pub(crate) fn change_line(call: &Call, version: &api::FileVersion) -> Vec<u8> {
    let (letter, style) = change_letter(&version.kind);
    let mut text = String::new();
    if let Some(from) = &version.from {
        text += &format!("{} -> ", first_line(from));
    }
    text += &first_line(&version.path);
    if version.entries > 1 {
        text += &format!(" ({})", format::count(version.entries, "entry", "entries"));
    }
    let letter = call.output.styled(style, letter);
    [&letter[..], b"  ", text.as_bytes()].concat()
}
