//! Whatever comes through the door of a server, it is frames as they are written, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::door::frames(data));
