//! Replays the corpus of the fuzzer.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_stat_cache_of_the_corpus_is_read_and_continued() {
    let directory = tempfile::tempdir().expect("there is room for it");
    let path = directory.path().join("stat");
    corpus::replay("engine_stat_cache", |data| {
        elevo_engine::read_any_stat_cache(&path, data);
    });
}
