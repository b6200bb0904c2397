use std::sync::Arc;

use clap::Args;
use elevo_core::TenantId;
use elevo_engine::{Damage, Progress, Verified, VerifyOptions, verify};
use elevo_objects::{Kind, SnapshotId};
use elevo_store_local::{LocalStore, keep_still};
use serde_json::{Value, json};

use crate::bar::{self, Watch};
use crate::errors::Exit;
use crate::format::{bytes, count, path_text, short};
use crate::output::IDENTITY;
use crate::session::{Session, wait};
use crate::shapes::PathShape;

/// Maximum number of paths printed for a damaged object.
const PLACES: usize = 5;

/// Read all data of a store and report damage.
#[derive(Debug, Args)]
#[command(after_help = "\
The command reads and hashes every object, whether a snapshot needs it or not.
Then it walks all snapshots, to find missing objects and the paths that need
damaged ones. To verify a backup, name it with --store.

Exit code 6 means that damage was found.

Examples:
  elevo state verify
  elevo state verify --store /backups/2026-03-01T02-00-00Z
  elevo state verify --json | jq -r '.damage[].places[].path'")]
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
        None => Some(keep_still(&place.store, session.options().wait)?),
    };
    let store = session.read_local(&place)?;
    let mut is_whole = true;
    for tenant in tenants(&store)? {
        let found = check(session, &store, tenant, args.list)?;
        is_whole &= found.is_whole();
        print(session, tenant, &found)?;
    }
    if !is_whole {
        session.note("`elevo state repair --from PATH` restores lost data from another store, a backup or a directory");
        return Ok(Exit::Damaged);
    }
    Ok(Exit::Done)
}

/// The tenants with data in the store; the local tenant if the store is empty.
pub(super) fn tenants(store: &LocalStore) -> anyhow::Result<Vec<TenantId>> {
    let mut tenants = store.tenants()?;
    if tenants.is_empty() {
        tenants.push(TenantId::LOCAL);
    }
    Ok(tenants)
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
    let found = bar::watch(session.hides_progress(), watch, || {
        wait(verify(store.as_ref(), tenant, &options, &progress))
    });
    Ok(found?)
}

fn print(session: &mut Session, tenant: TenantId, found: &Verified) -> anyhow::Result<()> {
    if session.output.is_json() {
        let mut value = value(found);
        value["tenant"] = json!(tenant.to_string());
        session.output.value(&value)?;
        return Ok(());
    }
    if tenant != TenantId::LOCAL {
        session.output.line(format!("Tenant {tenant}:"))?;
    }
    print_damage(session, found)
}

/// Prints the result for people.
pub(super) fn print_damage(session: &mut Session, found: &Verified) -> anyhow::Result<()> {
    let output = &mut session.output;
    for Damage {
        key,
        problem,
        needed,
        places,
    } in &found.damage
    {
        let hash = short(SnapshotId(key.hash));
        let id = String::from_utf8(output.styled(IDENTITY, &hash)).unwrap_or(hash);
        let use_less = if *needed { "" } else { "; nothing needs it" };
        output.line(format!("{} {id}: {problem}{use_less}", word(key.kind)))?;
        for place in places.iter().take(PLACES) {
            let path = match path_text(place.path.as_bytes()) {
                path if path.is_empty() => ".".into(),
                path => path,
            };
            output.line(format!("  in {} {path}", short(place.snapshot)))?;
        }
        if places.len() > PLACES {
            output.line(format!("  and {} more", places.len() - PLACES))?;
        }
    }
    if found.more_damage > 0 {
        output.line(format!("and {} more", found.more_damage))?;
    }
    for name in &found.lost_references {
        let name = path_text(name.as_bytes());
        output.line(format!("reference {name}: points to no snapshot"))?;
    }
    if found.gaps > 0 {
        let parts = count(found.gaps, "part", "parts");
        output.line(format!("{parts} of the store's tables cannot be read"))?;
    }
    let read = format!(
        "Read {} of {}, {} and {}",
        count(found.objects, "object", "objects"),
        bytes(found.bytes),
        count(found.snapshots, "snapshot", "snapshots"),
        count(found.references, "reference", "references"),
    );
    let verdict = match found.is_whole() {
        true => "no damage".into(),
        false => format!(
            "damage affects {} of {}",
            count(found.paths_touched, "path", "paths"),
            count(found.snapshots_touched, "snapshot", "snapshots")
        ),
    };
    output.line(format!("{read}: {verdict}"))?;
    Ok(())
}

/// The result as JSON.
pub(super) fn value(found: &Verified) -> Value {
    let damage = found.damage.iter().map(|damage| {
        let places = damage.places.iter().map(|place| {
            let mut value = json!(PathShape::new(place.path.as_bytes()));
            value["snapshot"] = json!(place.snapshot.to_string());
            value
        });
        json!({
            "kind": word(damage.key.kind),
            "hash": damage.key.hash.to_string(),
            "problem": damage.problem.to_string(),
            "needed": damage.needed,
            "places": places.collect::<Vec<_>>(),
        })
    });
    json!({
        "whole": found.is_whole(),
        "objects": found.objects,
        "bytes": found.bytes,
        "snapshots": found.snapshots,
        "references": found.references,
        "damage": damage.collect::<Vec<_>>(),
        "more_damage": found.more_damage,
        "gaps": found.gaps,
        "lost_references": found.lost_references,
        "snapshots_touched": found.snapshots_touched,
        "paths_touched": found.paths_touched,
    })
}

const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Chunk => "chunk",
        Kind::Directory => "directory",
        Kind::Times => "times",
        Kind::ChunkList => "file",
        Kind::Snapshot => "snapshot",
    }
}
