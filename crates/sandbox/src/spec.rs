use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// Minimum memory that engines accept.
const MIN_MEMORY: u64 = 6 << 20;
/// Minimum processor time that engines accept, in thousandths of a processor.
const MIN_CPU_MILLIS: u32 = 10;
/// Maximum number of mounts and tmpfs; sandboxes need far fewer.
const MAX_MOUNTS: usize = 64;
/// The kernel's limit on the length of a hostname.
const MAX_HOSTNAME: usize = 63;
const MAX_NAME: usize = 128;

/// The specification of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sim", derive(serde::Serialize, serde::Deserialize))]
pub struct ContainerSpec {
    /// The id of the sandbox, which is also the container's name.
    pub sandbox: String,
    /// The image of the root file system.
    pub image: String,
    /// The user of the container's processes; never root.
    pub user: User,
    /// Directories, files and sockets of the host that are mounted in the
    /// container.
    pub mounts: Vec<Mount>,
    /// The working directory of the command.
    pub working_dir: String,
    /// The first process, instead of the image's entrypoint and command.
    pub command: Vec<String>,
    /// Environment variables, in addition to those of the image.
    pub env: BTreeMap<String, String>,
    /// Processor time in thousandths of a processor.
    pub cpu_millis: u32,
    /// Bytes of memory. The container has no swap.
    pub memory: u64,
    /// Maximum number of processes and threads.
    pub pids: u32,
    /// The network access of the container.
    pub network: Network,
    /// An OCI runtime other than the engine's default.
    pub runtime: Option<String>,
    /// Whether the root file system is writable. Changes to it are deleted with
    /// the container, and no limit of this spec applies to them.
    pub writable_root: bool,
    /// Directories in memory and their sizes in bytes. They count towards the
    /// memory of the container.
    pub tmpfs: Vec<(String, u64)>,
    /// The hostname; derived from the id of the sandbox if absent.
    pub hostname: Option<String>,
}

/// A user and a group, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sim", derive(serde::Serialize, serde::Deserialize))]
pub struct User {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// A directory, file or socket of the host that is mounted in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sim", derive(serde::Serialize, serde::Deserialize))]
pub struct Mount {
    /// The path on the host, which must exist.
    pub host: PathBuf,
    /// The path in the container.
    pub target: String,
    /// Whether the mount is read-only. Before Docker 25, other mounts of the
    /// host below this path stay writable.
    pub read_only: bool,
    /// Whether later mounts of the host below this path appear in the
    /// container. The path must be on a shared mount of the host. Mounts in the
    /// container never propagate to the host.
    pub follow: bool,
}

impl Mount {
    /// Creates a writable mount.
    pub fn writable(host: impl Into<PathBuf>, target: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            target: target.into(),
            read_only: false,
            follow: false,
        }
    }

    /// Creates a read-only mount.
    pub fn read_only(host: impl Into<PathBuf>, target: impl Into<String>) -> Self {
        Self {
            read_only: true,
            ..Self::writable(host, target)
        }
    }
}

/// The network access of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "sim", derive(serde::Serialize, serde::Deserialize))]
pub enum Network {
    /// Only the loopback interface.
    None,
    /// Public addresses only: no other sandbox, not the host and no private
    /// network.
    Internet,
}

impl ContainerSpec {
    /// Rejects a spec that no engine could fulfil exactly.
    pub(crate) fn validate(&self) -> Result<()> {
        self.validate_names()?;
        self.validate_limits()?;
        self.validate_paths()
    }

    fn validate_names(&self) -> Result<()> {
        if !is_container_name(&self.sandbox) {
            return Err(Error::refused(
                "sandbox",
                format!("`{}` is not a valid container name", self.sandbox),
            ));
        }
        validate_image(&self.image)?;
        if self.command.first().is_none_or(String::is_empty) {
            return Err(Error::refused("command", "the command is empty"));
        }
        let bad = |name: &str, value: &str| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        };
        if let Some((name, _)) = self.env.iter().find(|(name, value)| bad(name, value)) {
            return Err(Error::refused(
                "env",
                format!("the variable `{name}` has an invalid name or value"),
            ));
        }
        match &self.hostname {
            Some(name) if !is_hostname(name) => Err(Error::refused(
                "hostname",
                format!("`{name}` is not a valid hostname"),
            )),
            _ => Ok(()),
        }
    }

    fn validate_limits(&self) -> Result<()> {
        if self.user.uid == 0 || self.user.gid == 0 {
            return Err(Error::refused("user", "a sandbox never runs as root"));
        }
        if self.memory < MIN_MEMORY {
            let why = format!(
                "{} bytes were requested; the minimum is {MIN_MEMORY}",
                self.memory
            );
            return Err(Error::refused("memory", why));
        }
        if i64::try_from(self.memory).is_err() {
            return Err(Error::refused("memory", "the value is too large"));
        }
        if self.cpu_millis < MIN_CPU_MILLIS {
            let why = format!(
                "{} were requested; the minimum is {MIN_CPU_MILLIS}",
                self.cpu_millis
            );
            return Err(Error::refused("cpu_millis", why));
        }
        if self.pids == 0 {
            return Err(Error::refused(
                "pids",
                "0 would mean no limit; the minimum is 1",
            ));
        }
        match self.tmpfs.iter().find(|(_, size)| *size == 0) {
            Some((path, _)) => Err(Error::refused(
                "tmpfs",
                format!("0 bytes for `{path}` would mean no limit"),
            )),
            None => Ok(()),
        }
    }

    fn validate_paths(&self) -> Result<()> {
        if self.mounts.len() + self.tmpfs.len() > MAX_MOUNTS {
            let why = format!("the spec has more than {MAX_MOUNTS} mounts and tmpfs");
            return Err(Error::refused("mounts", why));
        }
        if !is_absolute(&self.working_dir) {
            let why = format!("`{}` is not absolute", self.working_dir);
            return Err(Error::refused("working_dir", why));
        }
        for mount in &self.mounts {
            if !mount.host.to_str().is_some_and(is_absolute) || !is_target(&mount.target) {
                let host = mount.host.display();
                let why = format!("`{host}` cannot be mounted at `{}`", mount.target);
                return Err(Error::refused("mounts", why));
            }
        }
        match self.tmpfs.iter().find(|(path, _)| !is_target(path)) {
            Some((path, _)) => {
                let why = format!("a tmpfs cannot be mounted at `{path}`");
                Err(Error::refused("tmpfs", why))
            }
            None => Ok(()),
        }
    }
}

