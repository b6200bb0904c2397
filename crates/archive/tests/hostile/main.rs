//! Hostile archives: each is rejected or made harmless.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod compressed;
#[path = "../support/mod.rs"]
mod support;

use std::io::{self, Read};

use elevo_archive::{Error, ImportOptions, Limits, Reader, import};
use elevo_engine::{LossKind, Progress};
use support::{LIMITS, Raw, files, options, read, repository};

fn refused(archive: &[u8]) -> Error {
    match read(&repository(), archive) {
        Err(error) => error,
        Ok(read) => panic!("taken: {:?}", files(&read)),
    }
}

fn is_refused(archive: &[u8]) -> bool {
    matches!(refused(archive), Error::Refused { .. })
}

#[test]
fn names_that_lead_out_of_the_tree_are_rejected() {
    for name in ["../a", "a/../../b", "a/..", "..", "/etc/passwd", "//a"] {
        for kind in [b'0', b'2', b'5'] {
            let archive = Raw::default().entry(name, kind, b"", "t").end();
            assert!(is_refused(&archive), "{name}");
        }
        let archive = Raw::default().pax(&[("path", name)]).file("a", b"").end();
        assert!(is_refused(&archive), "{name} by PAX");
        let long = Raw::default().entry("././@LongLink", b'L', name.as_bytes(), "");
        assert!(is_refused(&long.file("a", b"").end()), "{name} by GNU");
    }
    let nul = Raw::default().pax(&[("path", "a\0b")]).file("a", b"").end();
    assert!(is_refused(&nul));
}

#[test]
fn names_are_cleaned() {
    let archive = Raw::default()
        .entry("./", b'5', b"", "")
        .file("./a//b/./c", b"x")
        .end();
    let received = read(&repository(), &archive).unwrap();
    assert_eq!(
        files(&received).into_keys().collect::<Vec<_>>(),
        ["a/", "a/b/", "a/b/c"]
    );
}

#[test]
fn an_entry_below_a_link_is_rejected() {
    let archive = Raw::default()
        .entry("dir", b'2', b"", "/etc")
        .file("dir/passwd", b"x")
        .end();
    assert!(is_refused(&archive));
    let archive = Raw::default()
        .entry("dir", b'2', b"", "/etc")
        .entry("dir/new", b'5', b"", "")
        .end();
    assert!(is_refused(&archive));
    let archive = Raw::default()
        .file("file", b"")
        .file("file/below", b"")
        .end();
    assert!(is_refused(&archive));
}

#[test]
fn hard_links_lead_to_files_that_came_before() {
    for target in ["/etc/passwd", "../x", "later", "dir", "", "link/x"] {
        let archive = Raw::default()
            .entry("dir", b'5', b"", "")
            .entry("link", b'2', b"", "/etc")
            .entry("hard", b'1', b"", target)
            .file("later", b"x")
            .end();
        assert!(is_refused(&archive), "{target}");
    }
    let archive = Raw::default()
        .file("a/one", b"x")
        .entry("two", b'1', b"", "./a/one")
        .end();
    let received = read(&repository(), &archive).unwrap();
    assert_eq!(files(&received)["two"], b"x");
    assert_eq!(received.losses[0].kind, LossKind::HardLink);
}

#[test]
fn devices_and_pipes_are_left_out_and_reported() {
    let archive = Raw::default()
        .entry("char", b'3', b"", "")
        .entry("block", b'4', b"", "")
        .entry("pipe", b'6', b"", "")
        .file("file", b"x")
        .end();
    let received = read(&repository(), &archive).unwrap();
    assert_eq!(files(&received).into_keys().collect::<Vec<_>>(), ["file"]);
    let losses: Vec<_> = received
        .losses
        .iter()
        .map(|loss| (loss.kind, loss.count))
        .collect();
    assert_eq!(losses, [(LossKind::Pipe, 1), (LossKind::Device, 2)]);
    for unknown in *b"AMXZ9" {
        let archive = Raw::default().entry("x", unknown, b"", "").end();
        assert!(is_refused(&archive), "{}", char::from(unknown));
    }
}

#[test]
fn the_last_of_two_entries_stays() {
    let archive = Raw::default()
        .file("a", b"first")
        .entry("a", b'2', b"", "target")
        .file("a", b"last")
        .file("b", b"file")
        .entry("b", b'5', b"", "")
        .file("b/c", b"x")
        .entry("b", b'5', b"", "")
        .end();
    let found = files(&read(&repository(), &archive).unwrap());
    assert_eq!(found["a"], b"last");
    assert_eq!(found["b/c"], b"x");
    let archive = Raw::default().file("b/c", b"x").file("b", b"").end();
    assert!(
        is_refused(&archive),
        "a file does not take a directory's place"
    );
}

