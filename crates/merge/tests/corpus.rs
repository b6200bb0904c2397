//! What the fuzzers kept is merged again.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/merge.rs"]
mod merge;

#[test]
fn every_file_of_the_corpora_is_merged() {
    for driver in ["text", "json", "yaml", "toml", "crdt"] {
        let target = format!("merge_{driver}");
        corpus::replay(&target, |versions| merge::merge(driver, versions));
    }
}
