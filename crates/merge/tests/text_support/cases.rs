//! Seeded random triples of versions with the structure of real files.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::edits::{EDITS, drop_last_newline, to_crlf};

/// Three versions, and how they were made.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) base: Option<Vec<u8>>,
    pub(crate) ours: Vec<u8>,
    pub(crate) theirs: Vec<u8>,
}

/// The obvious cases, with one letter for each line.
pub(crate) fn known() -> Vec<Case> {
    KNOWN
        .iter()
        .map(|[name, base, ours, theirs]| {
            let lines = |letters: &str| {
                letters
                    .chars()
                    .map(|letter| format!("{letter}\n"))
                    .collect()
            };
            let text = |letters: &str| String::into_bytes(lines(letters));
            Case {
                name: (*name).to_owned(),
                base: (*base != "-").then(|| text(base)),
                ours: text(ours),
                theirs: text(theirs),
            }
        })
        .collect()
}

/// Name, base (`-` for none), ours, theirs.
const KNOWN: &[[&str; 4]] = &[
    ["far apart", "abcdef", "aXcdef", "abcdeY"],
    ["one line between", "abc", "Xbc", "abY"],
    ["touching", "abcd", "aXcd", "abYd"],
    ["the same line", "abc", "aXc", "aYc"],
    ["the same change", "abc", "aXc", "aXc"],
    ["the same change and another", "abcdef", "aXcdef", "aXcdeY"],
    ["insertions in one place", "abc", "aXbc", "aYbc"],
    ["the same insertion", "abc", "aXbc", "aXbcY"],
    ["insertion next to a change", "abc", "aXbc", "aYc"],
    ["both append", "abc", "abcX", "abcY"],
    ["both append, one more", "abc", "abcX", "abcXY"],
    ["both prepend", "abc", "Xabc", "Yabc"],
    ["delete against edit", "abc", "ac", "aXc"],
    ["delete against neighbour", "abc", "ac", "abX"],
    ["both delete", "abcd", "ad", "acd"],
    ["both delete all", "abc", "", ""],
    ["delete all against edit", "abc", "", "abX"],
    ["move against edit", "abcdef", "bcdefa", "Xbcdef"],
    ["both move", "abcdef", "bcdefa", "fabcde"],
    ["both add the same file", "-", "abc", "abc"],
    ["both add", "-", "abcdef", "abXdef"],
    ["both add, nothing in common", "-", "abc", "def"],
    ["both add, one empty", "-", "", "abc"],
    ["equal result, other shape", "baba", "bb", "bba"],
    ["equal result, other shape", "ababa", "bba", "bbb"],
];

/// The case of a seed.
pub(crate) fn case(seed: u64) -> Case {
    let mut rng = SmallRng::seed_from_u64(seed);
    let kind = KINDS.choose(&mut rng).unwrap();
    let mut base = (kind.make)(&mut rng);
    let crlf = rng.random_ratio(1, 10);
    if crlf {
        base.iter_mut().for_each(to_crlf);
    }
    if rng.random_ratio(1, 12) {
        drop_last_newline(&mut base);
    }
    let mut names = Vec::new();
    let (mut ours, mut theirs) = (base.clone(), base.clone());
    if rng.random_ratio(1, 6) {
        let same = rng.random();
        let edit = EDITS.choose(&mut rng).unwrap();
        (edit.make)(&mut ours, &mut SmallRng::seed_from_u64(same));
        (edit.make)(&mut theirs, &mut SmallRng::seed_from_u64(same));
        names.push(format!("both {}", edit.name));
    }
    for (side, who) in [(&mut ours, "ours"), (&mut theirs, "theirs")] {
        for _ in 0..rng.random_range(1..4) {
            let edit = EDITS.choose(&mut rng).unwrap();
            (edit.make)(side, &mut rng);
            names.push(format!("{who} {}", edit.name));
        }
    }
    if crlf {
        for line in ours.iter_mut().chain(&mut theirs) {
            if rng.random_ratio(9, 10) {
                to_crlf(line);
            }
        }
    }
    let base = (!rng.random_ratio(1, 25)).then(|| base.concat());
    Case {
        name: format!("{} {}: {}", seed, kind.name, names.join(", ")),
        base,
        ours: ours.concat(),
        theirs: theirs.concat(),
    }
}

/// Lines, each with its ending.
pub(crate) type Text = Vec<Vec<u8>>;

struct Kind {
    name: &'static str,
    make: fn(&mut SmallRng) -> Text,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "functions",
        make: functions,
    },
    Kind {
        name: "similar functions",
        make: similar_functions,
    },
    Kind {
        name: "python",
        make: python,
    },
    Kind {
        name: "imports",
        make: imports,
    },
    Kind {
        name: "prose",
        make: prose,
    },
    Kind {
        name: "settings",
        make: settings,
    },
    Kind {
        name: "braces",
        make: braces,
    },
    Kind {
        name: "few letters",
        make: few_letters,
    },
    Kind {
        name: "repeated line",
        make: repeated_line,
    },
    Kind {
        name: "table",
        make: table,
    },
    Kind {
        name: "tiny",
        make: tiny,
    },
    Kind {
        name: "log",
        make: log,
    },
];

