//! Data that released versions wrote, in `fixtures/VERSION`. Every later version
//! must open it. `scripts/fixtures` makes it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// The data of one release.
#[derive(Debug)]
pub struct Fixture(PathBuf);

/// Returns the fixtures of all releases.
pub fn all() -> Vec<Fixture> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let entries = fs::read_dir(directory).unwrap();
    let releases = entries.map(|entry| entry.unwrap().path());
    let found: Vec<_> = releases.filter(|path| path.is_dir()).map(Fixture).collect();
    assert!(!found.is_empty(), "there are no fixtures");
    found
}

impl Fixture {
    /// Unpacks an archive into a new directory.
    pub fn unpack(&self, archive: &str) -> TempDir {
        let directory = tempfile::Builder::new().prefix("elevo-fixture-").tempdir();
        let directory = directory.unwrap();
        self.unpack_into(archive, directory.path());
        directory
    }

    /// Unpacks an archive into a directory.
    pub fn unpack_into(&self, archive: &str, directory: &Path) {
        let tar = Command::new("tar")
            .args(["--extract", "--gzip", "--no-same-owner", "--file"])
            .args([&self.path(archive), Path::new("--directory"), directory])
            .status();
        assert!(tar.unwrap().success(), "{archive} cannot be unpacked");
    }

    /// Returns the path of a file of the fixture.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the content that the release wrote down.
    pub fn expected(&self) -> Value {
        let text = fs::read_to_string(self.path("expected.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}
