//! Replays the corpus of the fuzzers.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_chunk_of_the_corpus_is_read_back_or_rejected() {
    corpus::replay("store_chunk", elevo_store_local::read_any_chunk);
}

#[test]
fn every_row_of_the_corpus_has_one_encoding_or_is_rejected() {
    corpus::replay("store_row", elevo_store_local::read_any_row);
}

#[test]
fn every_list_of_the_corpus_has_only_plain_names_or_is_rejected() {
    corpus::replay("store_backup", elevo_store_local::read_any_backup);
}