const WORDS: &[&str] = &[
    "count", "index", "value", "name", "path", "entry", "result", "state", "merge", "line",
];

pub(crate) fn word(rng: &mut SmallRng) -> &'static str {
    WORDS.choose(rng).unwrap()
}

pub(crate) fn line(text: impl AsRef<str>) -> Vec<u8> {
    format!("{}\n", text.as_ref()).into_bytes()
}

pub(crate) fn statement(rng: &mut SmallRng, indent: usize) -> Vec<u8> {
    let (a, b) = (word(rng), word(rng));
    let indent = " ".repeat(indent);
    line(match rng.random_range(0..5) {
        0 => format!("{indent}let {a} = {b};"),
        1 => format!("{indent}{a}({b});"),
        2 => format!("{indent}{a} += 1;"),
        3 => format!("{indent}return {a};"),
        _ => format!("{indent}// the {a} of {b}"),
    })
}

pub(crate) fn function(rng: &mut SmallRng, name: &str) -> Text {
    let mut text = vec![line(format!("fn {name}({}: u32) {{", word(rng)))];
    for _ in 0..rng.random_range(1..7) {
        if rng.random_ratio(1, 5) {
            text.push(line(format!("    if {} {{", word(rng))));
            text.push(statement(rng, 8));
            text.push(line("    }"));
        } else {
            text.push(statement(rng, 4));
        }
    }
    text.push(line("}"));
    text.push(line(""));
    text
}

fn functions(rng: &mut SmallRng) -> Text {
    let mut text = imports(rng);
    text.push(line(""));
    for i in 0..rng.random_range(2..7) {
        let name = format!("{}_{i}", word(rng));
        text.extend(function(rng, &name));
    }
    text
}

fn similar_functions(rng: &mut SmallRng) -> Text {
    let body = function(rng, "same");
    let mut text = Text::new();
    for i in 0..rng.random_range(3..8) {
        text.push(line(format!("fn test_{i}() {{")));
        text.extend_from_slice(&body[1..]);
    }
    text
}

fn python(rng: &mut SmallRng) -> Text {
    let mut text = Text::new();
    for i in 0..rng.random_range(2..5) {
        text.push(line(format!("class {}{i}:", word(rng))));
        for j in 0..rng.random_range(1..4) {
            text.push(line(format!("    def {}_{j}(self):", word(rng))));
            for _ in 0..rng.random_range(1..4) {
                text.push(line(format!("        self.{} = {}", word(rng), word(rng))));
            }
            text.push(line(""));
        }
    }
    text
}

fn imports(rng: &mut SmallRng) -> Text {
    let mut text: Text = (0..rng.random_range(3..12))
        .map(|_| line(format!("use {}::{};", word(rng), word(rng))))
        .collect();
    text.sort();
    text.dedup();
    text
}

fn prose(rng: &mut SmallRng) -> Text {
    let mut text = Text::new();
    for _ in 0..rng.random_range(3..10) {
        for _ in 0..rng.random_range(1..5) {
            let words: Vec<_> = (0..rng.random_range(2..9)).map(|_| word(rng)).collect();
            text.push(line(words.join(" ")));
        }
        text.push(line(""));
    }
    text
}

fn settings(rng: &mut SmallRng) -> Text {
    let mut text = Text::new();
    for i in 0..rng.random_range(2..6) {
        text.push(line(format!("[{}.{i}]", word(rng))));
        for _ in 0..rng.random_range(1..6) {
            text.push(line(format!("{} = {}", word(rng), rng.random_range(0..5))));
        }
        text.push(line(""));
    }
    text
}

fn braces(rng: &mut SmallRng) -> Text {
    (0..rng.random_range(5..60))
        .map(|_| match rng.random_range(0..6) {
            0 => line("{"),
            1 => line("}"),
            2 => line("    }"),
            3 => line(""),
            4 => line("    {"),
            _ => statement(rng, 4),
        })
        .collect()
}

fn few_letters(rng: &mut SmallRng) -> Text {
    let letters = rng.random_range(2..9);
    (0..rng.random_range(1..60))
        .map(|_| line(["a", "b", "c", "d", "e", "f", "g", "h"][rng.random_range(0..letters)]))
        .collect()
}

fn repeated_line(rng: &mut SmallRng) -> Text {
    let rare = rng.random_range(3..40);
    (0..rng.random_range(60..300))
        .map(|_| match rng.random_range(0..rare) {
            0 => statement(rng, 4),
            1 => line("}"),
            _ => line("same"),
        })
        .collect()
}

fn table(rng: &mut SmallRng) -> Text {
    (0..rng.random_range(5..90))
        .map(|_| {
            line(format!(
                "{},{}",
                rng.random_range(0..4),
                rng.random_range(0..3)
            ))
        })
        .collect()
}

fn tiny(rng: &mut SmallRng) -> Text {
    (0..rng.random_range(0..5))
        .map(|_| statement(rng, 0))
        .collect()
}

fn log(rng: &mut SmallRng) -> Text {
    (0..rng.random_range(20..200))
        .map(|i| match rng.random_range(0..4) {
            0 => line("---"),
            _ => line(format!("{i:05} {} {}", word(rng), word(rng))),
        })
        .collect()
}
