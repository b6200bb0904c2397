//! Checks which rule applies, which actions are denied, and the messages of
//! denials.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use elevo_core::TreePath;
use elevo_policy::{Access, Compiled, Doing, Policy, PolicyError, Strategy};
use serde_json::{Value, json};

fn parse(policy: Value) -> Policy {
    serde_json::from_value(policy).unwrap()
}

fn compile(policy: Value) -> Compiled {
    parse(policy).compile().unwrap()
}

fn problems(policy: Value) -> Vec<(String, String)> {
    let PolicyError { problems } = parse(policy).compile().unwrap_err();
    let problems = problems.into_iter();
    problems
        .map(|problem| (problem.at, problem.message))
        .collect()
}

fn path(path: impl AsRef<[u8]>) -> TreePath {
    TreePath::new(path).unwrap()
}

/// Returns whether a rule with this pattern covers the path.
fn covers(pattern: &str, covered: impl AsRef<[u8]>) -> bool {
    let policy = compile(json!({"rules": [{"pattern": pattern, "access": "r"}]}));
    policy.for_agent(Some("ada")).access(&path(covered)) == Access::Read
}

#[test]
fn a_pattern_covers_its_matches_and_everything_below() {
    for (pattern, covered, not) in [
        ("a", vec!["a", "a/b", "a/b/c"], vec!["", "b", "b/a", "aa"]),
        ("/a/b/", vec!["a/b", "a/b/c"], vec!["a", "a/c", "x/a/b"]),
        ("*", vec!["a", "a/b", ".a"], vec![""]),
        ("**", vec!["", "a", "a/b/c"], vec![]),
        ("a/*", vec!["a/b", "a/b/c"], vec!["a", "b/c"]),
        ("a/**", vec!["a/b", "a/b/c"], vec!["a", "ab"]),
        ("**/a", vec!["a", "b/a", "b/c/a/d"], vec!["b", "b/ca"]),
        (
            "a/**/z",
            vec!["a/z", "a/b/z", "a/b/c/z/y"],
            vec!["a", "a/b", "z"],
        ),
        ("a?", vec!["ab", "ab/c"], vec!["a", "a/b", "abc"]),
        ("*.rs", vec!["a.rs", ".rs"], vec!["a/b.rs", "a.rst"]),
        ("a[b-d]", vec!["ab", "ad"], vec!["ae", "a"]),
        ("a[!b]c", vec!["axc"], vec!["abc", "a/c"]),
        ("[[:digit:]]", vec!["1"], vec!["a"]),
        ("{a,b/c}/d", vec!["a/d", "b/c/d/e"], vec!["a", "b/d", "c/d"]),
        (
            "a{,.b,{c,d}}",
            vec!["a", "a.b", "ac", "ad"],
            vec!["ab", "acd"],
        ),
        ("\\*\\{a\\}", vec!["*{a}"], vec!["x{a}", "*a"]),
        ("[{]a[}]", vec!["{a}"], vec!["a"]),
        ("A", vec!["A"], vec!["a"]),
        ("é?", vec!["éa"], vec!["é", "éé"]),
    ] {
        for yes in covered {
            assert!(covers(pattern, yes), "{pattern} covers {yes:?}");
        }
        for no in not {
            assert!(!covers(pattern, no), "{pattern} does not cover {no:?}");
        }
    }
    assert!(covers("a?*", b"a\xff\xfe\n"));
    assert!(covers("**/*.x", b"\xff/\n.x"));
}

#[test]
fn the_more_specific_pattern_applies() {
    // The first pattern takes precedence over the second where both cover the
    // path.
    for (covered, stronger, weaker) in [
        ("a/b/c", "a/b", "a"),
        ("a/b/c", "a/b", "a/*/c"),
        ("a/b.rs", "a", "**/b.rs"),
        ("a/b.rs", "a/*.rs", "a/**"),
        ("a/b.rs", "a/b.rs", "a/b.*"),
        ("abc", "ab*", "a*"),
        ("abc", "abc", "ab{c,d}*"),
        ("a/b", "a", "a/*"),
        ("a/b", "a", "a/**"),
        ("x/secret", "**/secret", "*/**"),
    ] {
        for [stronger_access, weaker_access] in [["r", "rw"], ["rw", "r"]] {
            let rules = json!([
                {"pattern": weaker, "access": weaker_access, "agents": ["ada"]},
                {"pattern": stronger, "access": stronger_access},
            ]);
            let view = compile(json!({"rules": rules})).for_agent(Some("ada"));
            let access = view.access(&path(covered));
            assert_eq!(access.as_str(), stronger_access, "{stronger} over {weaker}");
        }
    }
}

