//! Compares documents with the tree: the map in the README, the index of
//! decisions, and the paths that pages name.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(directory)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn the_map_of_the_readme_names_every_crate_and_page() {
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let crates = names("crates");
    assert!(crates.len() > 10, "the crates are not found");
    for name in crates {
        let is_named =
            page.contains(&format!("`crates/{name}`")) || page.contains(&format!("`{name}`"));
        assert!(is_named, "the map does not name the crate {name}");
    }
    for name in names("docs") {
        assert!(
            page.contains(&format!("docs/{name}")),
            "the map does not name docs/{name}"
        );
    }
}

#[test]
fn the_index_of_decisions_names_every_decision() {
    let page = fs::read_to_string(root().join("docs/decisions/README.md")).unwrap();
    for name in names("docs/decisions") {
        assert!(
            name == "README.md" || page.contains(&format!("({name})")),
            "the index does not name {name}"
        );
    }
}

/// Expands `a/{b,c}.rs` into `a/b.rs` and `a/c.rs`.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let (choices, after) = rest.split_once('}').unwrap_or((rest, ""));
    let choices = choices.split(',');
    choices
        .flat_map(|choice| expanded(&format!("{before}{choice}{after}")))
        .collect()
}

/// Returns the paths below `crates/` that a page names in backticks.
fn named_paths(page: &str) -> Vec<String> {
    let quoted = page.split('`').skip(1).step_by(2);
    let paths =
        quoted.filter(|text| text.starts_with("crates/") && !text.contains([' ', '*', '<', '…']));
    // A path with capital letters is skipped, because it contains a placeholder
    // such as `NAME`.
    let paths = paths.filter(|text| !text.chars().any(|c| c.is_ascii_uppercase()));
    paths.flat_map(expanded).collect()
}

#[test]
fn expands_the_choices_of_a_path() {
    assert_eq!(expanded("a/{b,c/d}.rs"), ["a/b.rs", "a/c/d.rs"]);
    assert_eq!(
        named_paths("see `crates/a` and `crates/{b,c}.rs`, not `b.rs`"),
        ["crates/a", "crates/b.rs", "crates/c.rs"]
    );
}

#[test]
fn pages_name_only_sources_that_exist() {
    let mut pages = vec![
        "README.md".to_owned(),
        "CONTRIBUTING.md".into(),
        "SECURITY.md".into(),
    ];
    for directory in ["docs", "docs/decisions"] {
        let names = names(directory).into_iter();
        let names = names.filter(|name| name.ends_with(".md"));
        pages.extend(names.map(|name| format!("{directory}/{name}")));
    }
    let mut missing = Vec::new();
    let mut count = 0;
    for page in pages {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        for path in named_paths(&text) {
            count += 1;
            if !root().join(&path).exists() {
                missing.push(format!("{page}: {path}"));
            }
        }
    }
    assert!(count > 50, "only {count} paths were found");
    assert!(missing.is_empty(), "missing:\n{}", missing.join("\n"));
}
