//! The Docker engine that `scripts/services` starts for tests, its images, and
//! separate engines for single tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, thread};

use serde_json::json;
use sha2::{Digest, Sha256};

/// Returns the address of the engine: `unix:///…`.
pub fn host() -> String {
    setting("DOCKER_HOST")
}

/// Returns the name of an image with Debian's minimal system.
pub fn image() -> String {
    setting("ELEVO_TEST_IMAGE")
}

/// Returns the name of a small image with a shell, for tests that must be
/// quick.
pub fn tiny_image() -> String {
    setting("ELEVO_TEST_IMAGE_TINY")
}

/// Returns the name of an image with Debian's minimal system and Python.
pub fn python_image() -> String {
    setting("ELEVO_TEST_IMAGE_PYTHON")
}

/// A separate engine, which can be stopped without affecting other tests.
/// Dropping it deletes the engine and its containers.
#[derive(Debug)]
pub struct Engine {
    directory: PathBuf,
    image: &'static str,
    live_restore: bool,
}

impl Engine {
    /// Starts an engine that keeps its data in this directory and has one
    /// image, which `image` names as in `scripts/services`. With
    /// `live_restore`, containers keep running while the engine is stopped.
    pub fn start(directory: &Path, image: &'static str, live_restore: bool) -> Self {
        let engine = Self {
            directory: directory.to_owned(),
            image,
            live_restore,
        };
        engine.start_again();
        engine
    }

    /// The address of the engine.
    pub fn host(&self) -> String {
        format!("unix://{}/docker/docker.sock", self.directory.display())
    }

    /// Stops the engine, and its containers unless it was started with
    /// `live_restore`.
    pub fn stop(&self) {
        assert!(self.services("stop"), "the engine does not stop");
    }

    /// Starts the engine again with its data.
    pub fn start_again(&self) {
        assert!(self.services("up"), "the engine does not start");
    }

    fn services(&self, what: &str) -> bool {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/services");
        let live_restore = if self.live_restore { "1" } else { "0" };
        let status = Command::new(script)
            .args([what, "docker"])
            .env("ELEVO_SERVICES", &self.directory)
            .env("ELEVO_DOCKER_APART", "1")
            .env("ELEVO_DOCKER_IMAGES", self.image)
            .env("ELEVO_DOCKER_LIVE_RESTORE", live_restore)
            .status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let down = self.services("down");
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let left = mounts.contains(self.directory.to_str().unwrap());
        if !thread::panicking() {
            assert!(down && !left, "{mounts}");
        }
    }
}

fn setting(name: &str) -> String {
    let value = env::var(name).unwrap_or_default();
    assert!(
        !value.is_empty(),
        "{name} is not set: this test needs a separate Docker engine. Run\n    \
         scripts/services up docker && eval \"$(scripts/services env docker)\""
    );
    value
}

/// Returns an image archive, as `docker save` writes it, with one image of one
/// small file.
pub fn image_archive(name: &str) -> Vec<u8> {
    let layer = tar_of(&[("file", b"content\n")]);
    let hash: String = Sha256::digest(&layer)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let config = json!({
        "architecture": std::env::consts::ARCH,
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{hash}")]},
    });
    let manifest = json!([
        {"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}
    ]);
    tar_of(&[
        ("layer.tar", &layer),
        ("config.json", config.to_string().as_bytes()),
        ("manifest.json", manifest.to_string().as_bytes()),
    ])
}

fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *content).unwrap();
    }
    builder.into_inner().unwrap()
}