#[test]
fn of_equal_patterns_the_more_direct_rule_applies_then_the_stricter() {
    let policy = compile(json!({
        "members": {"ada": {"roles": ["dev", "ops"]}, "bob": {"roles": ["dev"]}, "eve": {}},
        "rules": [
            {"pattern": "a", "access": "r"},
            {"pattern": "a", "access": "ra"},
            {"pattern": "a", "roles": ["dev"], "access": "rw"},
            {"pattern": "a", "roles": ["ops"], "access": "rw-"},
            {"pattern": "/a/", "agents": ["ada"], "access": "none"},
            {"pattern": "b", "agents": ["ada"], "roles": ["dev"], "access": "r"},
        ],
    }));
    for (agent, a, b) in [
        ("ada", "none", "r"),
        ("bob", "rw", "r"),
        ("eve", "r", "rw"),
        ("dev", "r", "rw"),
    ] {
        let view = policy.for_agent(Some(agent));
        assert_eq!(view.access(&path("a/x")).as_str(), a, "{agent}");
        assert_eq!(view.access(&path("b/x")).as_str(), b, "{agent}");
    }
}

#[test]
fn access_and_strategy_are_looked_up_separately() {
    let policy = compile(json!({
        "default": "r",
        "rules": [
            {"pattern": "a", "access": "rw"},
            {"pattern": "a/b", "merge": "review"},
            {"pattern": "a/b/c", "access": "none", "merge": "text"},
            {"pattern": "**/*.x", "merge": "last-writer"},
            {"pattern": "**/a.*", "merge": "priority"},
        ],
    }));
    let view = policy.for_agent(Some("ada"));
    for (at, access, strategy) in [
        ("a", Access::Full, Strategy::Auto),
        ("a/b", Access::Full, Strategy::Review),
        ("a/b/c/d", Access::None, Strategy::Text),
        ("b", Access::Read, Strategy::Auto),
        ("b/b.x", Access::Read, Strategy::LastWriter),
        // Equally specific: the more careful one applies.
        ("b/a.x", Access::Read, Strategy::Priority),
    ] {
        assert_eq!(view.access(&path(at)), access, "{at}");
        assert_eq!(policy.strategy(&path(at)), strategy, "{at}");
    }
}

#[test]
fn priorities_and_overrides_are_those_of_the_policy() {
    let policy = compile(json!({
        "members": {"ada": {"priority": 7}, "bob": {"priority": -1}},
        "overrides": ["text", "last-writer"],
    }));
    let priorities =
        [Some("ada"), Some("bob"), Some("eve"), None].map(|agent| policy.priority(agent));
    assert_eq!(priorities, [7, -1, 0, i32::MAX]);
    assert!(policy.allows_override(Strategy::LastWriter));
    assert!(!policy.allows_override(Strategy::Auto));
    assert!(
        !Policy::default()
            .compile()
            .unwrap()
            .allows_override(Strategy::Text)
    );
}

