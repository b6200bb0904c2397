//! The Docker engine that `scripts/services` starts for tests, the images it
//! holds, and engines that a test has for itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, thread};

/// The engine's address, as clients take it: `unix:///…`.
pub fn host() -> String {
    setting("DOCKER_HOST")
}

/// An image with Debian's minimal system.
pub fn image() -> String {
    setting("ELEVO_TEST_IMAGE")
}

/// An image with a shell and little else, for what must be quick.
pub fn tiny_image() -> String {
    setting("ELEVO_TEST_IMAGE_TINY")
}

/// An image with Debian's minimal system and Python.
pub fn python_image() -> String {
    setting("ELEVO_TEST_IMAGE_PYTHON")
}

/// An engine of its own, which can be stopped without harm to other tests. It
/// goes with all that it runs when this is dropped.
#[derive(Debug)]
pub struct Engine {
    directory: PathBuf,
    image: &'static str,
    live_restore: bool,
}

impl Engine {
    /// Starts one that keeps what it has in this directory and holds one of the
    /// images of `scripts/services`, by its name there. With `live_restore` its
    /// containers go on while it is stopped.
    pub fn start(directory: &Path, image: &'static str, live_restore: bool) -> Self {
        let engine = Self {
            directory: directory.to_owned(),
            image,
            live_restore,
        };
        engine.start_again();
        engine
    }

    /// Its address.
    pub fn host(&self) -> String {
        format!("unix://{}/docker/docker.sock", self.directory.display())
    }

    /// Ends the engine, and what it runs if that does not go on by itself.
    pub fn stop(&self) {
        assert!(self.services("stop"), "an engine does not stop");
    }

    /// Starts it with what it had.
    pub fn start_again(&self) {
        assert!(self.services("up"), "an engine does not start");
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
        "{name} is not set: this test needs a Docker engine of its own. Run\n    \
         scripts/services up docker && eval \"$(scripts/services env docker)\""
    );
    value
}
