//! Checks the imports between the files of the crate.

use std::path::Path;

use elevo_testkit::imports::ImportGraph;

fn graph() -> ImportGraph {
    ImportGraph::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

#[test]
fn no_file_imports_itself_through_others() {
    graph().assert_circles_have_at_most(1);
}

/// The noun of a command's file: `project` for `commands/project/log.rs`.
fn noun(file: &str) -> Option<&str> {
    let rest = file.strip_prefix("commands/")?;
    Some(rest.split(['/', '.']).next().unwrap_or(rest))
}

#[test]
fn a_command_imports_neither_the_command_tree_nor_commands_of_other_nouns() {
    let graph = graph();
    let mut commands = 0;
    for file in graph.files() {
        let Some(own) = noun(file) else { continue };
        commands += 1;
        for target in graph.imports_of(file) {
            assert_ne!(target, "args.rs", "{file}");
            let other = noun(target).filter(|noun| *noun != own);
            assert_eq!(other, None, "{file} imports {target}");
        }
    }
    assert!(commands > 50, "the commands are not found");
}
