//! Reads the inputs that the fuzzers have kept.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/policy.rs"]
mod policy;

#[test]
fn every_policy_of_the_corpus_answers_as_its_rules_say() {
    corpus::replay("policy_rules", policy::rules);
}

#[test]
fn every_gitignore_of_the_corpus_ignores_or_does_not() {
    corpus::replay("policy_ignores", policy::ignores);
}
