//! Objects as stores keep them: plain, or compressed where that helps.
//!
//! ```text
//! 0 · bytes
//! 1 · length of the object (4, little endian) · LZ4 block
//! ```
//!
//! RocksDB could compress them too, but only on their way from memory to the
//! table files: the log and the buffers would hold them at full size, and few
//! threads would do the work of many callers.

use bytes::Bytes;
use lz4_flex::block;

const PLAIN: u8 = 0;
const LZ4: u8 = 1;
const LZ4_HEADER: usize = 5;

/// Below this size, compression does not save enough for its header.
const LEAST: usize = 256;
/// Maximum bytes that LZ4 decompresses from one byte.
const MOST_PER_BYTE: usize = 255;

/// A buffer for one value at a time.
#[derive(Debug, Default)]
pub struct StoredEncoder {
    value: Vec<u8>,
}

impl StoredEncoder {
    /// Returns the object without compression.
    pub fn plain(&mut self, object: &[u8]) -> &[u8] {
        self.value.clear();
        self.value.push(PLAIN);
        self.value.extend_from_slice(object);
        &self.value
    }

    /// Returns the object compressed, unless that saves less than an eighth.
    pub fn compressed(&mut self, object: &[u8]) -> &[u8] {
        let Ok(length) = u32::try_from(object.len()) else {
            return self.plain(object);
        };
        if object.len() < LEAST {
            return self.plain(object);
        }
        self.value.clear();
        self.value.push(LZ4);
        self.value.extend_from_slice(&length.to_le_bytes());
        self.value
            .resize(LZ4_HEADER + block::get_maximum_output_size(object.len()), 0);
        match block::compress_into(object, &mut self.value[LZ4_HEADER..]) {
            Ok(size) if LZ4_HEADER + size <= object.len() - object.len() / 8 => {
                self.value.truncate(LZ4_HEADER + size);
                &self.value
            }
            _ => self.plain(object),
        }
    }
}

/// Returns the object in a stored value; `None` if the value is damaged.
pub fn decode_stored(value: &[u8]) -> Option<Bytes> {
    match value.split_first()? {
        (&PLAIN, object) => Some(Bytes::copy_from_slice(object)),
        (&LZ4, rest) => {
            let (length, compressed) = rest.split_first_chunk()?;
            let length = u32::from_le_bytes(*length) as usize;
            if length > compressed.len() * MOST_PER_BYTE {
                return None;
            }
            let object = block::decompress(compressed, length).ok()?;
            (object.len() == length).then(|| object.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut step = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..length).map(|_| step()).collect()
    }

    #[test]
    fn chunks_read_back() {
        let mut encoder = StoredEncoder::default();
        for length in [0, 1, LEAST - 1, LEAST, 4096, 262_144] {
            for chunk in [vec![b'a'; length], noise(length)] {
                assert_eq!(decode_stored(encoder.plain(&chunk)).unwrap(), chunk);
                assert_eq!(decode_stored(encoder.compressed(&chunk)).unwrap(), chunk);
            }
        }
    }

    #[test]
    fn only_chunks_that_shrink_are_compressed() {
        let mut encoder = StoredEncoder::default();
        assert!(encoder.compressed(&[b'a'; 4096]).len() < 100);
        assert_eq!(encoder.compressed(&noise(4096)).len(), 4097);
    }

    #[test]
    fn rejects_damaged_values() {
        let mut encoder = StoredEncoder::default();
        let value = encoder.compressed(&[b'a'; 4096]).to_vec();
        assert_eq!(decode_stored(&[]), None);
        assert_eq!(decode_stored(&[7, 7]), None);
        for end in 0..value.len() {
            assert_eq!(decode_stored(&value[..end]), None, "cut at {end}");
        }
        let mut long = value;
        long[1..5].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode_stored(&long), None, "a wrong length is rejected");
    }
}