#[test]
fn a_refusal_states_the_reason_and_the_remedy() {
    let policy = compile(json!({
        "default": "r",
        "rules": [{"pattern": "drop/{a,b}", "access": "ra"}, {"pattern": "top/secret", "access": "none"}],
    }));
    let view = policy.for_agent(Some("ada"));
    let refused = |at: &str, doing| view.check(&path(at), doing).unwrap_err();

    let refusal = refused("drop/a/x", Doing::Change);
    let said =
        "`drop/a/x` cannot be changed: that needs `rw-`, and the rule `drop/{a,b}` gives `ra`";
    assert_eq!(refusal.to_string(), said);
    assert!(refusal.remedy().contains("`rw-`"));
    let said = "`x` cannot be created: that needs `ra`, and the policy's default is `r`";
    assert_eq!(refused("x", Doing::Create).to_string(), said);
    assert_eq!(view.check(&path("drop/a/x"), Doing::Create), Ok(()));

    // Whether a hidden path exists decides which action is possible, so the
    // message must not name the action.
    let secret = refused("top/secret/x", Doing::Create);
    assert_eq!(
        secret.to_string(),
        "this agent has no access to `top/secret/x`"
    );
    for doing in [Doing::Change, Doing::Remove] {
        assert_eq!(refused("top/secret/x", doing), secret);
    }
    assert!(!format!("{secret:?}").contains("top/secret\""));
}

#[test]
fn rules_for_other_agents_neither_hide_paths_nor_prevent_writes() {
    let policy = compile(json!({
        "default": "r",
        "rules": [
            {"pattern": "a/**", "access": "none"},
            {"pattern": "a", "agents": ["ada"], "access": "r"},
            {"pattern": "b", "agents": ["bob"], "access": "rw"},
            {"pattern": "**", "agents": ["eve"], "access": "r"},
            {"pattern": "**/*.key", "access": "none"},
            {"pattern": "**/*.key", "agents": ["ada"], "access": "r"},
            {"pattern": "**/*.key/*", "agents": ["ada"], "access": "rw"},
        ],
    }));
    for (agent, hides, read_only) in [
        (Some("ada"), false, true),
        (Some("bob"), true, false),
        (Some("eve"), true, true),
        (Some("joe"), true, true),
        (None, false, false),
    ] {
        let view = policy.for_agent(agent);
        assert_eq!(
            (view.hides_anything(), view.is_read_only()),
            (hides, read_only),
            "{agent:?}"
        );
    }
}

#[test]
fn all_problems_are_reported_at_once_with_their_places() {
    let found = problems(json!({
        "rules": [
            {"pattern": "", "access": "r"},
            {"pattern": "/", "access": "r"},
            {"pattern": "a//b", "access": "r"},
            {"pattern": "a/../b", "access": "r"},
            {"pattern": "[a", "access": "r"},
            {"pattern": "a\\", "access": "r"},
            {"pattern": "{a", "access": "r"},
            {"pattern": "a}", "access": "r"},
            {"pattern": "[[:word:]]", "access": "r"},
            {"pattern": "a\u{0}", "access": "r"},
            {"pattern": "a"},
            {"pattern": "a", "access": "r", "agents": []},
            {"pattern": "a", "access": "r", "roles": [""]},
            {"pattern": "a", "merge": "text", "agents": ["ada"]},
        ],
        "members": {"": {}, "ada": {"roles": [""]}},
        "local": ["", "# no", "a\nb", "ok"],
    }));
    let at: Vec<_> = found.iter().map(|(at, _)| at.as_str()).collect();
    let mut expected: Vec<_> = (0..10)
        .map(|index| format!("rules[{index}].pattern"))
        .collect();
    expected.extend(
        [
            "rules[10]",
            "rules[11].agents",
            "rules[12].roles",
            "rules[13].merge",
            "members",
            "members[\"ada\"].roles",
            "local[0]",
            "local[1]",
            "local[2]",
        ]
        .map(str::to_owned),
    );
    assert_eq!(at, expected);
    assert!(
        found.iter().all(|(_, message)| message.contains(';')),
        "{found:?}"
    );
}

