//! Any node is the encoding of its decoded value, or is rejected.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| elevo_fuzz::objects::node(data));
