//! Compares `SECURITY.md` with the tests that it names. Every boundary needs a test, every named
//! test must exist, and every attack must be named.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const ATTACKS: &str = "crates/server/tests/service/attacks";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The name of a test, and its file.
type Named = (String, String);

/// Returns the tests that the page links to, in the form [`test`](file).
fn named(text: &str) -> Vec<Named> {
    let links = text.split("[`").skip(1);
    let pair = |link: &str| {
        let (name, rest) = link.split_once("`](")?;
        let (file, _) = rest.split_once(')')?;
        file.ends_with(".rs")
            .then(|| (name.to_owned(), file.to_owned()))
    };
    links.filter_map(pair).collect()
}

/// Returns the rows of the table of boundaries.
fn boundaries(page: &str) -> Vec<&str> {
    let table = page
        .lines()
        .skip_while(|line| !line.starts_with("| boundary "));
    let table = table.take_while(|line| line.starts_with('|'));
    table.skip(2).collect()
}

/// Returns the names of all functions of a file.
fn functions(source: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let (name, _) = line.strip_prefix("fn ")?.split_once('(')?;
        Some(name.to_owned())
    };
    source.lines().map(str::trim).filter_map(name).collect()
}

/// Returns the names of the attacks in a file.
fn attacks(source: &str) -> BTreeSet<String> {
    let lines: Vec<_> = source.lines().collect();
    let is_attack = |at: usize, line: &str| {
        line.starts_with("async fn ")
            && (line.contains("(runtime: Runtime)") || at > 0 && lines[at - 1] == "#[tokio::test]")
    };
    let found = lines.iter().enumerate();
    let found = found.filter(|(at, line)| is_attack(*at, line));
    found.flat_map(|(_, line)| functions(line)).collect()
}

#[test]
fn every_boundary_names_an_existing_test() {
    let page = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let rows = boundaries(&page);
    assert!(rows.len() > 10, "the table of boundaries is not found");
    for row in rows {
        assert!(!named(row).is_empty(), "no test: {row}");
    }
    for (name, file) in named(&page) {
        let source = fs::read_to_string(root().join(&file));
        let source = source.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(functions(&source).contains(&name), "{file} has no {name}");
    }
}

#[test]
fn every_attack_is_named() {
    let page = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let known: BTreeSet<_> = named(&page).into_iter().collect();
    let mut count = 0;
    for entry in fs::read_dir(root().join(ATTACKS)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let file = format!("{ATTACKS}/{name}");
        let source = fs::read_to_string(root().join(&file)).unwrap();
        for attack in attacks(&source) {
            count += 1;
            let is_known = known.contains(&(attack.clone(), file.clone()));
            assert!(is_known, "SECURITY.md does not name {attack} of {file}");
        }
    }
    assert!(count > 10, "the attacks are not found");
}

#[test]
fn links_and_functions_are_read_as_they_are_written() {
    let page = "| boundary | what |\n|---|---|\n| a [`b_c`](x/y.rs), [z](w) |\n\n| other |";
    assert_eq!(boundaries(page).len(), 1);
    assert_eq!(named(page), [("b_c".to_owned(), "x/y.rs".to_owned())]);
    let source = "async fn helper(x: u8) {}\n#[tokio::test]\nasync fn one() {}\n\
                  async fn two(runtime: Runtime) {}\n";
    let both = BTreeSet::from(["one".to_owned(), "two".to_owned()]);
    assert_eq!(attacks(source), both);
    assert!(functions(source).contains("helper"));
}
