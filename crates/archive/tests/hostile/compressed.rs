//! Compressed archives, and archives of headers without end.

use std::io::{self, Read, Write};

use elevo_archive::{Error, Limits, Reader, import};
use elevo_engine::Progress;

use crate::support::{LIMITS, Raw, files, options, read, repository};
use crate::{endless, refused};

fn gzip(from: impl Read) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::copy(&mut { from }, &mut out).unwrap();
    out.finish().unwrap()
}

fn zstd(from: impl Read) -> Vec<u8> {
    zstd::encode_all(from, 1).unwrap()
}

#[test]
fn compressed_archives_are_read_and_checked_to_their_end() {
    let plain = Raw::default().file("a", b"x").end();
    for mut packed in [gzip(&plain[..]), zstd(&plain[..])] {
        assert_eq!(files(&read(&repository(), &packed).unwrap())["a"], b"x");
        for length in 5..packed.len() {
            assert!(read(&repository(), &packed[..length]).is_err(), "{length}");
        }
        if packed[0] == 0x1f {
            // The checksum comes after the whole content.
            let last = packed.len() - 6;
            packed[last] ^= 1;
            assert!(matches!(refused(&packed), Error::Read(_)));
        }
    }
}

#[test]
fn decompression_bombs_are_rejected() {
    let huge = Raw::default().header("a", b'0', 1 << 27, "", |_| {}).0;
    let content = || io::Cursor::new(huge.clone()).chain(io::repeat(0).take(1 << 27));
    let after = || io::Cursor::new(Raw::default().end()).chain(io::repeat(0).take(1 << 25));
    for bomb in [gzip(content()), zstd(content())] {
        assert!(matches!(refused(&bomb), Error::TooLarge(_)));
    }
    for bomb in [gzip(after()), zstd(after())] {
        assert!(matches!(refused(&bomb), Error::Malformed(_)));
    }
    // A frame that needs a window of gigabytes.
    let mut wide = zstd::Encoder::new(Vec::new(), 1).unwrap();
    wide.window_log(30).unwrap();
    wide.include_contentsize(false).unwrap();
    wide.write_all(&Raw::default().file("a", b"x").end())
        .unwrap();
    assert!(matches!(refused(&wide.finish().unwrap()), Error::Read(_)));
}

/// Counts the bytes that are read of an archive.
struct Counted<'a, R>(R, &'a mut u64);

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.0.read(into)?;
        *self.1 += length as u64;
        Ok(length)
    }
}

fn import_counted(archive: impl Read + Send) -> (Error, u64) {
    let mut count = 0;
    let archive = Counted(archive, &mut count);
    let read = import(&repository(), archive, &options(), &Progress::new());
    (read.unwrap_err(), count)
}

/// An entry with the maximum number of headers, of a megabyte each.
fn entry_of_headers() -> Vec<u8> {
    let mut entry = Raw::default();
    for kind in *b"xgLKVxgLKVxgLKVx" {
        let content = match kind {
            b'x' | b'g' => vec![0; 1 << 20],
            _ => vec![b'a'; 1 << 20],
        };
        entry = entry.entry("h", kind, &content, "");
    }
    entry.entry("empty", b'2', b"", "t").0
}

#[test]
fn all_headers_count_against_the_limit() {
    let many = endless(entry_of_headers());
    let (error, read) = import_counted(many);
    assert!(matches!(error, Error::Refused { .. } | Error::TooLarge(_)));
    assert!(read < 2 * LIMITS.bytes, "{read}");
    // Only the total size of these headers is invalid: names are short.
    let mut entry = Raw::default();
    for _ in 0..16 {
        entry = entry.entry("h", b'V', &vec![b'a'; 1 << 20], "");
    }
    let (error, read) = import_counted(endless(entry.file("a", b"").0));
    assert!(matches!(error, Error::TooLarge(_)), "{error}");
    assert!(read < 2 * LIMITS.bytes, "{read}");
    let (error, read) = import_counted(endless(Raw::default().file("a", b"").0));
    assert!(matches!(error, Error::TooMany(_) | Error::TooLarge(_)));
    assert!(read < 2 * LIMITS.bytes, "{read}");
}

#[test]
fn headers_with_a_high_compression_ratio_are_rejected_early() {
    let headers = Raw::default().entry("h", b'V', &vec![0; 1 << 20], "");
    let entry = headers.file("a", b"").0;
    // Kilobytes that unpack to many megabytes of headers.
    let bomb = zstd(&entry.repeat(64)[..]);
    assert!(bomb.len() < 32 << 10, "{}", bomb.len());
    let limits = Limits {
        bytes: 1 << 40,
        ..LIMITS
    };
    let mut reader = Reader::new(&bomb[..], limits).unwrap();
    let mut entries = 0;
    let error = loop {
        match reader.next_entry() {
            Ok(entry) => assert!(entry.is_some(), "the archive was read to its end"),
            Err(error) => break error,
        }
        entries += 1;
    };
    assert!(matches!(error, Error::Malformed(_)), "{error}");
    // Each entry has a megabyte of headers. The limit is 16 MiB of headers,
    // plus a thousand bytes for each compressed byte.
    assert!(entries < 16 + bomb.len() / 1_000 + 1, "{entries}");
    // The limit does not apply to zeros in a file.
    let zeros = Raw::default().header("zeros", b'0', 1 << 25, "", |_| {}).0;
    let archive = io::Cursor::new(zeros).chain(io::repeat(0).take((1 << 25) + 1024));
    let received = read(&repository(), &zstd(archive)).unwrap();
    assert_eq!(files(&received)["zeros"].len(), 1 << 25);
}

#[test]
fn endless_empty_frames_are_rejected() {
    for nothing in [gzip(io::empty()), zstd(io::empty())] {
        let (error, read) = import_counted(endless(nothing));
        assert!(matches!(error, Error::TooLarge(_)), "{error}");
        assert!(read < 3 * LIMITS.bytes, "{read}");
    }
}
