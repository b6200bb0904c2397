//! Large commits and imports, compared with bare uploads of the same bytes.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{Commit, Object, Store};
use elevo_objects::Kind;
use elevo_testkit::wire::Wire;

use super::Place;
use super::peer::Uploads;
use crate::cluster::Bench;
use crate::data::{Mixed, noise, write_to_disk};
use crate::engine::fixture::{create_store, import_all, repository};
use crate::measure::Samples;
use crate::peers::read_and_hash;
use crate::report::{Bar, Row, Unit};
use crate::suite::say;

const COMMIT_BYTES: usize = 64 << 20;
const CHUNK_BYTES: usize = 256 << 10;
const FILE_BYTES: usize = 16 << 20;
const IMPORT_BYTES: u64 = 1 << 30;
const ROUNDS: usize = 5;

pub(in crate::cluster) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    bench.runtime.block_on(async {
        let place = Place::new()?;
        let wire = Wire::http(place.s3.address());
        let change = |options: &mut elevo_store_cluster::Options| {
            options.bucket.endpoint = Some(format!("http://{}", wire.address()));
        };
        let counted = place.open(change).await?;
        counted.commit(TenantId::LOCAL, commit(0)).await?;
        let puts = wire.trips().trips as f64;
        counted.close().await?;
        let (store, uploads) = (place.open(|_| {}).await?, Uploads::open(&place)?);
        let mut times = [Samples::new(), Samples::new()];
        for round in 0..ROUNDS {
            for turn in 0..2 {
                let which = (round + turn) % 2;
                let commit = commit(1 + round as u64 * 2 + which as u64);
                let seconds = match which {
                    0 => {
                        let began = Instant::now();
                        store.commit(TenantId::LOCAL, commit).await?;
                        began.elapsed().as_secs_f64()
                    }
                    _ => uploads.put(&round.to_string(), files(&commit)).await?,
                };
                times[which].push(seconds);
            }
        }
        let [ours, bare] = times;
        Ok(vec![
            Row {
                name: "commit of 64 MiB".into(),
                unit: Unit::Milliseconds,
                ours: ours.figure(),
                peer: Some(("bare upload", bare.figure())),
                bar: Some(Bar::AtMostTimes(1.25)),
            },
            Row {
                name: "uploads of a commit of 64 MiB".into(),
                unit: Unit::Count,
                ours: Samples::of(puts).figure(),
                peer: None,
                bar: Some(Bar::AtMost(8.0)),
            },
        ])
    })
}

/// Chunks that cannot be compressed.
fn commit(number: u64) -> Commit {
    let chunk = |n: usize| {
        let data = Bytes::from(noise(CHUNK_BYTES, "large", number << 32 | n as u64));
        Object {
            key: Kind::Chunk.key(&data),
            data,
        }
    };
    Commit {
        objects: (0..COMMIT_BYTES / CHUNK_BYTES).map(chunk).collect(),
        ..Commit::default()
    }
}

/// The same bytes as files.
fn files(commit: &Commit) -> Vec<Bytes> {
    let bytes: Vec<u8> = commit
        .objects
        .iter()
        .flat_map(|one| one.data.to_vec())
        .collect();
    bytes
        .chunks(FILE_BYTES)
        .map(Bytes::copy_from_slice)
        .collect()
}

/// An import, compared with a local import and a bare upload of the same bytes at once.
pub(in crate::cluster) fn run_import(bench: &mut Bench) -> Result<Vec<Row>> {
    let bytes = bench.count(IMPORT_BYTES as usize) as u64;
    let mixed = Mixed::new(bytes);
    let tree = bench.scratch.join("mixed");
    say(&format!("making {} MiB of files", bytes >> 20));
    write_to_disk(&mixed, &tree)?;
    read_and_hash(&tree)?;
    let _inside = bench.runtime.enter();
    let mut times = [Samples::new(), Samples::new()];
    let mut uploaded = 0_u64;
    for round in 0..3 {
        // Each round has its own database, so that nothing is stored already.
        let place = Place::new()?;
        let store = bench.runtime.block_on(place.open(|_| {}))?;
        let store: Arc<dyn Store> = Arc::new(store);
        say("import");
        let began = Instant::now();
        import_all(&repository(&store), &tree, 2)?;
        times[0].push(began.elapsed().as_secs_f64());
        uploaded = bench
            .runtime
            .block_on(store.stored_bytes(TenantId::LOCAL))?;
        say("local import and upload");
        let uploads = Uploads::open(&place)?;
        let files: Vec<_> = (0..uploaded.div_ceil(FILE_BYTES as u64))
            .map(|n| Bytes::from(noise(FILE_BYTES, "import", n)))
            .collect();
        let local = create_store(&bench.scratch.join(format!("local-{round}")))?;
        let began = Instant::now();
        let upload = bench
            .runtime
            .spawn(async move { uploads.put("import", files).await });
        import_all(&repository(&local), &tree, 2)?;
        bench.runtime.block_on(upload)??;
        times[1].push(began.elapsed().as_secs_f64());
    }
    let [ours, peer] = times;
    say(&format!("{} MiB were uploaded", uploaded >> 20));
    Ok(vec![Row {
        name: format!("import of {} MiB", bytes >> 20),
        unit: Unit::Seconds,
        ours: ours.figure(),
        peer: Some(("local import and upload at once", peer.figure())),
        // 80 % of the rate.
        bar: Some(Bar::AtMostTimes(1.25)),
    }])
}