#[test]
fn policies_that_are_too_large_are_rejected() {
    let rule = |pattern: &str| json!({"pattern": pattern, "access": "r"});
    let members = |count: u32| (0..count).map(|id| (id.to_string(), json!({})));
    let members = |count| Value::Object(members(count).collect());
    let at = |policy| {
        problems(policy)
            .into_iter()
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
    };
    let many_agents: Vec<_> = (0..10_001).map(|id: u32| id.to_string()).collect();
    let many_roles: Vec<_> = (0..101).map(|id: u32| id.to_string()).collect();

    assert_eq!(at(json!({"rules": vec![rule("a"); 1001]})), ["rules"]);
    assert_eq!(
        at(json!({"rules": [{"pattern": "a", "access": "r", "agents": many_agents}]})),
        ["rules"]
    );
    assert_eq!(
        at(json!({"rules": [rule(&"a".repeat(1025))]})),
        ["rules[0].pattern"]
    );
    assert_eq!(at(json!({"members": members(10_001)})), ["members"]);
    assert_eq!(
        at(json!({"members": {"ada": {"roles": many_roles}}})),
        ["members[\"ada\"].roles"]
    );
    assert_eq!(at(json!({"local": vec!["a"; 1001]})), ["local"]);
    assert_eq!(at(json!({"local": ["a".repeat(1025)]})), ["local[0]"]);
    assert_eq!(
        at(json!({"rules": vec![rule("a//b"); 1000]})).len(),
        elevo_policy::MAX_PROBLEMS
    );

    let rules = vec![rule("a"); 1000];
    assert!(
        parse(json!({"rules": rules, "members": members(10_000)}))
            .compile()
            .is_ok()
    );
}

#[test]
fn braces_and_stars_without_end_are_refused_or_bounded() {
    let nested = |depth| "{a,".repeat(depth) + "b" + &"}".repeat(depth);
    for hostile in [
        "{a,b}".repeat(12),
        nested(200),
        "{".repeat(1000),
        format!("{{{}}}", "a,".repeat(64)),
        "a/".repeat(65),
        "{a,b}".repeat(7),
    ] {
        let found = problems(json!({"rules": [{"pattern": hostile, "access": "r"}]}));
        assert_eq!(found.len(), 1, "{hostile}");
    }
    let many =
        json!({"pattern": format!("{{{}b}}", "a,".repeat(0)) + &"{a,b}".repeat(6), "access": "r"});
    let found = problems(json!({"rules": vec![many; 40]}));
    assert_eq!(found[0].0, "rules[31].pattern");

    let deep = path("a/".repeat(1000) + "a");
    let wide = path("a".repeat(255));
    for slow in [
        "**/a/".repeat(31) + "b",
        "a*".repeat(500) + "b",
        "*a/**/".repeat(31) + "b",
    ] {
        for at in [&deep, &wide] {
            assert!(!covers(&slow, at.as_bytes()), "{slow}");
        }
    }
}

#[test]
fn json_is_read_strictly_and_written_briefly() {
    let refused = [
        json!({"rule": []}),
        json!({"rules": [{"pattern": "a", "access": "w"}]}),
        json!({"rules": [{"pattern": "a", "agent": "ada"}]}),
        json!({"members": {"ada": {"role": "dev"}}}),
        json!({"overrides": ["merge"]}),
    ];
    for policy in refused {
        assert!(
            serde_json::from_value::<Policy>(policy.clone()).is_err(),
            "{policy}"
        );
    }
    let rule = json!({"pattern": "a", "access": "rw-"});
    let policy = parse(json!({"rules": [rule]}));
    let written = serde_json::to_value(&policy).unwrap();
    let expected = json!({
        "rules": [rule], "default": "rw", "members": {}, "local": [], "gitignore": true, "overrides": [],
    });
    assert_eq!(written, expected);
    assert_eq!(parse(json!({})), Policy::default());
}

#[test]
fn many_rules_that_nearly_hide_each_other_take_bounded_time() {
    let rules = (0..1000).map(|index| {
        let pattern = format!("{}{}", "**/a/*/".repeat(15), index % 7);
        json!({"pattern": pattern, "access": if index % 2 == 0 { "r" } else { "rw" }})
    });
    let policy = compile(json!({"rules": rules.collect::<Vec<_>>()}));
    let view = policy.for_agent(Some("ada"));
    assert_eq!(view.uniform(&path("a/".repeat(500) + "a")), None);
    assert_eq!(view.access(&path("a/".repeat(1000) + "a")), Access::Full);
    assert_eq!(view.access(&path("a/".repeat(1000) + "3")), Access::Read);
}
