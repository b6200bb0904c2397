//! Damage in a store, as `verify` and `repair` report it.

use elevo_engine::{Damage, Verified};
use elevo_objects::{Kind, SnapshotId};
use serde_json::{Value, json};

use crate::local::session::Session;
use crate::output::IDENTITY;
use crate::output::format::{bytes, count, path_text, short};
use crate::output::json::PathShape;

/// Maximum number of paths printed for a damaged object.
const PLACES: usize = 5;

/// Prints the result for people.
pub(crate) fn print_damage(session: &mut Session, found: &Verified) -> anyhow::Result<()> {
    let output = &mut session.output;
    for Damage {
        key,
        kind,
        needed,
        paths,
    } in &found.damage
    {
        let hash = short(SnapshotId(key.hash));
        let id = String::from_utf8(output.styled(IDENTITY, &hash)).unwrap_or(hash);
        let use_less = if *needed { "" } else { "; nothing needs it" };
        output.line(format!("{} {id}: {kind}{use_less}", word(key.kind)))?;
        for place in paths.iter().take(PLACES) {
            let path = match path_text(place.path.as_bytes()) {
                path if path.is_empty() => ".".into(),
                path => path,
            };
            output.line(format!("  in {} {path}", short(place.snapshot)))?;
        }
        if paths.len() > PLACES {
            output.line(format!("  and {} more", paths.len() - PLACES))?;
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
pub(crate) fn damage_shape(found: &Verified) -> Value {
    let damage = found.damage.iter().map(|damage| {
        let places = damage.paths.iter().map(|place| {
            let mut value = json!(PathShape::new(place.path.as_bytes()));
            value["snapshot"] = json!(place.snapshot.to_string());
            value
        });
        json!({
            "kind": word(damage.key.kind),
            "hash": damage.key.hash.to_string(),
            "problem": damage.kind.to_string(),
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
