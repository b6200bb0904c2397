//! What the fuzzer kept is read again.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_archive_of_the_corpus_is_read_to_an_end() {
    corpus::replay("tar_reader", elevo_archive::read_anything);
}
