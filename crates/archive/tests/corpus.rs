//! Replays the corpus of the fuzzer.

#[allow(unreachable_pub, reason = "shared with the fuzz targets")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_archive_of_the_corpus_is_read_to_an_end() {
    corpus::replay("tar_reader", elevo_archive::read_anything);
}
