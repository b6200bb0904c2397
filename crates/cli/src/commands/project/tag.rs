//! Tags of a project, which name versions and keep their files.

use clap::Args;
use elevo_api as api;
use reqwest::Method;
use serde_json::json;

use crate::client::names::{Noun, find};
use crate::client::paths::project_path;
use crate::client::project_state::resolve_some;
use crate::client::{Call, pages};
use crate::output::format::short_text;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// Set, list, move and delete tags of a project.
#[derive(Debug, Args)]
#[command(after_help = "\
A tag names a version for other commands and keeps its files, regardless of the
project's retention. Without TAG, lists all tags.

Examples:
  elevo project tag site                       list
  elevo project tag site v1                    name the head
  elevo project tag site good 12 -m \"as shown\"
  elevo project tag site good head --move
  elevo project tag site good --delete
  elevo project diff site v1..head")]
pub(super) struct Tag {
    /// The project, by name or id
    name: String,

    /// The tag: letters, digits, `.`, `_` and `-`
    tag: Option<String>,

    /// Version to name; by default `head`
    #[arg(value_name = "REV", conflicts_with = "delete")]
    snapshot: Option<String>,

    /// Message that explains the tag
    #[arg(
        short,
        long,
        value_name = "TEXT",
        requires = "tag",
        conflicts_with = "delete"
    )]
    message: Option<String>,

    /// Move the tag if it names another version
    #[arg(long = "move", requires = "tag", conflicts_with = "delete")]
    may_move: bool,

    /// Delete the tag; the project's retention then applies to the version
    #[arg(short, long, requires = "tag")]
    delete: bool,
}

pub(super) fn run(call: &mut Call, mut args: Tag) -> anyhow::Result<()> {
    args.name = find(call, Noun::Project, &args.name)?;
    match args.tag.clone() {
        None => list(call, &args.name),
        Some(tag) if args.delete => delete(call, &args.name, &tag),
        Some(tag) => set(call, args, tag),
    }
}

fn set(call: &mut Call, args: Tag, tag: String) -> anyhow::Result<()> {
    let wish = api::SetTag {
        name: tag,
        snapshot: resolve_some(call, &args.name, args.snapshot.as_ref())?,
        message: args.message.unwrap_or_default(),
        may_move: args.may_move,
    };
    let path = project_path(&args.name, &["tags"]);
    let request = call.client.request(Method::POST, &path).json(&wish);
    let set: api::Tag = call.wait(call.client.json(request))?;
    match call.output.is_json() {
        true => call.output.value(&set)?,
        false => {
            let (name, id) = (&set.name, short_text(&set.snapshot));
            call.output.line(format!("{name} is {id}"))?;
        }
    }
    Ok(())
}

fn delete(call: &mut Call, name: &str, tag: &str) -> anyhow::Result<()> {
    let path = project_path(name, &["tags", tag]);
    let request = call.client.request(Method::DELETE, &path);
    call.wait(call.client.done(request))?;
    match call.output.is_json() {
        true => call.output.value(&json!({ "deleted": tag }))?,
        false => call.output.line(format!("Deleted {tag}"))?,
    }
    Ok(())
}

fn list(call: &mut Call, name: &str) -> anyhow::Result<()> {
    let path = project_path(name, &["tags"]);
    let mut table = Table::new(&["TAG", "STEP", "SNAPSHOT", "SET", "WHY"]);
    let found = pages(call, &path, &[], |call, items: Vec<api::Tag>| {
        for tag in &items {
            match call.output.is_json() {
                true => call.output.value(tag)?,
                false => table.row([
                    tag.name.clone(),
                    tag.step.unwrap_or(0).to_string(),
                    short_text(&tag.snapshot),
                    relative(&tag.created_at),
                    tag.message.clone(),
                ]),
            }
        }
        Ok(())
    })?;
    match (call.output.is_json(), found) {
        (true, _) => Ok(()),
        (false, 0) => {
            call.note("there are no tags; `elevo project tag NAME TAG` names the newest version");
            Ok(())
        }
        (false, _) => table.print(&mut call.output),
    }
}
