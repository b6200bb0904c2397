//! Typical edits of a text by people and programs.

use std::ops::Range;

use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use crate::cases::{Text, function, line, statement, word};

/// An edit with random details.
pub(crate) struct Edit {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&mut Text, &mut SmallRng),
}

/// Frequent edits are listed more than once.
pub(crate) const EDITS: &[Edit] = &[
    Edit {
        name: "change a line",
        make: change_line,
    },
    Edit {
        name: "change a line",
        make: change_line,
    },
    Edit {
        name: "insert lines",
        make: insert_lines,
    },
    Edit {
        name: "insert lines",
        make: insert_lines,
    },
    Edit {
        name: "delete lines",
        make: delete_lines,
    },
    Edit {
        name: "move a block",
        make: move_block,
    },
    Edit {
        name: "copy a block",
        make: copy_block,
    },
    Edit {
        name: "indent a block",
        make: indent_block,
    },
    Edit {
        name: "wrap a block",
        make: wrap_block,
    },
    Edit {
        name: "insert a function",
        make: insert_function,
    },
    Edit {
        name: "insert an import",
        make: insert_import,
    },
    Edit {
        name: "append",
        make: append,
    },
    Edit {
        name: "prepend",
        make: prepend,
    },
    Edit {
        name: "blank line",
        make: blank_line,
    },
    Edit {
        name: "drop a blank line",
        make: drop_blank_line,
    },
    Edit {
        name: "swap lines",
        make: swap_lines,
    },
    Edit {
        name: "adjacent changes",
        make: adjacent_changes,
    },
    Edit {
        name: "final newline",
        make: toggle_last_newline,
    },
    Edit {
        name: "some endings",
        make: some_endings,
    },
    Edit {
        name: "all endings",
        make: all_endings,
    },
    Edit {
        name: "rename a word",
        make: rename_word,
    },
    Edit {
        name: "truncate",
        make: truncate,
    },
];

/// A random position in a text, its end included.
fn somewhere(text: &Text, rng: &mut SmallRng) -> usize {
    rng.random_range(0..=text.len())
}

/// A random block of a text; empty if the text is empty.
fn block(text: &Text, rng: &mut SmallRng) -> Range<usize> {
    if text.is_empty() {
        return 0..0;
    }
    let start = rng.random_range(0..text.len());
    start..text.len().min(start + rng.random_range(1..8))
}

fn insert(text: &mut Text, at: usize, lines: Text) {
    if at == text.len()
        && let Some(last) = text.last_mut()
        && !last.ends_with(b"\n")
    {
        last.push(b'\n');
    }
    text.splice(at..at, lines);
}

fn change_line(text: &mut Text, rng: &mut SmallRng) {
    if text.is_empty() {
        return;
    }
    let line = rng.random_range(0..text.len());
    let line = &mut text[line];
    let at = rng.random_range(0..line.len().max(1)).min(line.len());
    line.splice(at..at, word(rng).bytes());
}

fn insert_lines(text: &mut Text, rng: &mut SmallRng) {
    let at = somewhere(text, rng);
    let lines = (0..rng.random_range(1..4))
        .map(|_| statement(rng, 4))
        .collect();
    insert(text, at, lines);
}

fn delete_lines(text: &mut Text, rng: &mut SmallRng) {
    let range = block(text, rng);
    text.drain(range);
}

fn move_block(text: &mut Text, rng: &mut SmallRng) {
    let range = block(text, rng);
    let moved: Text = text.drain(range).collect();
    let at = somewhere(text, rng);
    insert(text, at, moved);
    mend_newlines(text);
}

fn copy_block(text: &mut Text, rng: &mut SmallRng) {
    let range = block(text, rng);
    let copied = text[range].to_vec();
    let at = somewhere(text, rng);
    insert(text, at, copied);
    mend_newlines(text);
}

fn indent_block(text: &mut Text, rng: &mut SmallRng) {
    let range = block(text, rng);
    for line in &mut text[range] {
        line.splice(0..0, *b"    ");
    }
}

