//! What the fuzzer kept is read again.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/path.rs"]
mod path;

#[test]
fn every_path_of_the_corpus_leads_down_or_is_refused() {
    corpus::replay("core_path", path::path);
}
