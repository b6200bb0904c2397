//! Reads the inputs that the fuzzers have kept.

#[allow(unreachable_pub, reason = "the fuzzers use this file as well")]
#[path = "../../../fuzz/src/audit.rs"]
mod audit;
#[allow(unreachable_pub, reason = "the fuzzers use this file as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_line_of_the_corpus_is_a_record_or_refused() {
    corpus::replay("audit_line", audit::lines);
}
