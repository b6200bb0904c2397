//! Imports a directory into an empty store as a durable snapshot.

use anyhow::{Result, ensure};

use super::fixture::{Bench, create_store, import_all, repository};
use crate::data::{Dataset, Mixed, write_to_disk};
use crate::measure::{Contender, interleave, timed};
use crate::peers::{Git, Restic, read_and_hash};
use crate::report::{Bar, Figure, Row, Unit};
use crate::suite::say;

const ROUNDS: usize = 3;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let tree = bench.fresh("mixed");
    let mixed = Mixed::new(bench.sizes.mixed);
    say(&format!(
        "making {} files, {} bytes",
        mixed.files(),
        mixed.bytes()
    ));
    write_to_disk(&mixed, &tree)?;
    // Reads everything once, so that it is in memory for all contenders.
    let read = read_and_hash(&tree)?;
    ensure!(read == mixed.bytes(), "read {read} bytes");
    let contenders: [Contender<'_>; 4] = [
        Box::new(|| {
            say("import");
            let repository = repository(&create_store(&bench.fresh("import"))?);
            Ok(timed(|| import_all(&repository, &tree, bench.threads))?.0)
        }),
        Box::new(|| {
            say("git add");
            Git::init(&bench.fresh("git-add"), &tree)?.time_to_add_all()
        }),
        Box::new(|| {
            say("restic backup");
            Restic::init(&bench.fresh("restic-backup"))?.time_to_back_up(&tree)
        }),
        Box::new(|| Ok(timed(|| read_and_hash(&tree))?.0)),
    ];
    let [ours, git, restic, floor] =
        interleave(ROUNDS, contenders)?.map(|samples| samples.figure());
    let size = format!("{} MiB", bench.sizes.mixed >> 20);
    Ok(rows(
        &size,
        ours,
        [
            ("git add", git),
            ("restic backup", restic),
            ("read+hash", floor),
        ],
    ))
}

fn rows(size: &str, ours: Figure, peers: [(&'static str, Figure); 3]) -> Vec<Row> {
    let [git, restic, _] = peers;
    let better = if git.1.median < restic.1.median {
        git
    } else {
        restic
    };
    let bar = Row {
        name: format!("import of {size} vs the better of git and restic"),
        unit: Unit::Seconds,
        ours,
        peer: Some(better),
        bar: Some(Bar::TimesFaster(2.0)),
    };
    let plain = peers.map(|peer| Row {
        name: format!("import of {size} vs {}", peer.0),
        peer: Some(peer),
        bar: None,
        ..bar.clone()
    });
    [bar].into_iter().chain(plain).collect()
}
