//! Replays the merge corpora of the fuzzers.

#[allow(unreachable_pub, reason = "shared with the fuzz targets")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[allow(unreachable_pub, reason = "shared with the fuzz targets")]
#[path = "../../../fuzz/src/merge.rs"]
mod merge;

#[test]
fn every_file_of_the_corpora_is_merged() {
    for driver in ["text", "json", "yaml", "toml", "crdt"] {
        let target = format!("merge_{driver}");
        corpus::replay(&target, |versions| merge::merge(driver, versions));
    }
}
