//! Any bytes on the socket of a server are frames in their only encoding, or are rejected.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::door::frames(data));
