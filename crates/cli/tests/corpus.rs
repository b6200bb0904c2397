//! Replays the corpus of the fuzzers.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/door.rs"]
mod door;

#[test]
fn every_call_of_the_corpus_is_read_as_it_was_written() {
    corpus::replay("door_frames", door::frames);
}
