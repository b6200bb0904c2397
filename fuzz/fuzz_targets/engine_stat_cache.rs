//! Any stat cache is usable, or treated as empty.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
    let name = format!("elevo-fuzz-{}", std::process::id());
    std::env::temp_dir().join(name)
});

fuzz_target!(|data: &[u8]| elevo_engine::read_any_stat_cache(&PATH, data));