/// A header of GNU for a file with one piece of `held` bytes at its start.
fn gnu_sparse(real: u64, held: u64) -> Raw {
    Raw::default().header("sparse", b'S', held, "", |header| {
        let gnu = header.as_gnu_mut().unwrap();
        gnu.set_real_size(real);
        gnu.sparse[0].set_offset(0);
        gnu.sparse[0].set_length(held);
    })
}

fn pax_sparse(real: &str, map: &str, data: &[u8]) -> Vec<u8> {
    let mut content = map.as_bytes().to_vec();
    content.resize(content.len().next_multiple_of(512), 0);
    content.extend(data);
    Raw::default()
        .pax(&[
            ("GNU.sparse.major", "1"),
            ("GNU.sparse.minor", "0"),
            ("GNU.sparse.name", "sparse"),
            ("GNU.sparse.realsize", real),
        ])
        .file("GNUSparseFile.0/sparse", &content)
        .end()
}

#[test]
fn holes_count_with_their_full_size() {
    let limit = |result| matches!(result, Error::TooLarge(bytes) if bytes == LIMITS.bytes);
    let bomb = gnu_sparse(1 << 50, 4).content(b"data").end();
    assert!(limit(refused(&bomb)));
    assert!(limit(refused(&pax_sparse(
        "1125899906842624",
        "1\n0\n4\n",
        b"data"
    ))));
    // Many small files add up.
    let mut many = Raw::default();
    for _ in 0..9 {
        many.0.extend(gnu_sparse(8 << 20, 0).0);
    }
    assert!(limit(refused(&many.end())));
    let good = gnu_sparse(1000, 4).content(b"data").end();
    let expected = [&b"data"[..], &[0; 996]].concat();
    assert_eq!(
        files(&read(&repository(), &good).unwrap())["sparse"],
        expected
    );
    let good = pax_sparse("1000", "2\n0\n4\n998\n2\n", b"dataxx");
    let expected = [&b"data"[..], &[0; 994], b"xx"].concat();
    assert_eq!(
        files(&read(&repository(), &good).unwrap())["sparse"],
        expected
    );
}

#[test]
fn contradictory_maps_of_holes_are_rejected() {
    for map in [
        "1\n0\n5\n",
        "1\n8\n4\n",
        "2\n4\n2\n0\n2\n",
        "1\n18446744073709551615\n4\n",
        "x\n",
        "70000\n",
        "1\n0\n",
        "",
    ] {
        let archive = pax_sparse("8", map, b"data");
        assert!(is_refused(&archive), "{map:?}");
    }
    let old = [("GNU.sparse.map", "0,4"), ("GNU.sparse.size", "8")];
    let archive = Raw::default().pax(&old).file("a", b"data").end();
    assert!(is_refused(&archive));
    assert!(is_refused(&gnu_sparse(2, 4).content(b"data").end()));
}

/// Each block of the map announces another block.
#[test]
fn a_map_of_holes_without_end_is_refused() {
    let mut block = [0; 512];
    for piece in block[..504].chunks_mut(24) {
        piece[..12].copy_from_slice(b"00000000000\0");
        piece[12..].copy_from_slice(b"00000000000\0");
    }
    block[504] = 1;
    let start = Raw::default().header("sparse", b'S', 0, "", |header| {
        let gnu = header.as_gnu_mut().unwrap();
        gnu.set_real_size(8);
        gnu.set_is_extended(true);
    });
    let blocks = endless(block.to_vec());
    let archive = io::Cursor::new(start.0).chain(blocks);
    let read = import(&repository(), archive, &options(), &Progress::new());
    assert!(matches!(read, Err(Error::Refused { .. })), "{read:?}");
}

/// The same bytes over and over.
struct Endless {
    bytes: Vec<u8>,
    at: usize,
}

fn endless(bytes: Vec<u8>) -> Endless {
    Endless { bytes, at: 0 }
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = &self.bytes[self.at..];
        let length = into.len().min(rest.len());
        into[..length].copy_from_slice(&rest[..length]);
        self.at = (self.at + length) % self.bytes.len();
        Ok(length)
    }
}

#[test]
fn a_wrong_size_is_detected() {
    let archive = Raw::default().header("a", b'0', 1 << 20, "", |_| {});
    assert!(matches!(
        refused(&archive.content(b"short").end()),
        Error::CutOff
    ));
    let archive = Raw::default().header("a", b'0', 1 << 40, "", |_| {}).end();
    assert!(matches!(refused(&archive), Error::TooLarge(_)));
    let archive = Raw::default().pax(&[("size", "18446744073709551615")]);
    let archive = archive.file("a", b"x").end();
    assert!(matches!(refused(&archive), Error::TooLarge(_)));
    // The size in the header is smaller than the content, so the next block is
    // not a header.
    let archive = Raw::default().header("a", b'0', 3, "", |_| {});
    let archive = archive.content(&[b'x'; 2000]).end();
    assert!(matches!(refused(&archive), Error::Malformed(_)));
    let negative = Raw::default().header("a", b'0', 0, "", |header| {
        header.as_old_mut().size = [0xff; 12];
    });
    assert!(matches!(refused(&negative.end()), Error::Malformed(_)));
}

