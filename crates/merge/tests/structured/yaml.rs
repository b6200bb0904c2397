//! YAML.

use elevo_merge::{Driver, Merged, Yaml};
use proptest::prelude::*;

use crate::support::{alike, clean, conflict, merge};

const WORKFLOW: &str = r#"# Runs on every push.
name: ci
on:
  push:
    branches: [main, "release/*"]   # where
  pull_request: {}

env:
  RUST_LOG: info
  # How long.
  LIMIT: '10'

jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - name: checkout
        uses: actions/checkout@v4
      - name: test
        run: |
          cargo test
            --workspace
      - name: lint  # slow
        run: >-
          cargo clippy
  docs:
    needs: build
    runs-on: ubuntu-latest
ports:
- 80
- 443
empty:
"#;

#[test]
fn claims_files_by_their_names() {
    assert!(Yaml.claims(b"ci.yaml") && Yaml.claims(b"ci.YML"));
    assert!(!Yaml.claims(b"yaml"));
}

const CHANGES: &[(&str, &str)] = &[
    ("name: ci\n", "name: CI\n"),
    ("# Runs on every push.", "# Runs often."),
    ("[main, \"release", "[main, dev, \"release"),
    ("# where", "# there"),
    ("pull_request: {}", "pull_request: {types: [opened]}"),
    ("RUST_LOG: info", "RUST_LOG: debug"),
    ("LIMIT: '10'\n", "LIMIT: '20'\n  MORE: 1 # one\n"),
    ("  # How long.\n  LIMIT: '10'\n", ""),
    ("actions/checkout@v4", "actions/checkout@v5"),
    (
        "          cargo test\n            --workspace\n",
        "          cargo nextest run\n",
    ),
    (
        "      - name: test\n",
        "      - name: cache\n        uses: cache@v1\n        with:\n          path: x\n      - name: test\n",
    ),
    (
        "- name: lint  # slow",
        "- name: lint  # slow\n        if: always()",
    ),
    (
        "          cargo clippy\n",
        "          cargo clippy\n          --all\n",
    ),
    ("    needs: build\n", "    needs: [build]\n    if: true\n"),
    ("- 80\n", "- 81\n"),
    ("- 443\n", "- 443\n- 8080\n"),
    ("empty:\n", "empty: 1\n"),
    ("empty:\n", "empty:\nlast:\n  a: 1\n"),
];

#[test]
fn changes_of_different_keys_merge_at_any_depth() {
    for ours in CHANGES {
        for theirs in CHANGES {
            let our_text = WORKFLOW.replace(ours.0, ours.1);
            let their_text = WORKFLOW.replace(theirs.0, theirs.1);
            assert!(
                our_text != WORKFLOW && their_text != WORKFLOW,
                "{ours:?} {theirs:?}"
            );
            let both = our_text.replace(theirs.0, theirs.1);
            if ours.0.contains(theirs.0) || theirs.0.contains(ours.0) {
                continue;
            }
            let merged = alike(&Yaml, WORKFLOW, &our_text, &their_text);
            assert_eq!(merged, both, "{ours:?} {theirs:?}");
        }
    }
}

#[test]
fn both_add_entries() {
    for (base, ours, theirs, merged) in [
        (
            "a: 1\n",
            "a: 1\nc: 3\n",
            "a: 1\nb: 2\n",
            "a: 1\nb: 2\nc: 3\n",
        ),
        ("a: 1", "a: 1\nc: 3", "a: 1\nb: 2\n", "a: 1\nb: 2\nc: 3\n"),
        (
            "a:\n  x: 1 # one\nz: 1\n",
            "a:\n  x: 1 # one\n  y: 2\nz: 1\n",
            "a:\n  w:\n    - 1\n  x: 1 # one\nz: 1\n",
            "a:\n  w:\n    - 1\n  x: 1 # one\n  y: 2\nz: 1\n",
        ),
        (
            "- id: 1\n  a: 1\n",
            "- id: 1\n  a: 2\n",
            "- b: 2\n  id: 1\n  a: 1\n- id: 0\n",
            "- b: 2\n  id: 1\n  a: 2\n- id: 0\n",
        ),
        (
            "---\n# about a\na: 1\n# about b\nb: 2\n",
            "---\n# about b\nb: 2\n",
            "---\n# about a\na: 1\n# about b\nb: 3\nc: |\n  x\n\n  y\n",
            "---\n# about b\nb: 3\nc: |\n  x\n\n  y\n",
        ),
    ] {
        assert_eq!(alike(&Yaml, base, ours, theirs), merged);
    }
}

