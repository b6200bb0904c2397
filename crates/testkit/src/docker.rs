//! The Docker engine that `scripts/services` starts for tests, and the images
//! it holds.

use std::env;

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

fn setting(name: &str) -> String {
    let value = env::var(name).unwrap_or_default();
    assert!(
        !value.is_empty(),
        "{name} is not set: this test needs a Docker engine of its own. Run\n    \
         scripts/services up docker && eval \"$(scripts/services env docker)\""
    );
    value
}