fn wrap_block(text: &mut Text, rng: &mut SmallRng) {
    let range = block(text, rng);
    for line in &mut text[range.clone()] {
        line.splice(0..0, *b"    ");
    }
    insert(text, range.end, vec![line("}")]);
    insert(
        text,
        range.start,
        vec![line(format!("if {} {{", word(rng)))],
    );
    mend_newlines(text);
}

fn insert_function(text: &mut Text, rng: &mut SmallRng) {
    let starts: Vec<usize> = text
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with(b"fn "))
        .map(|(at, _)| at)
        .collect();
    let at = starts.choose(rng).copied().unwrap_or(text.len());
    let name = format!("new_{}", word(rng));
    insert(text, at, function(rng, &name));
}

fn insert_import(text: &mut Text, rng: &mut SmallRng) {
    let new = line(format!("use {}::{};", word(rng), word(rng)));
    let at = text
        .iter()
        .position(|line| !line.starts_with(b"use ") || *line > new)
        .unwrap_or(text.len());
    insert(text, at, vec![new]);
}

fn append(text: &mut Text, rng: &mut SmallRng) {
    let lines = (0..rng.random_range(1..4))
        .map(|_| statement(rng, 0))
        .collect();
    let end = text.len();
    insert(text, end, lines);
}

fn prepend(text: &mut Text, rng: &mut SmallRng) {
    insert(text, 0, vec![line(format!("// {}", word(rng)))]);
}

fn blank_line(text: &mut Text, rng: &mut SmallRng) {
    let at = somewhere(text, rng);
    insert(text, at, vec![line("")]);
}

fn drop_blank_line(text: &mut Text, rng: &mut SmallRng) {
    let blank: Vec<usize> = (0..text.len()).filter(|&at| text[at] == b"\n").collect();
    if let Some(&at) = blank.choose(rng) {
        text.remove(at);
    }
}

fn swap_lines(text: &mut Text, rng: &mut SmallRng) {
    if text.len() > 1 {
        let at = rng.random_range(1..text.len());
        text.swap(at - 1, at);
        mend_newlines(text);
    }
}

fn adjacent_changes(text: &mut Text, rng: &mut SmallRng) {
    if text.is_empty() {
        return;
    }
    // Always near the start, so that the change of the other side is often
    // adjacent.
    let at = rng.random_range(0..text.len().min(4));
    let end = text[at].len().saturating_sub(1);
    text[at].splice(end..end, *b" changed");
}

fn toggle_last_newline(text: &mut Text, _: &mut SmallRng) {
    match text.last_mut() {
        Some(last) if last.ends_with(b"\n") => drop_last_newline(text),
        Some(last) => last.push(b'\n'),
        None => {}
    }
}

pub(crate) fn drop_last_newline(text: &mut Text) {
    if let Some(last) = text.last_mut() {
        last.pop();
        if last.is_empty() {
            text.pop();
        }
    }
}

fn some_endings(text: &mut Text, rng: &mut SmallRng) {
    let range = block(text, rng);
    text[range].iter_mut().for_each(to_crlf);
}

fn all_endings(text: &mut Text, _: &mut SmallRng) {
    let crlf = text.first().is_some_and(|line| line.ends_with(b"\r\n"));
    for line in text {
        if !crlf {
            to_crlf(line);
        } else if line.ends_with(b"\r\n") {
            line.remove(line.len() - 2);
        }
    }
}

pub(crate) fn to_crlf(line: &mut Vec<u8>) {
    if line.ends_with(b"\n") && !line.ends_with(b"\r\n") {
        line.insert(line.len() - 1, b'\r');
    }
}

fn rename_word(text: &mut Text, rng: &mut SmallRng) {
    let (from, to) = (word(rng), format!("new_{}", word(rng)));
    for line in text {
        if let Ok(words) = std::str::from_utf8(line) {
            *line = words.replace(from, &to).into_bytes();
        }
    }
}

fn truncate(text: &mut Text, rng: &mut SmallRng) {
    if rng.random_ratio(1, 4) {
        let at = somewhere(text, rng);
        text.truncate(at);
    }
}

/// Gives every line but the last an ending.
fn mend_newlines(text: &mut Text) {
    let last = text.len().saturating_sub(1);
    for line in &mut text[..last] {
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
    }
}
