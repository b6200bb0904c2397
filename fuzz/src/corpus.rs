//! Replays the corpora of the fuzzers in tests.

use std::fs;
use std::path::Path;

/// Checks each file of a target's corpus, in the order of their names.
#[allow(clippy::print_stdout, reason = "shown if a check fails")]
pub fn replay(target: &str, check: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = corpus.join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(corpus).expect("a target has a corpus");
    let files = files.map(|file| file.expect("it can be listed").path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    assert!(files.len() > 1, "{target} has {} files", files.len());
    for file in files {
        println!("{}", file.display());
        check(&fs::read(file).expect("it can be read"));
    }
}
