//! What a fuzzer has found worth keeping is read again.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::path::Path;

#[test]
fn every_archive_of_the_corpus_is_read_to_an_end() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/tar_reader");
    let mut count = 0;
    for file in fs::read_dir(corpus).unwrap() {
        let file = file.unwrap().path();
        elevo_archive::read_anything(&fs::read(&file).unwrap());
        count += 1;
    }
    assert!(count >= 20, "{count} files");
}
