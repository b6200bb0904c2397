//! Replays the corpus of the fuzzers.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/objects.rs"]
mod objects;

#[test]
fn every_node_of_the_corpus_has_one_encoding_or_is_rejected() {
    corpus::replay("objects_node", objects::node);
}

#[test]
fn every_snapshot_of_the_corpus_has_one_encoding_or_is_rejected() {
    corpus::replay("objects_snapshot", objects::snapshot);
}
