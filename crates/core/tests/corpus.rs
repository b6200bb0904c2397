//! Replays the fuzzer's corpus of paths.

#[allow(unreachable_pub, reason = "the fuzzers share this module")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[allow(unreachable_pub, reason = "the fuzzers share this module")]
#[path = "../../../fuzz/src/path.rs"]
mod path;

#[test]
fn every_path_of_the_corpus_stays_inside_the_tree_or_is_rejected() {
    corpus::replay("core_path", path::path);
}
