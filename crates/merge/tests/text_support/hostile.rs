//! Seeded random versions of hostile bytes.

use elevo_merge::Versions;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::promises;

/// Checks the promises of the driver on `rounds` triples of hostile bytes.
pub(crate) fn survive(seed: u64, rounds: u32) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for _ in 0..rounds {
        let base = bytes(&mut rng);
        let ours = another(&base, &mut rng);
        let theirs = another(&base, &mut rng);
        promises::check(&Versions {
            base: (!rng.random_ratio(1, 10)).then_some(&base),
            ours: &ours,
            theirs: &theirs,
        });
    }
}

const ALPHABETS: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"a\n",
    b"ab\n",
    b"ab\r\n\t ",
    b"\n\n\n\n\0",
    b"<<<<<<<|||||||=======>>>>>>>\n\r",
    b"\xff\xfe\xc3\x28\n\x1b[",
    b"abcdefghijklmnopqrstuvwxyz\n\n\n",
];

fn bytes(rng: &mut SmallRng) -> Vec<u8> {
    let alphabet = ALPHABETS.choose(rng).unwrap();
    let len = match rng.random_range(0..20) {
        0 => rng.random_range(0..40_000),
        1..5 => rng.random_range(0..2_000),
        _ => rng.random_range(0..60),
    };
    (0..len).map(|_| *alphabet.choose(rng).unwrap()).collect()
}

/// An unrelated text, or the base with some bytes replaced.
fn another(base: &[u8], rng: &mut SmallRng) -> Vec<u8> {
    if rng.random_ratio(1, 8) {
        return bytes(rng);
    }
    let mut text = base.to_vec();
    for _ in 0..rng.random_range(0..6) {
        let start = rng.random_range(0..=text.len());
        let end = rng.random_range(start..=text.len().min(start + 12));
        let alphabet = ALPHABETS.choose(rng).unwrap();
        let len = rng.random_range(0..12);
        let new: Vec<u8> = (0..len).map(|_| *alphabet.choose(rng).unwrap()).collect();
        text.splice(start..end, new);
    }
    text
}
