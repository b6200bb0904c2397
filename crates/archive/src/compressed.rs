//! Archives that are plain, or compressed with gzip or zstd.

use std::io::{self, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;

/// Size of the read buffer.
const BUFFER: usize = 128 << 10;

/// Maximum window of a zstd frame: 32 MiB, as with `zstd -20`.
const WINDOW_LOG: u32 = 25;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Returns the decompressed bytes of an archive: plain, gzip or zstd.
pub fn decompress<'a>(mut from: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut start = Vec::with_capacity(ZSTD.len());
    from.by_ref()
        .take(ZSTD.len() as u64)
        .read_to_end(&mut start)?;
    let (is_gzip, is_zstd) = (start.starts_with(GZIP), start.starts_with(ZSTD));
    let from = BufReader::with_capacity(BUFFER, Cursor::new(start).chain(from));
    if is_gzip {
        let plain = MultiGzDecoder::new(from);
        return Ok(Box::new(BufReader::with_capacity(BUFFER, plain)));
    }
    if is_zstd {
        let mut plain = zstd::Decoder::with_buffer(from)?;
        plain.window_log_max(WINDOW_LOG)?;
        return Ok(Box::new(BufReader::with_capacity(BUFFER, plain)));
    }
    Ok(Box::new(from))
}
