//! Reads the inputs that the fuzzer has kept.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_row_of_the_corpus_has_one_stored_form_or_is_rejected() {
    corpus::replay("catalog_row", elevo_catalog::read_any_row);
}
