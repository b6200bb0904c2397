//! Compares the lists of documents with the tree: the map in the README and the
//! index of decisions.

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
