//! The clock of a file system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;

/// Waits until the clock of the file system has advanced, so that every file
/// written before is older than every file written afterwards. Writes a file
/// `tick` in `directory`.
pub fn wait_for_tick(directory: &Path) {
    let path = directory.join("tick");
    let now = || {
        fs::write(&path, "").unwrap();
        let stat = fs::metadata(&path).unwrap();
        (stat.ctime(), stat.ctime_nsec())
    };
    let began = now();
    while now() == began {
        thread::yield_now();
    }
    fs::remove_file(&path).unwrap();
}
