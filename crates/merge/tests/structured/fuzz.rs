//! Random merges of slightly damaged files.

use elevo_merge::{Driver, Merged, Versions};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// Merges `rounds` triples of files that are derived from one of `samples`.
pub(crate) fn run(driver: &dyn Driver, samples: &[&str], unrelated: &str, seed: u64, rounds: u32) {
    for round in 0..rounds {
        let seed = seed.wrapping_add(u64::from(round));
        let mut rng = StdRng::seed_from_u64(seed);
        let mut base = samples[rng.random_range(0..samples.len())].to_owned();
        change(&mut base, samples, &mut rng, 2);
        let [mut ours, mut theirs] = [base.clone(), base.clone()];
        change(&mut ours, samples, &mut rng, 4);
        change(&mut theirs, samples, &mut rng, 4);
        check(driver, unrelated, [&base, &ours, &theirs], seed);
    }
}

fn merge(driver: &dyn Driver, base: &str, ours: &str, theirs: &str) -> Merged {
    driver.merge(&Versions {
        base: Some(base.as_bytes()),
        ours: ours.as_bytes(),
        theirs: theirs.as_bytes(),
    })
}

/// Checks that swapping the sides gives the same kind of result, and the same
/// value if it is clean.
fn check(driver: &dyn Driver, unrelated: &str, [base, ours, theirs]: [&str; 3], seed: u64) {
    let one = merge(driver, base, ours, theirs);
    let other = merge(driver, base, theirs, ours);
    let case = || format!("seed {seed}\n{base:?}\n{ours:?}\n{theirs:?}\n{one:?}\n{other:?}");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    match (&one, &other) {
        (Merged::Clean(one), Merged::Clean(other)) => {
            let (one, other) = (text(one), text(other));
            let lands_later = driver.counts_twice();
            let read = ours == theirs || base == ours || base == theirs || lands_later;
            let same = merge(driver, unrelated, &one, &other);
            assert!(read || is_clean_or_comments(&same), "{}", case());
        }
        (Merged::Conflict(one), Merged::Conflict(other)) => {
            assert_eq!(one.hunks.len(), other.hunks.len(), "{}", case());
            let suggestion = text(&one.suggestion);
            let read = merge(driver, unrelated, &suggestion, &unrelated.replace('1', "2"));
            assert_ne!(read, Merged::NotMine, "{}", case());
        }
        (Merged::NotMine, Merged::NotMine) => {}
        _ => panic!("{}", case()),
    }
    for side in [ours, theirs] {
        let unchanged = [
            merge(driver, base, base, side),
            merge(driver, base, side, base),
        ];
        assert!(
            unchanged
                .iter()
                .all(|merged| *merged == Merged::Clean(side.into()))
        );
    }
}

/// Whether a merge of two results is clean or conflicts only in comments. Such
/// conflicts are accepted, because the results may have the same comments in a
/// different order.
fn is_clean_or_comments(merged: &Merged) -> bool {
    match merged {
        Merged::Clean(_) => true,
        Merged::Conflict(conflict) => conflict.hunks.iter().all(|hunk| {
            let texts = [&hunk.ours, &hunk.theirs].map(|text| text.clone().unwrap_or_default());
            texts.iter().any(|text| {
                text.starts_with(b"//") || text.starts_with(b"#") || text.starts_with(b"/*")
            })
        }),
        Merged::NotMine => false,
    }
}

/// Makes up to `most` changes of lines, words or characters.
fn change(text: &mut String, samples: &[&str], rng: &mut StdRng, most: usize) {
    for _ in 0..rng.random_range(0..=most) {
        match rng.random_range(0..10) {
            0..4 => lines(text, samples, rng),
            4..9 => words(text, samples, rng),
            _ => character(text, rng),
        }
    }
}

fn lines(text: &mut String, samples: &[&str], rng: &mut StdRng) {
    let mut lines: Vec<_> = text.split_inclusive('\n').collect();
    if lines.is_empty() {
        return;
    }
    let at = rng.random_range(0..lines.len());
    let other = samples[rng.random_range(0..samples.len())];
    let others: Vec<_> = other.split_inclusive('\n').chain(["\n"]).collect();
    match rng.random_range(0..4) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, others[rng.random_range(0..others.len())]),
        2 => lines[at] = others[rng.random_range(0..others.len())],
        _ => {
            let to = rng.random_range(0..lines.len());
            lines.swap(at, to);
        }
    }
    *text = lines.concat();
}

/// Replaces a word by a word of a sample or by a number.
fn words(text: &mut String, samples: &[&str], rng: &mut StdRng) {
    let is_word = |c: char| c.is_alphanumeric();
    let word = |text: &str, rng: &mut StdRng| {
        let starts: Vec<_> = text
            .char_indices()
            .filter(|(at, c)| is_word(*c) && !text[..*at].ends_with(is_word))
            .map(|(at, _)| at)
            .collect();
        let start = *starts.get(rng.random_range(0..starts.len().max(1)))?;
        let length = text[start..]
            .find(|c| !is_word(c))
            .unwrap_or(text.len() - start);
        Some(start..start + length)
    };
    let Some(place) = word(text, rng) else {
        return;
    };
    let sample = samples[rng.random_range(0..samples.len())];
    let new = match word(sample, rng) {
        Some(place) if rng.random_bool(0.5) => sample[place].to_owned(),
        _ => rng.next_u32().to_string(),
    };
    text.replace_range(place, &new);
}

fn character(text: &mut String, rng: &mut StdRng) {
    const CHARACTERS: &[&str] = &[
        "\n", " ", "\t", "\r\n", ",", ":", "{", "}", "[", "]", "\"", "'", "#", "/", "*", "-", "|",
        "=", ".", "\\", "é", "\u{feff}", "\0", "1", "e",
    ];
    let mut at = rng.random_range(0..=text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    if rng.random_bool(0.5) {
        text.insert_str(at, CHARACTERS[rng.random_range(0..CHARACTERS.len())]);
    } else if at < text.len() {
        text.remove(at);
    }
}
