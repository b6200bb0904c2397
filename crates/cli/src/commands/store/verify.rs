use std::path::PathBuf;

use clap::Args;
use elevo_core::TenantId;
use elevo_engine::{Progress, Verified, VerifyOptions, verify};
use elevo_server::Compared;
use elevo_store_local::block_writers;
use serde_json::json;

use crate::commands::store::opened::{Opened, database, runtime, url};
use crate::errors::Exit;
use crate::local::session::Session;
use crate::local::wait::wait;
use crate::output::damage::{damage_shape, print_damage};
use crate::output::format::count;
use crate::output::progress::{self, Watch};

/// Read all data of a store and report damage.
#[derive(Debug, Args)]
#[command(after_help = "\
The command reads and hashes every object, whether a snapshot needs it or not.
Then it walks all snapshots, to find missing objects and the paths that need
damaged ones. To verify a backup, name it as STORE.

STORE is a directory, or the URL of a PostgreSQL database:
postgres://USER@HOST:PORT/DATABASE. The settings of its bucket are those of
`elevo store copy`. The command then also compares the bucket with the database:
a missing file is damage; a file that the database does not name is only
counted. Servers may run meanwhile: an object or a file that they delete is not
damage.

Exit code 6 means that damage was found.

Examples:
  elevo store verify
  elevo store verify /backups/2026-03-01T02-00-00Z
  elevo store verify postgres://elevo@db1,db2/elevo --config /etc/elevo/elevo.toml
  elevo store verify --json | jq -r '.damage[]?.places[].path'")]
pub(crate) struct Verify {
    /// The store: a directory or a URL; by default that of --store
    #[arg(value_name = "STORE")]
    pub(super) place: Option<PathBuf>,

    /// TOML file with the settings of the bucket
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Maximum number of damaged objects, paths and references to list; the
    /// rest is counted
    #[arg(long, value_name = "N", default_value_t = 1000)]
    list: usize,
}

pub(crate) fn run(session: &mut Session, args: &Verify) -> anyhow::Result<Exit> {
    let is_whole = match args.place.as_deref().and_then(url) {
        Some(url) => {
            let runtime = runtime()?;
            let _inside = runtime.enter();
            let place = database(url, args.config.as_deref())?;
            verify_all(session, &Opened::shared(&place)?, args.list)?
        }
        None => verify_directory(session, args.list)?,
    };
    if !is_whole {
        session.note("`elevo store repair [STORE] --from PATH` restores lost data from another store, a backup or a directory");
        return Ok(Exit::Damaged);
    }
    Ok(Exit::Done)
}

fn verify_directory(session: &mut Session, listed: usize) -> anyhow::Result<bool> {
    let place = session.place(None)?;
    // Keep writers out: objects that they delete would look like damage.
    let _still = match session.held(&place) {
        Some(_) => None,
        None => Some(block_writers(&place.store, session.options().wait)?),
    };
    let store = session.read_local(&place)?;
    verify_all(session, &Opened::local(store), listed)
}

/// Verifies all tenants. Returns whether the store is whole.
fn verify_all(session: &mut Session, store: &Opened, listed: usize) -> anyhow::Result<bool> {
    let mut is_whole = true;
    for tenant in store.tenants()? {
        let found = check(session, store, tenant, listed)?;
        is_whole &= found.is_whole();
        print(session, tenant, &found)?;
    }
    if let Some(compared) = store.compare_files()? {
        is_whole &= compared.missing == 0;
        print_compared(session, &compared)?;
    }
    Ok(is_whole)
}

fn check(
    session: &Session,
    store: &Opened,
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
        wait(verify(&*store.store, tenant, &options, &progress))
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

fn print_compared(session: &mut Session, compared: &Compared) -> anyhow::Result<()> {
    let Compared {
        files,
        missing,
        unknown,
        examples,
    } = compared;
    if session.output.is_json() {
        session.output.value(&json!({
            "whole": *missing == 0,
            "files": files,
            "missing": missing,
            "unknown": unknown,
            "examples": examples,
        }))?;
        return Ok(());
    }
    let problem = match (missing, unknown) {
        (_, 0) => "missing",
        (0, _) => "not in the database",
        _ => "missing, or not in the database",
    };
    for name in examples {
        session.output.line(format!("file {name}: {problem}"))?;
    }
    let files = count(*files, "file", "files");
    let verdict = match missing {
        0 => "none is missing".into(),
        _ => format!("{} missing", count(*missing, "is", "are")),
    };
    session
        .output
        .line(format!("Compared {files} in the bucket: {verdict}"))?;
    if *unknown > 0 {
        let unknown = count(*unknown, "file", "files");
        session.note(&format!(
            "the database does not name {unknown} in the bucket: no server reads them, but a \
             backup of the database may need them"
        ));
    }
    Ok(())
}
