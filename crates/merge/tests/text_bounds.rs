//! Merges of large and of pathological texts take bounded time.
#![allow(clippy::disallowed_methods, reason = "a test takes the time")]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::time::{Duration, Instant};

use elevo_merge::{Driver, Merged, Text, Versions};
use elevo_testkit::long::note;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const MIB: usize = 1 << 20;

/// Maximum time of a merge. It is far more than a merge needs without
/// optimisation on a busy machine. Without a limit on the work, the same merges
/// take hours.
const SOON: Duration = Duration::from_secs(120);

fn merge_soon(what: &str, base: &[u8], ours: &[u8], theirs: &[u8]) -> Merged {
    let start = Instant::now();
    let merged = Text.merge(&Versions {
        base: Some(base),
        ours,
        theirs,
    });
    let took = start.elapsed();
    note(format_args!("{what}: {took:?}"));
    assert!(took < SOON, "{what} took {took:?}");
    merged
}

fn lines(line: impl FnMut(usize) -> String) -> Vec<u8> {
    let lines = (0..).map(line).scan(0, up_to_a_mebibyte);
    lines.collect::<String>().into_bytes()
}

fn up_to_a_mebibyte(size: &mut usize, line: String) -> Option<String> {
    *size += line.len();
    (*size <= MIB).then_some(line)
}

#[test]
fn twenty_edits_a_side_in_a_mebibyte_of_source() {
    let mut rng = SmallRng::seed_from_u64(1);
    let source = lines(|i| match i % 7 {
        0 => format!("fn function_{i}(argument: u32) -> u32 {{\n"),
        5 => "}\n".to_owned(),
        6 => "\n".to_owned(),
        _ => format!("    let value_{} = call({});\n", i % 500, i % 50),
    });
    let line_count = source.iter().filter(|&&byte| byte == b'\n').count();
    let mut edited = |whose: &str| {
        let text = String::from_utf8(source.clone()).unwrap();
        let mut text: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        for _ in 0..20 {
            let line = &mut text[rng.random_range(0..line_count)];
            *line = format!("    {whose} was here\n");
        }
        text.concat().into_bytes()
    };
    let (ours, theirs) = (edited("one"), edited("another"));
    let merged = merge_soon("source", &source, &ours, &theirs);
    assert!(matches!(merged, Merged::Clean(_)));
}

#[test]
fn one_line_repeated_and_shifted() {
    let base = b"same\n".repeat(MIB / 5);
    let ours = [b"first\n", &base[..]].concat();
    let theirs = [&base[..], b"last\n"].concat();
    let merged = merge_soon("one line", &base, &ours, &theirs);
    assert_eq!(
        merged,
        Merged::Clean([b"first\n", &base[..], b"last\n"].concat())
    );
}

#[test]
fn lines_at_random() {
    let mut rng = SmallRng::seed_from_u64(1);
    for distinct in [2, 100, 100_000] {
        let mut text = || lines(|_| format!("{}\n", rng.random_range(0..distinct)));
        let (base, ours, theirs) = (text(), text(), text());
        merge_soon(&format!("random of {distinct}"), &base, &ours, &theirs);
    }
}

/// Every search for common lines finds only one more line, so that git takes
/// quadratic time.
#[test]
fn every_other_line_changed() {
    let text = |every: usize, new: &'static str| {
        lines(move |i| {
            let new = if i % every == 0 { new } else { "" };
            format!("{i}{new}\n")
        })
    };
    let (base, ours, theirs) = (text(1, ""), text(2, " ours"), text(3, " theirs"));
    merge_soon("every other", &base, &ours, &theirs);
}

/// The diff needs far more searches than its limit of work allows, so the
/// coarse algorithm finds the remaining changes.
#[test]
fn a_coarse_diff_still_separates_distant_changes() {
    let text = |ours: bool, theirs: bool| {
        let line = |i| match i % 8 {
            0 if ours => format!("{i} ours\n"),
            4 if theirs => format!("{i} theirs\n"),
            _ => format!("{i}\n"),
        };
        (0..100_000).map(line).collect::<String>().into_bytes()
    };
    let (base, ours, theirs) = (text(false, false), text(true, false), text(false, true));
    let merged = merge_soon("coarse", &base, &ours, &theirs);
    assert_eq!(merged, Merged::Clean(text(true, true)));
}
