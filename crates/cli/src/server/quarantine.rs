use clap::{Args, Subcommand};
use elevo_api::QuarantineList;
use reqwest::Method;
use serde_json::json;

use super::At;
use crate::errors::Exit;
use crate::service::{Call, Table, relative};

/// List and restore workspaces that the catalog does not know.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A workspace without a row in the catalog may have the only copy of unmerged
work. The server keeps it for 7 days (QUARANTINE_KEEP) and then deletes it.

Examples:
  elevo server quarantine ls
  elevo server quarantine restore ws-…"
)]
pub(crate) struct Quarantine {
    #[command(subcommand)]
    command: QuarantineCommand,
}

#[derive(Debug, Subcommand)]
enum QuarantineCommand {
    /// List workspaces in quarantine, oldest first
    #[command(after_help = "\
Examples:
  elevo server quarantine ls
  elevo server quarantine ls --json | jq -r .id")]
    Ls,
    /// Restore a workspace from quarantine
    #[command(after_help = "\
The workspace is then kept like one that outlives its sandbox.

Examples:
  elevo server quarantine restore ws-…")]
    Restore {
        /// Id of the workspace
        id: String,
    },
}

pub(super) fn run(at: &At, args: Quarantine) -> anyhow::Result<Exit> {
    at.ask(|call| match args.command {
        QuarantineCommand::Ls => ls(call),
        QuarantineCommand::Restore { id } => restore(call, &id),
    })
}

fn ls(call: &mut Call) -> anyhow::Result<()> {
    let list: QuarantineList = call.wait(call.client.get(&["quarantine"]))?;
    let mut table = Table::new(&["ID", "TENANT", "FOUND", "DELETED"]);
    for workspace in &list.items {
        if call.output.is_json() {
            call.output.value(workspace)?;
            continue;
        }
        table.row([
            workspace.id.clone(),
            workspace.tenant.clone(),
            relative(&workspace.found_at),
            relative(&workspace.deleted_at),
        ]);
    }
    match (call.output.is_json(), list.items.is_empty()) {
        (true, _) => {}
        (false, true) => call.note("the quarantine is empty"),
        (false, false) => table.print(&mut call.output)?,
    }
    Ok(())
}

fn restore(call: &mut Call, id: &str) -> anyhow::Result<()> {
    let path = ["quarantine", id, "restore"];
    call.wait(call.client.done(call.client.request(Method::POST, &path)))?;
    match call.output.is_json() {
        true => call.output.value(&json!({ "restored": id }))?,
        false => call.output.line(format!("Restored {id}"))?,
    }
    Ok(())
}
