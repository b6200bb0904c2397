//! What the fuzzer kept is read again.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_row_of_the_corpus_is_kept_in_one_way_or_is_none() {
    corpus::replay("catalog_row", elevo_catalog::read_any_row);
}