#[test]
fn an_entry_from_a_file_of_another_indent_takes_the_indent_here() {
    let base = "a:\n  b: 1\n";
    let ours = "a:\n    b: 1\n";
    let theirs = "a:\n  b: 1\n  c:\n    d: |\n      x\n       y\n";
    assert_eq!(
        alike(&Yaml, base, ours, theirs),
        "a:\n    b: 1\n    c:\n      d: |\n        x\n         y\n"
    );
}

#[test]
fn conflicts_name_their_place() {
    for (base, ours, theirs, hunk, suggestion) in [
        (
            "a:\n  b: 1\n",
            "a:\n  b: 2\n",
            "a:\n  b: 3\n",
            "/a/b: 1 | 2 | 3",
            "a:\n  b: 3\n",
        ),
        (
            "a: 1\nb: 1\n",
            "a: 2\nb: 1\n",
            "b: 1\n",
            "/a: 1 | 2 | -",
            "b: 1\n",
        ),
        (
            "a: [1]\n",
            "a: [1, 2]\n",
            "a: [1, 3]\n",
            "/a: [1] | [1, 2] | [1, 3]",
            "a: [1, 3]\n",
        ),
        (
            "a: no\n",
            "a: 'no'\n",
            "a: false\n",
            "/a: no | 'no' | false",
            "a: false\n",
        ),
        (
            "a: 1 # x\n",
            "a: 1 # y\n",
            "a: 1 # z\n",
            "/a: # x | # y | # z",
            "a: 1 # z\n",
        ),
        (
            "a:\n- id: 1\n  v: 1\n",
            "a:\n- id: 1\n  v: 2\n",
            "a:\n- id: 1\n  v: 3\n",
            "/a/0/v: 1 | 2 | 3",
            "a:\n- id: 1\n  v: 3\n",
        ),
    ] {
        let (hunks, suggested) = conflict(&Yaml, base, ours, theirs);
        assert_eq!(hunks, [hunk]);
        assert_eq!(suggested, suggestion);
        assert!(matches!(
            merge(&Yaml, base, theirs, ours),
            Merged::Conflict(_)
        ));
    }
}

#[test]
fn rejects_text_that_cannot_be_moved_safely() {
    let deep = "[".repeat(100_000);
    let maps = "{a: ".repeat(50_000);
    let dashes = "- ".repeat(100_000);
    let wide = (0..2000).fold(String::new(), |text, at| text + &" ".repeat(at) + "a:\n");
    for bad in [
        "a: &x 1\nb: *x\n",
        "a: &x 1\n",
        "a: !!str 1\n",
        "a: !t {}\n",
        "a: 1\n---\nb: 2\n",
        "a: 1\na: 2\n",
        "a: 1\n'a': 2\n",
        "? a\n: 1\n",
        "? [a]\n: 1\n",
        "a:\t1\n",
        "a: |+\n  x\n\nb: 1\n",
        "a: [b: 1]\n",
        "a: {b}\n",
        "a: {b: }\n",
        "a: [1\n",
        "a: 'x\n",
        "a: 1\n b: 2\n",
        "- a\nb: 1\n",
        "%YAML 1.2\n",
        "\u{feff}a: 1\n",
        "",
        "# nothing\n",
        &deep,
        &maps,
        &dashes,
        &wide,
    ] {
        let short = &bad[..bad.len().min(30)];
        assert_eq!(
            merge(&Yaml, "a: 1\n", "a: 2\n", bad),
            Merged::NotMine,
            "{short}"
        );
        assert_eq!(
            merge(&Yaml, "a: 1\n", bad, "a: 2\n"),
            Merged::NotMine,
            "{short}"
        );
        assert_eq!(
            merge(&Yaml, bad, "a: 1\n", "a: 2\n"),
            Merged::NotMine,
            "{short}"
        );
    }
}

