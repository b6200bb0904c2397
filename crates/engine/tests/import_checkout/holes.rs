//! Files with holes.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

use elevo_engine::{ExistingContent, Progress, VerifyOptions, verify};
use futures::executor::block_on;
use proptest::prelude::*;

use crate::support::{self, noise, repository};
use crate::{import_snapshot, options, write_out};

#[test]
fn a_hole_stays_a_hole() {
    let (_, repository) = repository();
    let source = tempfile::tempdir().unwrap();
    let file = fs::File::create(source.path().join("sparse")).unwrap();
    file.set_len(50_000_000).unwrap();
    let snapshot = import_snapshot(&repository, source.path());
    let out = tempfile::tempdir().unwrap();
    write_out(
        &repository,
        &snapshot,
        out.path(),
        &ExistingContent::Unknown,
        &options(),
    )
    .unwrap();
    let metadata = fs::metadata(out.path().join("sparse")).unwrap();
    assert_eq!(metadata.len(), 50_000_000);
    assert!(
        metadata.blocks() * 512 < 1_000_000,
        "{} blocks",
        metadata.blocks()
    );
}

/// Uses the longest hole that the file system supports. Reading it byte by byte
/// would take too long.
#[test]
fn a_hole_of_any_length_costs_little() {
    let (store, repository) = repository();
    let source = tempfile::tempdir().unwrap();
    let file = fs::File::create(source.path().join("sparse")).unwrap();
    let length = [1 << 62, 15 << 40, 1 << 40]
        .into_iter()
        .find(|length| file.set_len(*length).is_ok())
        .unwrap();
    file.write_all_at(b"begins", 0).unwrap();
    file.write_all_at(b"the end", length - 7).unwrap();
    let snapshot = import_snapshot(&repository, source.path());
    assert_eq!(snapshot.tree.bytes, length);
    let (whole, progress) = (VerifyOptions::default(), Progress::new());
    let verified = verify(&*store, support::TENANT, &whole, &progress);
    assert!(block_on(verified).unwrap().is_whole());
    let out = tempfile::tempdir().unwrap();
    let present = ExistingContent::Unknown;
    write_out(&repository, &snapshot, out.path(), &present, &options()).unwrap();
    let out = fs::File::open(out.path().join("sparse")).unwrap();
    let metadata = out.metadata().unwrap();
    assert_eq!(metadata.len(), length);
    assert!(metadata.blocks() * 512 < 2_000_000, "{metadata:?}");
    let (mut begin, mut end) = ([0; 8], [0; 8]);
    out.read_exact_at(&mut begin, 0).unwrap();
    out.read_exact_at(&mut end, length - 8).unwrap();
    assert_eq!((&begin, &end), (b"begins\0\0", b"\0the end"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_file_with_holes_is_read_as_if_it_had_none(
        pieces in prop::collection::vec((0..3_000_000_u64, 0..200_000_usize), 0..5),
        tail in prop_oneof![Just(0), 0..3_000_000_u64],
    ) {
        let [sparse, full] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let file = fs::File::create(sparse.path().join("file")).unwrap();
        let mut data = Vec::new();
        for (hole, length) in pieces {
            data.resize(data.len() + hole as usize, 0);
            let piece = noise(hole, length);
            file.write_all_at(&piece, data.len() as u64).unwrap();
            data.extend_from_slice(&piece);
        }
        data.resize(data.len() + tail as usize, 0);
        file.set_len(data.len() as u64).unwrap();
        fs::write(full.path().join("file"), &data).unwrap();
        let (_, repository) = repository();
        let [sparse, full] = [sparse, full].map(|from| import_snapshot(&repository, from.path()));
        prop_assert_eq!(sparse.tree, full.tree);
    }
}
