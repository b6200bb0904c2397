//! The imports inside the large crates point one way.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::path::PathBuf;

use elevo_testkit::imports::ImportGraph;

/// Maximum files of an import circle: a module, and the files that implement
/// parts of it.
const CIRCLE: usize = 4;

/// The layers of the server, and the layers that each may import.
const SERVER: [(&str, &[&str]); 6] = [
    ("config", &["failure", "platform"]),
    ("platform", &["config", "failure"]),
    ("app", &["config", "failure", "platform"]),
    ("jobs", &["app", "config", "failure", "platform"]),
    ("http", &["app", "config", "failure", "platform"]),
    (
        "serve",
        &["app", "config", "failure", "http", "jobs", "platform"],
    ),
];

fn graph_of(name: &str) -> ImportGraph {
    let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    ImportGraph::read(&crates.join(name).join("src"))
}

#[test]
fn the_server_has_no_large_import_circle() {
    graph_of("server").assert_circles_have_at_most(CIRCLE);
}

#[test]
fn the_catalog_has_no_large_import_circle() {
    graph_of("catalog").assert_circles_have_at_most(CIRCLE);
}

#[test]
fn the_layers_of_the_server_import_only_lower_layers() {
    let graph = graph_of("server");
    let layer_of = |file: &str| {
        let first = file.split('/').next().unwrap_or(file);
        first.trim_end_matches(".rs").to_owned()
    };
    let mut wrong = Vec::new();
    let mut seen = 0;
    for file in graph.files() {
        let layer = layer_of(file);
        let Some((_, allowed)) = SERVER.iter().find(|(name, _)| *name == layer) else {
            continue;
        };
        seen += 1;
        for target in graph.imports_of(file) {
            let other = layer_of(target);
            // An import of the root of the crate is allowed, because it names a
            // re-export.
            let is_allowed = other == layer || other == "lib" || allowed.contains(&other.as_str());
            if !is_allowed {
                wrong.push(format!("{file} imports {target}"));
            }
        }
    }
    assert!(seen > 100, "the layers have only {seen} files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
