//! Chunk boundaries: pinned, independent of how bytes are read, and moved by an
//! edit only around it.

use std::io::{self, Read};

use elevo_objects::{AVERAGE_CHUNK, Chunker, LOOK_AHEAD, MAX_CHUNK, MIN_CHUNK, cut};
use proptest::prelude::*;

use crate::samples::noise;

fn lengths(data: &[u8]) -> Vec<usize> {
    Chunker::new(data)
        .map(|chunk| chunk.expect("memory can be read").len())
        .collect()
}

/// Returns the ends of the chunks of `data`, the first of which starts at
/// `start`.
fn ends(data: &[u8], mut start: usize) -> Vec<usize> {
    let mut ends = Vec::new();
    while start < data.len() {
        start += cut(&data[start..]);
        ends.push(start);
    }
    ends
}

/// The rule of `docs/formats.md`, one byte at a time.
fn cut_by_the_book(window: &[u8], gear: &[u64]) -> usize {
    let window = &window[..window.len().min(MAX_CHUNK)];
    let mut hash = 0_u64;
    for at in MIN_CHUNK..window.len() & !1 {
        hash = (hash << 1).wrapping_add(gear[usize::from(window[at])]);
        let mask = if at < AVERAGE_CHUNK {
            0xd907_0353_7000
        } else {
            0xd90f_0353_0000
        };
        if hash & mask == 0 {
            return at;
        }
    }
    window.len()
}

/// Replaces bytes `start..end` of a file by `with`.
#[derive(Clone, Debug)]
struct Edit {
    start: usize,
    end: usize,
    with: Vec<u8>,
}

impl Edit {
    fn apply(&self, data: &[u8]) -> Vec<u8> {
        [&data[..self.start], &self.with, &data[self.end..]].concat()
    }

    /// Chunks the edited file from the first chunk that the edit can affect
    /// until a boundary coincides with an old one. Returns all ends and the
    /// number of those that were computed.
    fn rechunk(&self, old_ends: &[usize], data: &[u8]) -> (Vec<usize>, usize) {
        let keeps = |end: &&usize| **end + LOOK_AHEAD <= self.start;
        let mut ends: Vec<usize> = old_ends.iter().take_while(keeps).copied().collect();
        let kept = ends.len();
        let behind = self.start + self.with.len();
        let old_place = |end: usize| end - behind + self.end;
        let mut start = ends.last().copied().unwrap_or(0);
        while start < data.len() {
            start += cut(&data[start..]);
            ends.push(start);
            let met = |old: &&usize| start >= behind && **old == old_place(start);
            if old_ends.iter().any(|old| met(&old)) {
                break;
            }
        }
        let sought = ends.len() - kept;
        let rest = old_ends
            .iter()
            .map(|old| old + behind)
            .filter(|old| *old > start + self.end);
        ends.extend(rest.map(|old| old - self.end));
        (ends, sought)
    }
}

/// Noise with runs in it, whose chunks have all sizes up to the maximum.
fn any_data() -> impl Strategy<Value = Vec<u8>> {
    let noisy = (any::<u64>(), 0..400_000_usize).prop_map(|(seed, size)| noise(seed, size));
    let even = (any::<u8>(), 0..400_000_usize).prop_map(|(byte, size)| vec![byte; size]);
    prop::collection::vec(prop_oneof![3 => noisy, 1 => even], 0..5).prop_map(|parts| parts.concat())
}

/// An edit anywhere in `data`, often at or next to a boundary, and often at the
/// end of the file.
fn edited(data: Vec<u8>) -> impl Strategy<Value = (Vec<u8>, Edit)> {
    let length = data.len();
    let boundaries = [vec![0], ends(&data, 0)].concat();
    let near = (prop::sample::select(boundaries), -3..=3_isize)
        .prop_map(move |(end, by)| end.saturating_add_signed(by).min(length));
    let removed = prop_oneof![Just(0), 0..20_usize, 0..300_000_usize];
    let with = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 0..20),
        (any::<u64>(), 0..300_000_usize).prop_map(|(seed, size)| noise(seed, size)),
    ];
    let edit = prop_oneof![
        (0..=length, removed.clone(), with.clone()),
        (near.clone(), removed, with),
        (near, Just(usize::MAX), Just(Vec::new())),
    ];
    (Just(data), edit).prop_map(|(data, (start, removed, with))| {
        let end = start.saturating_add(removed).min(data.len());
        (data, Edit { start, end, with })
    })
}

#[test]
fn cut_points_are_pinned() {
    assert_eq!(
        lengths(&noise(0, 1 << 20)),
        [
            44_750, 219_962, 100_125, 28_400, 91_429, 28_467, 19_017, 114_735, 88_164, 66_867,
            152_283, 94_377
        ]
    );
    let text: Vec<u8> = (0..60_000)
        .flat_map(|n| format!("line {n}\n").into_bytes())
        .collect();
    assert_eq!(
        lengths(&text),
        [
            107_116, 43_311, 38_302, 88_683, 85_024, 51_794, 42_016, 140_603, 52_041
        ]
    );
    assert_eq!(lengths(&vec![0; 600_000]), [MAX_CHUNK, MAX_CHUNK, 75_712]);
}

