use std::sync::Arc;

use clap::Args;
use elevo_core::TenantId;
use elevo_engine::{Progress, Verified, VerifyOptions, verify};
use elevo_store_local::{LocalStore, block_writers};
use serde_json::json;

use crate::errors::Exit;
use crate::local::session::Session;
use crate::local::wait::wait;
use crate::output::damage::{damage_shape, print_damage, tenants};
use crate::output::progress::{self, Watch};

/// Read all data of a store and report damage.
#[derive(Debug, Args)]
#[command(after_help = "\
The command reads and hashes every object, whether a snapshot needs it or not.
Then it walks all snapshots, to find missing objects and the paths that need
damaged ones. To verify a backup, name it with --store.

Exit code 6 means that damage was found.

Examples:
  elevo store verify
  elevo store verify --store /backups/2026-03-01T02-00-00Z
  elevo store verify --json | jq -r '.damage[].places[].path'")]
pub(crate) struct Verify {
    /// Maximum number of damaged objects, paths and references to list; the
    /// rest is counted
    #[arg(long, value_name = "N", default_value_t = 1000)]
    list: usize,
}

pub(crate) fn run(session: &mut Session, args: &Verify) -> anyhow::Result<Exit> {
    let place = session.place(None)?;
    // Keep writers out: objects that they delete would look like damage.
    let _still = match session.held(&place) {
        Some(_) => None,
        None => Some(block_writers(&place.store, session.options().wait)?),
    };
    let store = session.read_local(&place)?;
    let mut is_whole = true;
    for tenant in tenants(&store)? {
        let found = check(session, &store, tenant, args.list)?;
        is_whole &= found.is_whole();
        print(session, tenant, &found)?;
    }
    if !is_whole {
        session.note("`elevo store repair --from PATH` restores lost data from another store, a backup or a directory");
        return Ok(Exit::Damaged);
    }
    Ok(Exit::Done)
}

fn check(
    session: &Session,
    store: &Arc<LocalStore>,
    tenant: TenantId,
    listed: usize,
) -> anyhow::Result<Verified> {
    let progress = Progress::new();
    let watch = Watch {
        doing: "verifying",
        things: "objects",
        total: None,
        counts: || (progress.entries(), progress.bytes()),
    };
    let options = VerifyOptions {
        listed,
        ..VerifyOptions::default()
    };
    let found = progress::watch(session.hides_progress(), watch, || {
        wait(verify(store.as_ref(), tenant, &options, &progress))
    });
    Ok(found?)
}

fn print(session: &mut Session, tenant: TenantId, found: &Verified) -> anyhow::Result<()> {
    if session.output.is_json() {
        let mut value = damage_shape(found);
        value["tenant"] = json!(tenant.to_string());
        session.output.value(&value)?;
        return Ok(());
    }
    if tenant != TenantId::LOCAL {
        session.output.line(format!("Tenant {tenant}:"))?;
    }
    print_damage(session, found)
}
