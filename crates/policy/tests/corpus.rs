//! Replays the corpora of the fuzzers.

#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;
#[allow(unreachable_pub, reason = "it is a part of the fuzzers as well")]
#[path = "../../../fuzz/src/policy.rs"]
mod policy;

#[test]
fn every_policy_of_the_corpus_gives_the_access_of_a_rule() {
    corpus::replay("policy_rules", policy::rules);
}

#[test]
fn every_gitignore_of_the_corpus_matches_like_an_equal_policy() {
    corpus::replay("policy_ignores", policy::ignores);
}
