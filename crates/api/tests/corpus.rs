//! Replays the corpus of the fuzzers.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/events.rs"]
mod events;

#[test]
fn every_stream_of_the_corpus_gives_the_same_events_wherever_it_is_cut() {
    corpus::replay("events_stream", events::stream);
}
