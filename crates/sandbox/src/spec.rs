use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// The least memory that engines take.
const MIN_MEMORY: u64 = 6 << 20;
/// The least processor time that engines take, in thousandths of a processor.
const MIN_CPU_MILLIS: u32 = 10;
/// More mounts than anyone needs, and few enough to be made at once.
const MAX_MOUNTS: usize = 64;
/// The kernel's limit for the name of a host.
const MAX_HOSTNAME: usize = 63;
const MAX_NAME: usize = 128;

/// A container to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSpec {
    /// The id of the sandbox, which is also the container's name.
    pub sandbox: String,
    /// The image whose files it has.
    pub image: String,
    /// Who runs in it; never root.
    pub user: User,
    /// Directories of the host that it sees.
    pub mounts: Vec<Mount>,
    /// Where the command starts.
    pub working_dir: String,
    /// What runs as its first process, in place of what the image says.
    pub command: Vec<String>,
    /// Variables, over those of the image.
    pub env: BTreeMap<String, String>,
    /// Thousandths of a processor.
    pub cpu_millis: u32,
    /// Bytes of memory, all swap included: there is none beyond it.
    pub memory: u64,
    /// Processes and threads.
    pub pids: u32,
    /// What it can reach.
    pub network: Network,
    /// An OCI runtime other than the engine's default.
    pub runtime: Option<String>,
    /// Whether the image's files can be written over. What is written so goes
    /// with the container, and no limit of this spec counts it.
    pub writable_root: bool,
    /// Directories in memory and the bytes that fit into each. They count as
    /// memory of the container.
    pub tmpfs: Vec<(String, u64)>,
    /// Its name for itself; that of the sandbox if not given.
    pub hostname: Option<String>,
}

/// A user and a group, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// A directory, file or socket of the host in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is on the host; it must exist.
    pub host: PathBuf,
    /// Where the container sees it.
    pub target: String,
    /// Whether it can only be read. What is mounted below it on the host is
    /// read-only only from Docker 25 on.
    pub read_only: bool,
    /// Whether what the host mounts below it later is seen in the container.
    /// Needs a shared mount on the host. Never the other way.
    pub follow: bool,
}

impl Mount {
    /// One that can be written to.
    pub fn writable(host: impl Into<PathBuf>, target: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            target: target.into(),
            read_only: false,
            follow: false,
        }
    }

    /// One that can only be read.
    pub fn read_only(host: impl Into<PathBuf>, target: impl Into<String>) -> Self {
        Self {
            read_only: true,
            ..Self::writable(host, target)
        }
    }
}

/// What a container can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Itself.
    None,
    /// Public addresses: no other sandbox, not the host, nothing private.
    Internet,
}

impl ContainerSpec {
    /// Refuses what no engine would do as it is written here.
    pub(crate) fn validate(&self) -> Result<()> {
        self.validate_names()?;
        self.validate_limits()?;
        self.validate_paths()
    }

    fn validate_names(&self) -> Result<()> {
        if !is_container_name(&self.sandbox) {
            return Err(Error::refused(
                "sandbox",
                format!("`{}` cannot be the name of a container", self.sandbox),
            ));
        }
        validate_image(&self.image)?;
        if self.command.first().is_none_or(String::is_empty) {
            return Err(Error::refused("command", "there is none"));
        }
        let bad = |name: &str, value: &str| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        };
        if let Some((name, _)) = self.env.iter().find(|(name, value)| bad(name, value)) {
            return Err(Error::refused("env", format!("`{name}` cannot be set")));
        }
        match &self.hostname {
            Some(name) if !is_hostname(name) => Err(Error::refused(
                "hostname",
                format!("`{name}` cannot be the name of a host"),
            )),
            _ => Ok(()),
        }
    }

    fn validate_limits(&self) -> Result<()> {
        if self.user.uid == 0 || self.user.gid == 0 {
            return Err(Error::refused("user", "a sandbox never runs as root"));
        }
        if self.memory < MIN_MEMORY {
            let why = format!("{} bytes; the least is {MIN_MEMORY}", self.memory);
            return Err(Error::refused("memory", why));
        }
        if i64::try_from(self.memory).is_err() {
            return Err(Error::refused("memory", "more than engines can count"));
        }
        if self.cpu_millis < MIN_CPU_MILLIS {
            let why = format!("{}; the least is {MIN_CPU_MILLIS}", self.cpu_millis);
            return Err(Error::refused("cpu_millis", why));
        }
        if self.pids == 0 {
            return Err(Error::refused("pids", "0 would mean no limit"));
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
            let why = format!("more than {MAX_MOUNTS}");
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
                let why = format!("nothing can be mounted at `{path}`");
                Err(Error::refused("tmpfs", why))
            }
            None => Ok(()),
        }
    }
}

/// Refuses a name that no image can have, so that it cannot become another
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
        format!("`{name}` cannot be the name of an image"),
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

/// Whether something may be mounted there: not at the root, nor over what
/// isolates a container.
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
    fn an_ordinary_spec_is_taken() {
        spec().validate().unwrap();
    }

    #[test]
    fn root_is_refused_as_user_and_as_group() {
        assert_eq!(refused(|spec| spec.user.uid = 0), "user");
        assert_eq!(refused(|spec| spec.user.gid = 0), "user");
    }

    #[test]
    fn a_limit_that_would_mean_none_is_refused() {
        assert_eq!(refused(|spec| spec.memory = 0), "memory");
        assert_eq!(refused(|spec| spec.memory = MIN_MEMORY - 1), "memory");
        assert_eq!(refused(|spec| spec.memory = u64::MAX), "memory");
        assert_eq!(refused(|spec| spec.cpu_millis = 0), "cpu_millis");
        assert_eq!(refused(|spec| spec.pids = 0), "pids");
        assert_eq!(refused(|spec| spec.tmpfs[0].1 = 0), "tmpfs");
    }

    #[test]
    fn a_name_that_would_be_another_request_is_refused() {
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
    fn mounts_over_what_isolates_a_container_are_refused() {
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
    fn a_command_and_proper_names_of_variables_are_needed() {
        assert_eq!(refused(|spec| spec.command.clear()), "command");
        let odd = |name: &str| BTreeMap::from([(name.to_owned(), String::new())]);
        assert_eq!(refused(|spec| spec.env = odd("A=B")), "env");
        assert_eq!(refused(|spec| spec.env = odd("")), "env");
    }
}
