//! Replays the corpus of the fuzzer.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn parses_every_log_of_the_corpus_and_writes_it_again() {
    corpus::replay("workspace_registry", elevo_workspace::read_any_registry);
}
