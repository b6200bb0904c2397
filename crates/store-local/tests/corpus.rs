//! What the fuzzers kept is read again.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_chunk_of_the_corpus_is_read_back_or_refused() {
    corpus::replay("store_chunk", elevo_store_local::read_any_chunk);
}

#[test]
fn every_row_of_the_corpus_is_written_in_one_way_or_refused() {
    corpus::replay("store_row", elevo_store_local::read_any_row);
}

#[test]
fn every_list_of_the_corpus_is_one_of_files_in_a_directory_or_refused() {
    corpus::replay("store_backup", elevo_store_local::read_any_backup);
}
