use clap::Args;
use elevo_objects::Tree;
use serde_json::json;

use crate::local::read_directory::check_apart;
use crate::local::revision::{HEAD, reference_at};
use crate::local::session::Session;
use crate::local::working_tree::{WorkingTree, base_of};
use crate::output::format::short;
use crate::output::tree_diff::{DiffOptions, print_tree_diff};

/// List the uncommitted changes in the working directory.
#[derive(Debug, Args)]
#[command(after_help = "\
Compares the working directory with the snapshot of its last commit or checkout.
A letter stands for each change: A added, D removed, M content, P permissions,
T type. Ignored files are left out. With --json, the directory, then one object
per change.

Examples:
  elevo status
  elevo status --json
  elevo diff -p                    the changes as a patch")]
pub(crate) struct Status {}

pub(crate) fn run(session: &mut Session) -> anyhow::Result<()> {
    let (place, directory) = session.working_place(None)?;
    check_apart(&place.store, &directory)?;
    let repository = session.view_of(&place)?.repository;
    let head = reference_at(&repository, HEAD)?;
    let base = base_of(&repository, &directory)?;
    let base_id = base.as_ref().map(|(id, _)| *id);
    let before = base.map_or(Tree::EMPTY, |(_, snapshot)| snapshot.tree);
    let now = WorkingTree::scan(session, &repository, &place.store, &directory, vec![before])?;
    if session.output.is_json() {
        session.output.value(&json!({
            "directory": directory.to_string_lossy(),
            "snapshot": base_id.map(|id| id.to_string()),
            "head": head.map(|id| id.to_string()),
            "changed": now.tree != before,
        }))?;
    }
    match base_id {
        None => session.note("nothing has been committed yet"),
        Some(id) if now.tree == before => {
            session.note(&format!("nothing changed since {}", short(id)));
        }
        Some(_) => {}
    }
    if let (Some(base), Some(head)) = (base_id, head)
        && base != head
    {
        let (base, head) = (short(base), short(head));
        session.note(&format!("this directory is at {base}, and head is {head}"));
    }
    let shown = DiffOptions::names();
    print_tree_diff(session, &now.repository, before, now.tree, shown)?;
    Ok(())
}