/// Rejects an invalid image name. Such a name could change the path of a
/// request to the engine.
pub(crate) fn validate_image(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let well_formed = (1..=MAX_NAME * 2).contains(&name.len())
        && name.chars().all(fits)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.contains("..")
        && !name.contains("//");
    if well_formed {
        return Ok(());
    }
    Err(Error::refused(
        "image",
        format!("`{name}` is not a valid image name"),
    ))
}

pub(crate) fn is_container_name(name: &str) -> bool {
    (2..=MAX_NAME).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

fn is_hostname(name: &str) -> bool {
    (1..=MAX_HOSTNAME).contains(&name.len())
        && !name.starts_with('-')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') && !path.contains('\0') && !path.split('/').any(|part| part == "..")
}

/// Returns whether a path may be the target of a mount: not the root, and not
/// in `/proc` or `/sys`.
fn is_target(path: &str) -> bool {
    let first = path
        .split('/')
        .find(|part| !part.is_empty() && *part != ".");
    is_absolute(path)
        && !path.contains([':', ','])
        && first.is_some_and(|part| !["proc", "sys"].contains(&part))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn spec() -> ContainerSpec {
        ContainerSpec {
            sandbox: "sbx-1".to_owned(),
            image: "debian:12".to_owned(),
            user: User {
                uid: 1000,
                gid: 1000,
            },
            mounts: vec![Mount::writable("/srv/w", "/workspace")],
            working_dir: "/workspace".to_owned(),
            command: vec!["/bin/sh".to_owned()],
            env: BTreeMap::new(),
            cpu_millis: 500,
            memory: 64 << 20,
            pids: 64,
            network: Network::None,
            runtime: None,
            writable_root: false,
            tmpfs: vec![("/tmp".to_owned(), 1 << 20)],
            hostname: None,
        }
    }

    fn refused(change: impl FnOnce(&mut ContainerSpec)) -> &'static str {
        let mut spec = spec();
        change(&mut spec);
        match spec.validate() {
            Err(Error::Refused { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn accepts_an_ordinary_spec() {
        spec().validate().unwrap();
    }

    #[test]
    fn root_is_refused_as_user_and_as_group() {
        assert_eq!(refused(|spec| spec.user.uid = 0), "user");
        assert_eq!(refused(|spec| spec.user.gid = 0), "user");
    }

    #[test]
    fn rejects_a_limit_that_would_mean_no_limit() {
        assert_eq!(refused(|spec| spec.memory = 0), "memory");
        assert_eq!(refused(|spec| spec.memory = MIN_MEMORY - 1), "memory");
        assert_eq!(refused(|spec| spec.memory = u64::MAX), "memory");
        assert_eq!(refused(|spec| spec.cpu_millis = 0), "cpu_millis");
        assert_eq!(refused(|spec| spec.pids = 0), "pids");
        assert_eq!(refused(|spec| spec.tmpfs[0].1 = 0), "tmpfs");
    }

    #[test]
    fn rejects_a_name_that_would_change_the_request() {
        for name in ["", "a", "../x", "a/b", "a?b", "a b", "-a"] {
            assert_eq!(refused(|spec| spec.sandbox = name.to_owned()), "sandbox");
        }
        for name in [
            "",
            "../containers/x",
            "a?force=1",
            "a#b",
            "/a",
            "a//b",
            "a b",
        ] {
            assert_eq!(refused(|spec| spec.image = name.to_owned()), "image");
        }
        assert_eq!(
            refused(|spec| spec.hostname = Some("a/b".to_owned())),
            "hostname"
        );
    }

    #[test]
    fn rejects_mounts_over_the_root_proc_and_sys() {
        for target in [
            "/",
            "//",
            "/proc",
            "/sys/fs",
            "/./proc",
            "a",
            "/a/../proc",
            "/a:ro",
        ] {
            assert_eq!(
                refused(|spec| spec.mounts[0].target = target.to_owned()),
                "mounts",
                "{target}"
            );
            assert_eq!(
                refused(|spec| spec.tmpfs[0].0 = target.to_owned()),
                "tmpfs",
                "{target}"
            );
        }
        assert_eq!(refused(|spec| spec.mounts[0].host = "w".into()), "mounts");
        assert_eq!(refused(|spec| spec.working_dir = "w".into()), "working_dir");
    }

    #[test]
    fn rejects_an_empty_command_and_invalid_variable_names() {
        assert_eq!(refused(|spec| spec.command.clear()), "command");
        let odd = |name: &str| BTreeMap::from([(name.to_owned(), String::new())]);
        assert_eq!(refused(|spec| spec.env = odd("A=B")), "env");
        assert_eq!(refused(|spec| spec.env = odd("")), "env");
    }
}
