//! Files and functions of the product stay short enough to read.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum lines of a file, without its tests.
const FILE: usize = 450;
/// Maximum lines of a function.
const FUNCTION: usize = 70;

/// Directories and files that only tests use.
const TEST_CODE: [&str; 4] = ["conformance", "tests", "testkit", "fuzzing"];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if TEST_CODE.contains(&name) {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the lines before the unit tests, which are at the end of a file.
fn product(text: &str) -> Vec<&str> {
    let lines: Vec<_> = text.lines().collect();
    let is_tests = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod tests");
    let end = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    lines[..end].to_vec()
}

/// Returns the name of the function that a line declares, and its indentation.
fn declared(line: &str) -> Option<(&str, &str)> {
    let code = line.trim_start();
    let indent = &line[..line.len() - code.len()];
    let (before, after) = code.split_once("fn ")?;
    let is_declaration = before.split_whitespace().all(|word| {
        matches!(
            word,
            "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\""
        ) || word.starts_with("pub(")
    });
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    is_declaration.then(|| (&after[..end], indent))
}

/// Returns the functions with their lengths. Relies on the layout of rustfmt.
fn functions<'a>(lines: &[&'a str]) -> Vec<(&'a str, usize)> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((name, indent)) = declared(line) else {
            continue;
        };
        // A declaration without a body ends with a semicolon.
        let head = lines[at..]
            .iter()
            .position(|line| line.ends_with(['{', ';', '}']));
        let Some(head) = head.filter(|head| lines[at + head].ends_with('{')) else {
            continue;
        };
        let last = format!("{indent}}}");
        let length = lines[at + head..].iter().position(|line| *line == last);
        found.push((name, head + length.unwrap_or_default() + 1));
    }
    found
}

#[test]
fn finds_functions_and_their_lengths() {
    let text = "impl A {\n    pub(crate) async fn one(&self) {\n        two();\n    }\n\n    fn two();\n}\n\nfn three(\n    a: u8,\n) {\n}\n#[cfg(test)]\nmod tests {\n}";
    let lines = product(text);
    assert_eq!(functions(&lines), [("one", 3), ("three", 4)]);
}

#[test]
fn files_and_functions_of_the_product_are_short() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut files, mut long) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("testkit") {
            sources(&path.join("src"), &mut files);
        }
    }
    assert!(files.len() > 400, "only {} files were found", files.len());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let lines = product(&text);
        if lines.len() > FILE {
            long.push(format!("{}: {} lines", file.display(), lines.len()));
        }
        for (name, length) in functions(&lines) {
            if length > FUNCTION {
                long.push(format!("{}: {name} has {length} lines", file.display()));
            }
        }
    }
    assert!(long.is_empty(), "too long:\n{}", long.join("\n"));
}
