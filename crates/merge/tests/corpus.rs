//! What the fuzzer kept is merged again.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

#[allow(unreachable_pub, reason = "it is the library of the fuzzers as well")]
#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

use std::fs;
use std::path::Path;

#[test]
fn every_file_of_the_corpora_is_merged() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for driver in ["text", "json", "yaml", "toml", "crdt"] {
        let files = fs::read_dir(corpora.join(format!("merge_{driver}"))).unwrap();
        let mut count = 0;
        for file in files {
            fuzz::merge(driver, &fs::read(file.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 1, "{driver} has {count}");
    }
}