#[test]
fn a_list_of_one_style_takes_elements_of_another() {
    let merged = clean(
        &Yaml,
        "a:\n- 1\n- 2\n",
        "a:\n  - 1\n  - 2\n",
        "a:\n- 1\n- 2\n- 3\n",
    );
    assert_eq!(merged, "a:\n  - 1\n  - 2\n  - 3\n");
}

#[derive(Clone, Debug)]
enum Tree {
    Leaf(&'static str),
    Map(Vec<(String, Tree)>),
    List(Vec<Tree>),
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaves = vec![
        "1", "x y", "'q'", "\"d\\n\"", "é", "[a, b]", "{k: 1}", "1 # c", "", "~",
    ];
    let leaf = prop::sample::select(leaves).prop_map(Tree::Leaf);
    let inner = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            2 => prop::collection::btree_map("[a-e]", inner.clone(), 1..4)
                .prop_map(|map| Tree::Map(map.into_iter().collect())),
            1 => prop::collection::vec(inner, 1..4).prop_map(Tree::List),
        ]
    });
    prop::collection::btree_map("[a-e]", inner, 1..5)
        .prop_map(|map| Tree::Map(map.into_iter().collect()))
}

impl Tree {
    fn write(&self, indent: usize, unit: usize, text: &mut String) {
        let pad = " ".repeat(indent);
        match self {
            Tree::Leaf(leaf) => *text += &format!(" {leaf}\n"),
            Tree::Map(map) => {
                text.push('\n');
                for (key, value) in map {
                    *text += &format!("{pad}{key}:");
                    value.write(indent + unit, unit, text);
                }
            }
            Tree::List(list) => {
                text.push('\n');
                for value in list {
                    *text += &format!("{pad}-");
                    value.write(indent + unit, unit, text);
                }
            }
        }
    }

    fn text(&self, unit: usize) -> String {
        let mut text = String::new();
        self.write(0, unit, &mut text);
        text.trim_start().to_owned()
    }
}

proptest! {
    #[test]
    fn any_three_files_merge_alike_from_both_sides(
        base in trees(), ours in trees(), theirs in trees(), units in [1..5usize, 1..5, 1..5],
    ) {
        let texts = [base.text(units[0]), ours.text(units[1]), theirs.text(units[2])];
        let merged = merge(&Yaml, &texts[0], &texts[1], &texts[2]);
        match (&merged, merge(&Yaml, &texts[0], &texts[2], &texts[1])) {
            (Merged::Clean(one), Merged::Clean(other)) => {
                // Both results must parse, and have the same meaning.
                let [one, other] = [one.clone(), other].map(|text| String::from_utf8(text).unwrap());
                let again = merge(&Yaml, "x: 1\n", &one, &other);
                prop_assert!(matches!(again, Merged::Clean(_)), "{again:?}");
            }
            (Merged::Conflict(one), Merged::Conflict(other)) => {
                prop_assert_eq!(one.hunks.len(), other.hunks.len());
            }
            (Merged::NotMine, Merged::NotMine) => {
                // A container is written in braces on one side and in lines on
                // the other.
                prop_assert!(texts.iter().any(|text| text.contains(['{', '['])), "{texts:?}");
            }
            (one, other) => prop_assert!(false, "{texts:?}\n{one:?} against {other:?}"),
        }
    }

    #[test]
    fn invalid_yaml_does_not_panic(text in "[a-c:\\-#|>'\"\\[\\]{}?&*! \n]{0,40}", cut in 0..WORKFLOW.len()) {
        let cut = WORKFLOW.get(..cut).unwrap_or_default();
        let changed = WORKFLOW.replace("name: ci", "name: c");
        merge(&Yaml, WORKFLOW, &changed, cut);
        merge(&Yaml, "a: 1\n", "a: 2\n", &text);
        merge(&Yaml, &text, &format!("{text}\nb: 1\n"), &format!("c: 1\n{text}"));
        merge(&Yaml, WORKFLOW, &changed, &format!("{cut}{text}"));
    }
}