#[test]
fn a_file_up_to_the_minimum_is_one_chunk() {
    assert_eq!(lengths(b""), [0_usize; 0]);
    assert_eq!(lengths(b"x"), [1]);
    assert_eq!(lengths(&noise(0, MIN_CHUNK)), [MIN_CHUNK]);
}

#[test]
fn chunks_are_of_the_expected_size() {
    let lengths = lengths(&noise(7, 64 << 20));
    let (_, all_but_last) = lengths.split_last().unwrap();
    assert!(
        all_but_last
            .iter()
            .all(|length| (MIN_CHUNK..=MAX_CHUNK).contains(length))
    );
    let mean = (64 << 20) / lengths.len();
    assert!(
        (64 * 1024..96 * 1024).contains(&mean),
        "{mean} bytes a chunk"
    );
}

#[test]
fn ten_bytes_inserted_anywhere_cost_few_new_chunks() {
    let data = noise(3, 16 << 20);
    let old = ends(&data, 0);
    let mut costs: Vec<usize> = (0..100)
        .map(|n| {
            let start = n * data.len() / 100 + 17 * n;
            let edit = Edit {
                start,
                end: start,
                with: noise(n as u64, 10),
            };
            let (ends, sought) = edit.rechunk(&old, &edit.apply(&data));
            let kept = old
                .iter()
                .take_while(|end| **end + LOOK_AHEAD <= start)
                .count();
            let from = kept.checked_sub(1).map_or(0, |last| ends[last]);
            ends[kept + sought - 1] - from
        })
        .collect();
    costs.sort_unstable();
    assert!(costs[50] <= 192 * 1024, "median {}", costs[50]);
    assert!(costs[99] <= 1024 * 1024, "worst {}", costs[99]);
}

/// A search that also examined the last byte would end the chunk there.
#[test]
fn a_file_cut_off_one_byte_behind_a_boundary_takes_that_byte_in() {
    let data = noise(0, 300_000);
    let boundary = cut(&data);
    assert_eq!(boundary % 2, 0);
    assert_eq!(cut(&data[..boundary + LOOK_AHEAD]), boundary);
    assert_eq!(cut(&data[..=boundary]), boundary + 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn an_edit_rechunked_around_it_equals_the_file_chunked_from_its_start(
        (data, edit) in any_data().prop_flat_map(edited),
    ) {
        let after = edit.apply(&data);
        let (around, _) = edit.rechunk(&ends(&data, 0), &after);
        prop_assert_eq!(around, ends(&after, 0));
    }

    #[test]
    fn the_end_of_a_chunk_depends_on_its_bytes_and_one_more(
        data in any_data(),
        other in prop::collection::vec(any::<u8>(), 1..300_000),
        place: prop::sample::Index,
    ) {
        let ends = ends(&data, 0);
        prop_assume!(!ends.is_empty());
        let chunk = place.index(ends.len());
        let start = chunk.checked_sub(1).map_or(0, |before| ends[before]);
        let end = ends[chunk];
        prop_assume!(end < data.len());
        let replaced = [&data[start..=end], &other].concat();
        prop_assert_eq!(cut(&replaced), end - start);
    }

    #[test]
    fn chunks_are_cut_as_the_format_says(data in any_data()) {
        let (gear, _) = fastcdc::v2020::get_gear_with_seed(0);
        let mut rest = &data[..];
        while !rest.is_empty() {
            let length = cut(rest);
            prop_assert_eq!(length, cut_by_the_book(rest, &gear));
            rest = &rest[length..];
        }
    }

    #[test]
    fn chunks_add_up_to_the_file_for_reads_of_any_size(
        data in any_data(),
        step in 1..200_000_usize,
    ) {
        let chunks = Chunker::new(Drip(&data, step)).collect::<io::Result<Vec<_>>>().unwrap();
        prop_assert_eq!(chunks.concat(), data.clone());
        let dripped: Vec<_> = chunks.iter().map(|chunk| chunk.len()).collect();
        prop_assert_eq!(dripped, lengths(&data));
        let mut start = 0;
        let by_ends = ends(&data, 0).into_iter().map(|end| end - std::mem::replace(&mut start, end));
        prop_assert_eq!(by_ends.collect::<Vec<_>>(), lengths(&data));
    }
}

/// A reader that returns a few bytes at a time.
struct Drip<'a>(&'a [u8], usize);

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let step = buffer.len().min(self.1);
        self.0.read(&mut buffer[..step])
    }
}
