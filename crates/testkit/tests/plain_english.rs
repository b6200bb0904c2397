//! Counts the signs of a style that strangers cannot read, in comments,
//! documentation, string literals, OpenAPI texts and test names. CONTRIBUTING.md
//! has the rules. Each limit may only fall: a change that leaves fewer signs
//! lowers the limit.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Maximum number of signs in comments and in markdown.
const COMMENTS: usize = 1;
/// Maximum number of signs in string literals. The system's user `nobody` and a
/// field of JSON remain.
const LITERALS: usize = 4;
/// Maximum number of signs in the texts of the OpenAPI description.
const OPENAPI: usize = 0;
/// Maximum number of signs in names of tests.
const TEST_NAMES: usize = 0;

/// Folders that hold no prose of the project.
const SKIPPED: [&str; 5] = [".git", "target", "corpus", "node_modules", "snapshots"];

/// Finds the signs in a line of prose.
struct Signs(Vec<Regex>);

impl Signs {
    fn new() -> Self {
        let signs = [
            r"(?-u)^(What|Who|Whoever|Whatever|Whose|As many|As much|So many|How many)\b",
            r"(?i-u)\b(somebody|nobody|everybody|anybody)\b",
            r"(?i-u)\b(whoever|whatever|whichever)\b",
            r"(?i-u)\b(is|are|was|be|being) told\b|\btold of\b",
            r"(?i-u)\bthat (is|are) none\b",
            r"(?i-u)\bmend(s|ed|ing)?\b",
            r"(?i-u)\bone of both\b|\banew\b|\bof its own\b",
        ];
        Self(signs.map(|sign| Regex::new(sign).unwrap()).to_vec())
    }

    fn of_names() -> Self {
        let sign = r"(?-u)^(what|who|whoever|whose)_|(somebody|nobody|everybody|whoever|whatever|_is_no_|_is_none|_told)";
        Self(vec![Regex::new(sign).unwrap()])
    }

    fn are_in(&self, text: &str) -> bool {
        !text.trim_end().ends_with('?') && self.0.iter().any(|sign| sign.is_match(text))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files below a directory with one of these endings.
fn files(directory: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !SKIPPED.contains(&name) {
                files(&path, endings, found);
            }
        } else if name != "CHANGELOG.md" && endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// Runs `read` on every line of every file with one of these endings.
fn for_each_line(endings: &[&str], mut read: impl FnMut(&str, &str)) {
    let mut found = Vec::new();
    files(&root(), endings, &mut found);
    assert!(found.len() > 10, "the files are not found");
    for path in found {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        // This file lists the signs.
        if !name.ends_with("plain_english.rs") {
            for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
                read(&format!("{name}:{}", number + 1), line.trim());
            }
        }
    }
}

/// The text of a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

/// The string literals of a line of code. Of a string with several lines, only
/// the first line is read.
fn literals(line: &str) -> Vec<&str> {
    if comment(line).is_some() {
        return Vec::new();
    }
    line.split('"').skip(1).step_by(2).collect()
}

/// Fails if there are more signs than `limit`, or at least five fewer.
fn hold(what: &str, found: &[String], limit: usize) {
    let count = found.len();
    let listed = found[..count.min(40)].join("\n");
    assert!(
        count <= limit,
        "{count} signs in {what}, the limit is {limit}:\n{listed}"
    );
    assert!(
        count + 5 > limit,
        "only {count} signs in {what}: lower the limit from {limit}"
    );
}

#[test]
fn comments_are_plain() {
    let signs = Signs::new();
    let mut found = Vec::new();
    for_each_line(&[".rs"], |place, line| {
        if comment(line).is_some_and(|text| signs.are_in(text)) {
            found.push(format!("{place}: {line}"));
        }
    });
    for_each_line(&[".md"], |place, line| {
        let text = line.trim_start_matches(['-', '*', '>', '|', ' ']);
        // These pages quote the signs.
        let is_list = place.starts_with("CONTRIBUTING.md") || place.starts_with("docs/glossary.md");
        if !is_list && signs.are_in(text) {
            found.push(format!("{place}: {line}"));
        }
    });
    hold("comments and documentation", &found, COMMENTS);
}

#[test]
fn string_literals_are_plain() {
    let signs = Signs::new();
    let mut found = Vec::new();
    for_each_line(&[".rs"], |place, line| {
        // Literals of tests are mostly data.
        let is_test = [
            "/tests/",
            "/conformance/",
            "anything.rs",
            "fuzzing.rs",
            "bench/",
        ]
        .iter()
        .any(|part| place.contains(part));
        if is_test {
            return;
        }
        if literals(line).iter().any(|text| signs.are_in(text)) {
            found.push(format!("{place}: {line}"));
        }
    });
    hold("string literals", &found, LITERALS);
}

#[test]
fn openapi_texts_are_plain() {
    let signs = Signs::new();
    let mut found = Vec::new();
    let page = fs::read_to_string(root().join("openapi/elevo.json")).unwrap();
    for line in page.lines().map(str::trim) {
        let text = ["\"description\": \"", "\"summary\": \""]
            .iter()
            .find_map(|field| line.strip_prefix(field));
        let sentences = text.into_iter().flat_map(|text| text.split(". "));
        let listed = sentences.filter(|text| signs.are_in(text));
        found.extend(listed.map(str::to_owned));
    }
    hold("OpenAPI texts", &found, OPENAPI);
}

#[test]
fn test_names_are_plain() {
    let signs = Signs::of_names();
    let mut found = Vec::new();
    let mut is_test = false;
    for_each_line(&[".rs"], |place, line| {
        if line.starts_with('#') {
            is_test |= line.contains("test]") || line.contains("test(");
            return;
        }
        let name = line.trim_start_matches("async ").strip_prefix("fn ");
        if let Some((name, _)) = name.and_then(|name| name.split_once('('))
            && is_test
            && signs.are_in(name)
        {
            found.push(format!("{place}: {name}"));
        }
        is_test = false;
    });
    hold("names of tests", &found, TEST_NAMES);
}
