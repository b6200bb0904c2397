//! Reads the inputs that the fuzzer has kept.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/patch.rs"]
mod patch;

#[test]
fn every_patch_of_the_corpus_is_applied_to_the_byte_or_refused() {
    corpus::replay("patch_reader", patch::patch);
}
