//! Simulates the network outside of a sandbox. No packet leaves this machine.
//!
//! ```text
//! sandbox ── bridge ── host ── a pair of interfaces ── a namespace with listeners
//! ```
//!
//! The namespace has addresses of every kind, and the host routes these
//! addresses only to the namespace.

use std::env;
use std::fs::File;
use std::process::{Command, id};

use crate::docker;

/// A public address; the route to it ends on this machine.
pub const PUBLIC: &str = "11.22.33.44";
/// An address in a private range.
pub const PRIVATE: &str = "10.213.7.2";
/// The metadata address of clouds, which provides credentials.
pub const METADATA: &str = "169.254.169.254";
/// A shared address (carrier-grade NAT).
pub const SHARED: &str = "100.100.100.200";
/// An address of the host itself, in a private range.
pub const HOST: &str = "10.213.7.1";
/// The port of all listeners in the namespace, in addition to [`DNS`].
pub const PORT: u16 = 8000;
/// The port of resolvers.
pub const DNS: u16 = 53;

/// Listeners in a separate network namespace. Only one such namespace exists on
/// a machine at a time.
#[derive(Debug)]
pub struct Outside {
    name: String,
    interface: String,
    /// The lock on the addresses. The system releases it when the process ends.
    _turn: File,
}

impl Outside {
    /// Creates the namespace, after waiting for other tests that use it.
    #[allow(clippy::new_without_default, reason = "it changes the machine")]
    pub fn new() -> Self {
        let this = Self {
            name: format!("elevo-outside-{}", id()),
            interface: format!("evo{}", id()),
            _turn: turn(),
        };
        let listeners = format!(
            "nc -ll -p {DNS} -e /bin/echo hello & exec nc -ll -p {PORT} -e /bin/echo hello"
        );
        host(&[
            "docker",
            "--host",
            &docker::host(),
            "run",
            "--detach",
            "--network",
            "none",
            "--name",
            &this.name,
            &docker::tiny_image(),
            "/bin/sh",
            "-c",
            &listeners,
        ]);
        this.wire();
        this
    }

    /// Runs a `bash` script in the namespace, with the tools of the host. Its
    /// exit status is ignored.
    pub fn run(&self, script: &str) {
        let pid = self.pid();
        let enter = ["--target", &pid, "--net", "bash", "-c", script];
        let _ = Command::new("nsenter").args(enter).output().unwrap();
    }

    fn pid(&self) -> String {
        let pid = host(&[
            "docker",
            "--host",
            &docker::host(),
            "inspect",
            "--format",
            "{{.State.Pid}}",
            &self.name,
        ]);
        pid.trim().to_owned()
    }

    fn wire(&self) {
        let pid = &*self.pid();
        let (near, far) = (&*self.interface, "eth9");
        let inside = |command: &[&str]| {
            let enter = ["nsenter", "--target", pid, "--net", "ip"];
            host(&[&enter, command].concat());
        };
        host(&[
            "ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", pid,
        ]);
        host(&["ip", "address", "add", &format!("{HOST}/24"), "dev", near]);
        host(&["ip", "link", "set", near, "up"]);
        inside(&["link", "set", far, "up"]);
        inside(&["address", "add", &format!("{PRIVATE}/24"), "dev", far]);
        for address in [PUBLIC, METADATA, SHARED] {
            inside(&["address", "add", &format!("{address}/32"), "dev", far]);
            host(&[
                "ip",
                "route",
                "add",
                &format!("{address}/32"),
                "via",
                PRIVATE,
            ]);
        }
        inside(&["route", "add", "default", "via", HOST]);
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // When this interface is deleted, the kernel also deletes its routes
        // and the other interface of the pair.
        let _ = Command::new("ip")
            .args(["link", "delete", &self.interface])
            .status();
        let _ = Command::new("docker")
            .args(["--host", &docker::host(), "rm", "--force", &self.name])
            .output();
    }
}

/// Runs a command of the host, which must succeed, and returns its output.
fn host(command: &[&str]) -> String {
    let output = Command::new(command[0])
        .args(&command[1..])
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until no other test uses the addresses.
fn turn() -> File {
    let file = File::create(env::temp_dir().join("elevo-test-outside.lock")).unwrap();
    file.lock().unwrap();
    file
}
