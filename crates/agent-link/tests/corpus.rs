//! Replays the fuzzer's corpus of agent messages.

#[allow(unreachable_pub, reason = "the fuzzers use this file as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_message_of_the_corpus_is_received_within_bounds() {
    corpus::replay("agent_messages", elevo_agent_link::receive_anything);
}
