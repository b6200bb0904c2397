//! Resolves the names of agents in a policy to ids.
//!
//! A policy may name an agent by id or by name. Rules are compared with ids only,
//! so each name is replaced by the id of its agent before a policy is compiled.
//! An id stays with its agent when the agent is renamed.

use std::collections::{BTreeMap, BTreeSet};

use crate::compile::MAX_NAME_BYTES;
use crate::error::{MAX_PROBLEMS, PolicyError, Problem};
use crate::policy::{Member, Policy, Rule};

/// The agents that a policy may name.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    ids: BTreeSet<String>,
    by_name: BTreeMap<String, String>,
}

/// A policy that refers to every known agent by id.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The policy. A name without an agent stays as it is and matches no agent.
    pub policy: Policy,
    /// The names without an agent, and members that are listed twice; at most
    /// [`MAX_PROBLEMS`].
    pub problems: Vec<Problem>,
}

impl<I: Into<String>, N: Into<String>> FromIterator<(I, N)> for Agents {
    /// Collects pairs of id and name.
    fn from_iter<T: IntoIterator<Item = (I, N)>>(pairs: T) -> Self {
        let mut agents = Self::default();
        for (id, name) in pairs {
            let id = id.into();
            agents.by_name.insert(name.into(), id.clone());
            agents.ids.insert(id);
        }
        agents
    }
}

impl Agents {
    /// Returns the id of an agent. An id takes precedence over a name, so that an
    /// agent's name cannot shadow the id of another.
    fn id(&self, written: &str) -> Option<&str> {
        let id = self.ids.get(written);
        id.or_else(|| self.by_name.get(written)).map(String::as_str)
    }
}

impl Policy {
    /// Returns whether the policy names agents at all.
    pub fn names_agents(&self) -> bool {
        !self.members.is_empty() || self.rules.iter().any(|rule| rule.agents.is_some())
    }

    /// Replaces each agent's name by its id.
    pub fn bind(&self, agents: &Agents) -> Bound {
        let mut bound = Bound {
            policy: self.clone(),
            problems: Vec::new(),
        };
        for (index, rule) in self.rules.iter().enumerate() {
            bound.policy.rules[index].agents = bound.rule(index, rule, agents);
        }
        bound.policy.members = bound.members(&self.members, agents);
        bound
    }
}

impl Bound {
    /// Returns the policy if all its agents exist and it is otherwise valid. If
    /// not, returns its problems, at most [`MAX_PROBLEMS`].
    pub fn checked(self) -> Result<Policy, PolicyError> {
        let mut problems = self.problems;
        if let Err(invalid) = self.policy.compile() {
            problems.extend(invalid.problems);
        }
        problems.truncate(MAX_PROBLEMS);
        if problems.is_empty() {
            Ok(self.policy)
        } else {
            Err(PolicyError { problems })
        }
    }

    fn rule(&mut self, index: usize, rule: &Rule, agents: &Agents) -> Option<Vec<String>> {
        let written = rule.agents.as_ref()?.iter();
        let bound = written.map(|written| {
            agents.id(written).map(str::to_owned).unwrap_or_else(|| {
                self.unknown(format!("rules[{index}].agents"), written);
                written.clone()
            })
        });
        Some(bound.collect())
    }

    fn members(
        &mut self,
        members: &BTreeMap<String, Member>,
        agents: &Agents,
    ) -> BTreeMap<String, Member> {
        let mut bound = BTreeMap::new();
        for (written, member) in members {
            let Some(id) = agents.id(written) else {
                self.unknown("members".into(), written);
                bound.insert(written.clone(), member.clone());
                continue;
            };
            if id != written && members.contains_key(id) {
                let message = format!("`{written}` and `{id}` are the same agent; remove one");
                self.add("members".into(), message);
                continue;
            }
            bound.insert(id.to_owned(), member.clone());
        }
        bound
    }

    fn unknown(&mut self, at: String, written: &str) {
        let shown: String = written.chars().take(MAX_NAME_BYTES).collect();
        let message =
            format!("there is no agent `{shown}`; `elevo agent ls` lists their names and ids");
        self.add(at, message);
    }

    fn add(&mut self, at: String, message: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { at, message });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Access;

    fn agents() -> Agents {
        [
            ("agt-1", "alice"),
            ("agt-2", "bob"),
            // The name of this agent is the id of another one.
            ("agt-3", "agt-1"),
        ]
        .into_iter()
        .collect()
    }

    fn rule(agents: &[&str]) -> Rule {
        Rule {
            pattern: "src".into(),
            agents: Some(agents.iter().map(|&agent| agent.into()).collect()),
            access: Some(Access::Read),
            ..Rule::default()
        }
    }

    fn policy(named: &[&str], members: &[&str]) -> Policy {
        let members = members.iter();
        Policy {
            rules: vec![rule(named)],
            members: members
                .map(|&agent| (agent.into(), Member::default()))
                .collect(),
            ..Policy::default()
        }
    }

    #[test]
    fn names_become_ids_and_ids_stay() {
        let bound = policy(&["alice", "agt-2"], &["bob", "agt-1"]).bind(&agents());
        assert_eq!(bound.problems, []);
        let expected = policy(&["agt-1", "agt-2"], &["agt-1", "agt-2"]);
        assert_eq!(bound.checked().unwrap(), expected);
    }

    #[test]
    fn an_id_goes_before_a_name() {
        let bound = policy(&["agt-1"], &["agt-1"]).bind(&agents());
        assert_eq!(bound.policy, policy(&["agt-1"], &["agt-1"]));
    }

    #[test]
    fn unknown_agents_are_reported_with_all_other_problems() {
        let mut policy = policy(&["alice", "eve"], &["mallory"]);
        policy.rules.push(Rule {
            pattern: "a".into(),
            ..Rule::default()
        });
        let error = policy.bind(&agents()).checked().unwrap_err().to_string();
        for expected in ["agents: there is no agent `eve`", "`mallory`", "rules[1]"] {
            assert!(error.contains(expected), "{expected}: {error}");
        }
        assert!(!error.contains("alice"), "{error}");
    }

    #[test]
    fn a_member_is_listed_once() {
        let bound = policy(&["alice"], &["alice", "agt-1"]).bind(&agents());
        assert_eq!(bound.problems.len(), 1, "{:?}", bound.problems);
        assert_eq!(bound.policy.members.len(), 1);
    }

    #[test]
    fn at_most_a_hundred_problems_are_named() {
        let many: Vec<_> = (0..500).map(|index| format!("nobody-{index}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let error = policy(&many, &many).bind(&agents()).checked().unwrap_err();
        assert_eq!(error.problems.len(), MAX_PROBLEMS);
    }
}