#[test]
fn headers_of_gigabytes_are_not_read() {
    for kind in *b"xgLKV" {
        let header = Raw::default().header("h", kind, 1 << 32, "", |_| {});
        let archive = io::Cursor::new(header.0).chain(io::repeat(b'a'));
        let read = import(&repository(), archive, &options(), &Progress::new());
        assert!(matches!(read, Err(Error::Malformed(_))), "{read:?}");
    }
    // An endless sequence of small headers is not read either.
    for kind in *b"xgLKV" {
        let header = Raw::default().entry("h", kind, b"", "");
        let read = import(
            &repository(),
            endless(header.0),
            &options(),
            &Progress::new(),
        );
        assert!(matches!(read, Err(Error::Malformed(_))), "{read:?}");
    }
    for key in ["size", "path", "GNU.sparse.major"] {
        let records = Raw::default().pax(&[(key, "1")]);
        let mut global = records.0;
        global[156] = b'g';
        let mut header = tar::Header::new_old();
        header.as_mut_bytes().copy_from_slice(&global[..512]);
        header.set_cksum();
        global[..512].copy_from_slice(header.as_bytes());
        let archive = Raw(global).file("a", b"").end();
        assert!(matches!(refused(&archive), Error::Malformed(_)), "{key}");
    }
}

#[test]
fn nesting_entries_and_names_have_limits() {
    let deep = "d/".repeat(2000) + "f";
    let archive = Raw::default().pax(&[("path", &deep)]).file("a", b"").end();
    assert!(is_refused(&archive));
    let fits = "d/".repeat(99) + "f";
    let archive = Raw::default().pax(&[("path", &fits)]).file("a", b"").end();
    read(&repository(), &archive).unwrap();

    let limits = |limits| ImportOptions {
        limits,
        ..options()
    };
    let three = Raw::default()
        .file("a", b"")
        .file("b", b"")
        .file("c", b"")
        .end();
    let few = limits(Limits {
        entries: 2,
        ..LIMITS
    });
    let read = import(&repository(), &three[..], &few, &Progress::new());
    assert!(matches!(read, Err(Error::TooMany(2))), "{read:?}");
    let short = limits(Limits {
        name_bytes: 3,
        ..LIMITS
    });
    let archive = Raw::default().file("a/abcd", b"").end();
    let read = import(&repository(), &archive[..], &short, &Progress::new());
    assert!(matches!(read, Err(Error::Refused { .. })), "{read:?}");
    let small = limits(Limits { bytes: 5, ..LIMITS });
    let archive = Raw::default().file("a", b"abc").file("b", b"abc").end();
    let read = import(&repository(), &archive[..], &small, &Progress::new());
    assert!(matches!(read, Err(Error::TooLarge(5))), "{read:?}");
}

fn read_through(archive: &[u8]) -> Result<(), Error> {
    let mut reader = Reader::new(archive, LIMITS)?;
    while reader.next_entry()?.is_some() {}
    Ok(())
}

/// An archive that is cut off anywhere is rejected, even at the end of an
/// entry.
#[test]
fn a_part_of_an_archive_is_refused() {
    let whole = Raw::default()
        .pax(&[("path", "long")])
        .file("a", &[b'x'; 700])
        .file("b", b"")
        .0;
    for length in 0..whole.len() {
        let error = read_through(&whole[..length]).unwrap_err();
        assert!(matches!(error, Error::CutOff), "{length}: {error}");
    }
    assert!(matches!(refused(&whole), Error::CutOff));
    assert!(matches!(refused(b""), Error::CutOff));
    read_through(&Raw(whole).end()).unwrap();
    assert!(matches!(
        refused(b"no tar at all, and short"),
        Error::CutOff
    ));
    assert!(matches!(refused(&[b'x'; 4096]), Error::Malformed(_)));
}

#[test]
fn many_directories_take_little_memory() {
    // Each entry creates a hundred directories, of two kilobytes each.
    let mut archive = Vec::new();
    for at in 0..2000 {
        let name = format!("{at}/") + &"d/".repeat(98) + "f";
        let entry = Raw::default().pax(&[("path", &name)]).file("a", b"");
        archive.extend(entry.0);
    }
    let before = resident();
    let received = read(&repository(), &Raw(archive).end()).unwrap();
    let grown = resident().saturating_sub(before);
    assert_eq!(received.tree.count, 2000 * 100);
    assert!(grown < 200 << 20, "{} MiB", grown >> 20);
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() * 1024
}
