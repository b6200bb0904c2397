//! Compares the properties of random policies with a slow and simple model.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::BTreeMap;

use elevo_core::TreePath;
use elevo_policy::{Access, Ignores, Member, Policy, Rule, Strategy as Merge, View};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const AGENTS: [&str; 3] = ["ada", "bob", "eve"];
const ROLES: [&str; 2] = ["dev", "ops"];
const ACCESSES: [Access; 5] = [
    Access::None,
    Access::Read,
    Access::Append,
    Access::Write,
    Access::Full,
];

fn pattern() -> impl Strategy<Value = String> {
    let usual = ["a", "b", "ab", "*", "**", "a*", "?", "[ab]", "*b", "a?"];
    let braces = ["{a,b}", "{ab,*}", "{a/b,b}", "{**,a}"];
    let name = prop_oneof![4 => select(vec!["a", "b"]), 4 => select(usual.to_vec()), 1 => select(braces.to_vec())];
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

fn some_of(names: &'static [&'static str]) -> impl Strategy<Value = Option<Vec<String>>> {
    let names = subsequence(names.to_vec(), 1..=names.len());
    let names = names.prop_map(|names| names.into_iter().map(str::to_owned).collect());
    prop::option::weighted(0.3, names)
}

fn rule() -> impl Strategy<Value = Rule> {
    let parts = (
        pattern(),
        some_of(&AGENTS),
        some_of(&ROLES),
        select(ACCESSES.to_vec()),
    );
    parts.prop_map(|(pattern, agents, roles, access)| Rule {
        pattern,
        agents,
        roles,
        access: Some(access),
        merge: None,
    })
}

fn policy() -> impl Strategy<Value = Policy> {
    let roles = subsequence(ROLES.to_vec(), 0..=2);
    let members = prop::collection::vec((roles, -3..3), AGENTS.len());
    let parts = (
        prop::collection::vec(rule(), 0..6),
        select(ACCESSES.to_vec()),
        members,
    );
    parts.prop_map(|(rules, default, members)| {
        let members = AGENTS
            .iter()
            .zip(members)
            .map(|(agent, (roles, priority))| {
                let roles = roles.into_iter().map(str::to_owned).collect();
                ((*agent).to_owned(), Member { roles, priority })
            });
        Policy {
            rules,
            default,
            members: members.collect(),
            ..Policy::default()
        }
    })
}

/// Returns all paths of up to four of these names, one of which no pattern
/// mentions.
fn paths() -> Vec<TreePath> {
    let mut all = vec![String::new()];
    let mut last = all.clone();
    for _ in 0..4 {
        let longer = |path: &String| ["a", "b", "ab", "z"].map(|name| format!("{path}/{name}"));
        last = last.iter().flat_map(longer).collect();
        all.extend(last.clone());
    }
    let path = |path: String| TreePath::new(path.trim_start_matches('/')).unwrap();
    all.into_iter().map(path).collect()
}

/// The model of brace expansion, by recursion.
fn spellings(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return vec![pattern.to_owned()];
    };
    let (within, after) = rest.split_once('}').unwrap();
    let alternatives = within.split(',');
    alternatives
        .flat_map(|alternative| spellings(&format!("{before}{alternative}{after}")))
        .collect()
}

fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], name) => name.is_empty(),
        ([b'*', rest @ ..], name) => {
            (0..=name.len()).any(|taken| name_matches(rest, &name[taken..]))
        }
        (_, []) => false,
        ([b'?', rest @ ..], [_, name @ ..]) => name_matches(rest, name),
        ([b'[', b'a', b'b', b']', rest @ ..], [byte, name @ ..]) => {
            b"ab".contains(byte) && name_matches(rest, name)
        }
        ([one, rest @ ..], [other, name @ ..]) => one == other && name_matches(rest, name),
    }
}

fn matches(pattern: &[&str], names: &[&str]) -> bool {
    match (pattern, names) {
        ([], names) => names.is_empty(),
        (["**"], names) => !names.is_empty(),
        (["**", rest @ ..], names) => (0..=names.len()).any(|taken| matches(rest, &names[taken..])),
        (_, []) => false,
        ([one, rest @ ..], [name, names @ ..]) => {
            name_matches(one.as_bytes(), name.as_bytes()) && matches(rest, names)
        }
    }
}

fn covers(pattern: &str, path: &str) -> bool {
    let pattern: Vec<_> = pattern.split('/').collect();
    let names: Vec<_> = path.split('/').filter(|name| !name.is_empty()).collect();
    let everything = pattern.iter().all(|name| *name == "**");
    everything || (0..=names.len()).any(|length| matches(&pattern, &names[..length]))
}

/// Returns the specificity of a pattern: the greater is more specific.
fn specificity(pattern: &str) -> (usize, usize, bool) {
    let is_wild = |name: &&str| name.contains(['*', '?', '[']);
    let leading = pattern.split('/').take_while(|name| !is_wild(name)).count();
    let literal = pattern.replace("[ab]", "").replace(['*', '?', '/'], "");
    (leading, literal.len(), !is_wild(&pattern))
}

