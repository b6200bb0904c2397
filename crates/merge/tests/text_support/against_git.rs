//! Compares our merges with git's, to the byte.

use std::collections::BTreeMap;

use elevo_merge::{Driver, Labels, MarkerStyle, Merged, Text, Versions, marked};

use crate::cases::Case;
use crate::git::{ByGit, Git};

/// Known differences from git, and their reasons. Every other difference is a
/// failure.
const LISTED: &[(&str, &str)] = &[
    (
        ENDINGS,
        "one side changed all line endings: git reports a conflict for every line; our result \
         equals git's merge of the versions after converting them to one line ending",
    ),
    (
        SAME,
        "both made the same change, seen as hunks of different shape: with base lines between \
         the markers git shows it as a conflict of equal sides; without them, git itself takes it",
    ),
];

const ENDINGS: &str = "all line endings changed";
const SAME: &str = "equal sides between markers";

/// Number of cases by result.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) clean: usize,
    pub(crate) conflicts: usize,
    /// Cases that differ from git for a listed reason.
    pub(crate) listed: BTreeMap<&'static str, usize>,
    /// Cases that differ without a listed reason.
    pub(crate) wrong: Vec<String>,
}

impl Tally {
    /// Fails if there is an unlisted difference, or if too many cases have the
    /// same result.
    pub(crate) fn check(&self) {
        let cases = self.clean + self.conflicts;
        assert!(
            self.wrong.is_empty(),
            "{}",
            self.wrong[..self.wrong.len().min(50)].join("\n")
        );
        assert!(self.clean * 100 >= cases * 40, "too few clean: {self:?}");
        assert!(
            self.conflicts * 100 >= cases * 25,
            "too few conflicts: {self:?}"
        );
        for (class, reason) in LISTED {
            assert!(
                self.listed.contains_key(class),
                "no case of: {class} ({reason})"
            );
        }
        let listed: usize = self.listed.values().sum();
        assert!(listed * 100 <= cases * 15, "too many exceptions: {self:?}");
    }

    fn list(&mut self, class: &'static str) {
        *self.listed.entry(class).or_default() += 1;
    }
}

/// Merges all cases with our driver and with git.
pub(crate) fn compare(cases: &[Case]) -> Tally {
    let mut tally = Tally::default();
    let for_git: Vec<Case> = cases
        .iter()
        .map(|case| ending_alike(case, &mut tally))
        .collect();
    let git = Git::new(&for_git);
    let merged = git.merged("merge");
    for (case, by_git) in cases.iter().zip(&merged) {
        compare_merge(case, by_git, &mut tally);
    }
    let base_label = git.base_label();
    let labels = Labels {
        ours: "ours",
        base: &base_label,
        theirs: "theirs",
    };
    let styles = [
        ("diff3", MarkerStyle::Diff3),
        ("zdiff3", MarkerStyle::Zdiff3),
    ];
    for (name, style) in styles {
        for (case, by_git) in cases.iter().zip(git.merged(name)) {
            let ours = marked(&versions(case), &labels, style).expect("no NUL bytes");
            if ours == by_git.bytes {
                continue;
            }
            if ours == without_equal_sides(&by_git.bytes) {
                tally.list(SAME);
            } else {
                tally.wrong.push(format!("{name}: {}", case.name));
            }
        }
    }
    tally
}

fn versions(case: &Case) -> Versions<'_> {
    Versions {
        base: case.base.as_deref(),
        ours: &case.ours,
        theirs: &case.theirs,
    }
}

fn compare_merge(case: &Case, by_git: &ByGit, tally: &mut Tally) {
    match (Text.merge(&versions(case)), by_git.conflict) {
        (Merged::Clean(bytes), false) if bytes == by_git.bytes => tally.clean += 1,
        (Merged::Conflict(_), true) => tally.conflicts += 1,
        (merged, conflict) => tally.wrong.push(format!(
            "git: {}, we: {}: {}",
            if conflict { "conflict" } else { "clean" },
            match merged {
                Merged::Clean(_) => "clean, other bytes",
                Merged::Conflict(_) => "conflict",
                Merged::NotMine => "not mine",
            },
            case.name
        )),
    }
}

/// The case as passed to git: converted to one line ending if each version is
/// uniform and a side changed the ending.
fn ending_alike(case: &Case, tally: &mut Tally) -> Case {
    let endings = || {
        let base = ending(case.base.as_deref()?)?;
        Some((base, ending(&case.ours)?, ending(&case.theirs)?))
    };
    let Some((base, ours, theirs)) = endings() else {
        return case.clone();
    };
    let wanted = if ours == base { theirs } else { ours };
    if wanted == base {
        return case.clone();
    }
    tally.list(ENDINGS);
    Case {
        name: case.name.clone(),
        base: case.base.as_deref().map(|text| with_ending(text, wanted)),
        ours: with_ending(&case.ours, wanted),
        theirs: with_ending(&case.theirs, wanted),
    }
}

/// Whether all lines of a text end in CRLF; `None` if endings are mixed.
fn ending(text: &[u8]) -> Option<bool> {
    if text.windows(3).any(|bytes| bytes == b"\r\r\n") {
        return None;
    }
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    let mut endings = lines
        .filter(|line| line.ends_with(b"\n"))
        .map(|line| line.ends_with(b"\r\n"));
    let first = endings.next()?;
    endings.all(|other| other == first).then_some(first)
}

fn with_ending(text: &[u8], crlf: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        match line.strip_suffix(b"\n") {
            None => out.extend_from_slice(line),
            Some(line) => {
                out.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
                out.extend_from_slice(if crlf { b"\r\n" } else { b"\n" });
            }
        }
    }
    out
}

/// The same file, with conflicts of equal sides resolved.
fn without_equal_sides(marked: &[u8]) -> Vec<u8> {
    let mut out: Vec<&[u8]> = Vec::new();
    let mut lines = marked.split_inclusive(|&byte| byte == b'\n');
    while let Some(line) = lines.next() {
        if !line.starts_with(b"<<<<<<< ours") {
            out.push(line);
            continue;
        }
        let mut whole = vec![line];
        let mut sides = [vec![], vec![], vec![]];
        let mut side = 0;
        for line in lines.by_ref() {
            whole.push(line);
            match line.get(..7) {
                Some(b"|||||||") => side = 1,
                Some(b"=======") => side = 2,
                Some(b">>>>>>>") => break,
                _ => sides[side].push(line),
            }
        }
        out.append(if sides[0] == sides[2] {
            &mut sides[0]
        } else {
            &mut whole
        });
    }
    out.concat()
}