fn model(policy: &Policy, agent: &str, path: &TreePath) -> Access {
    let path = path.to_string();
    let roles = &policy.members[agent].roles;
    let meant = |rule: &Rule| {
        let names =
            |names: &Option<Vec<String>>, name: &str| names.iter().flatten().any(|one| one == name);
        if names(&rule.agents, agent) {
            Some(2)
        } else if roles.iter().any(|role| names(&rule.roles, role)) {
            Some(1)
        } else {
            (rule.agents.is_none() && rule.roles.is_none()).then_some(0)
        }
    };
    let ranks = policy
        .rules
        .iter()
        .filter_map(|rule| Some((rule, meant(rule)?)));
    let ranks = ranks.flat_map(|(rule, meant)| {
        let spellings = spellings(&rule.pattern).into_iter();
        let covering = spellings.filter(|spelling| covers(spelling, &path));
        let ranks = covering.map(move |spelling| {
            let access = rule.access.unwrap();
            (specificity(&spelling), meant, std::cmp::Reverse(access))
        });
        ranks.collect::<Vec<_>>()
    });
    ranks
        .max()
        .map_or(policy.default, |(_, _, access)| access.0)
}

fn views(policy: &Policy) -> BTreeMap<&'static str, View> {
    let compiled = policy.compile().unwrap();
    let view = |agent| (agent, compiled.for_agent(Some(agent)));
    AGENTS.map(view).into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn access_is_that_of_the_model(policy in policy()) {
        let paths = paths();
        for (agent, view) in views(&policy) {
            for path in &paths {
                prop_assert_eq!(view.access(path), model(&policy, agent, path), "{} {:?}", agent, path);
            }
        }
    }

    #[test]
    fn the_answer_for_a_directory_holds_for_all_paths_below(policy in policy()) {
        let paths = paths();
        for view in views(&policy).values() {
            for path in &paths {
                let access = view.access(path);
                prop_assert!(access != Access::None || view.hides_anything() || path.is_root());
                prop_assert!(access <= Access::Read || !view.is_read_only() || path.is_root());
            }
            for directory in paths.iter().filter(|path| path.names().count() <= 2) {
                let Some(uniform) = view.uniform(directory) else { continue };
                let mut below = paths.iter().filter(|path| path.starts_with(directory) && *path != directory);
                prop_assert!(below.all(|path| view.access(path) == uniform), "{directory:?} {uniform}");
            }
        }
    }

    #[test]
    fn the_order_of_rules_does_not_matter(
        (ordered, shuffled) in policy().prop_flat_map(|policy| {
            let rules = Just(policy.rules.clone()).prop_shuffle();
            (Just(policy), rules)
        })
    ) {
        let other = Policy { rules: shuffled, ..ordered.clone() };
        let others = views(&other);
        for (agent, view) in views(&ordered) {
            for path in paths() {
                prop_assert_eq!(view.access(&path), others[agent].access(&path));
            }
        }
    }

    #[test]
    fn a_stricter_copy_of_a_rule_never_gives_more_access(policy in policy(), which: prop::sample::Index, access in select(ACCESSES.to_vec())) {
        prop_assume!(!policy.rules.is_empty());
        let mut stricter = policy.clone();
        let mut again = which.get(&policy.rules).clone();
        again.access = again.access.min(Some(access));
        stricter.rules.push(again);
        let others = views(&stricter);
        for (agent, view) in views(&policy) {
            for path in paths() {
                prop_assert!(others[agent].access(&path) <= view.access(&path));
            }
        }
    }

    #[test]
    fn a_policy_survives_json(mut policy in policy(), local: Vec<String>, gitignore: bool, strategy in select(vec![Merge::Auto, Merge::Crdt, Merge::LastWriter, Merge::Review])) {
        policy.local = local;
        policy.gitignore = gitignore;
        policy.overrides = vec![strategy];
        policy.rules.iter_mut().for_each(|rule| rule.merge = Some(strategy));
        let written = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<Policy>(&written).unwrap(), policy);
    }

    #[test]
    fn any_text_is_a_pattern_or_rejected(pattern in "[ab*?{},/\\[\\]\\\\!:é-]{0,40}", local in "[ab*?/\\[\\]\\\\!:#é -]{0,40}") {
        let rule = Rule { pattern, access: Some(Access::None), ..Rule::default() };
        let policy = Policy { rules: vec![rule], local: vec![local], ..Policy::default() };
        if let Ok(compiled) = policy.compile() {
            let view = compiled.for_agent(Some("ada"));
            let hidden = paths().into_iter().find(|path| view.access(path) == Access::None);
            prop_assert!(hidden.is_none() || view.hides_anything());
        }
    }

    #[test]
    fn any_bytes_are_read_as_an_ignore_file(content: Vec<u8>, path in "[ab/]{1,20}") {
        let mut ignores = Ignores::new();
        ignores.add(&TreePath::root(), &content).unwrap();
        if let Ok(path) = TreePath::new(path) {
            ignores.ignores(&path, true);
        }
    }
}
