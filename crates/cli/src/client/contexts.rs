//! Servers that this user has logged in to, with their keys.
//!
//! ```text
//! CONFIG/contexts.json   {"version":1,"current":"prod","contexts":{"prod":
//!                        {"server":"https://…","key":"…","ca":"PEM, or absent"}}}
//!                        mode 0600, in a directory with mode 0700
//! ```
//!
//! CONFIG is `$XDG_CONFIG_HOME/elevo` or `~/.config/elevo`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::errors::{ContextProblem, FileProblem};

/// The name of the server on this machine, which has no entry in the file.
pub(crate) const LOCAL: &str = "local";

/// Maximum bytes of the file.
const LARGEST: u64 = 16 << 20;

/// A server and the key for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Context {
    pub(crate) server: String,
    pub(crate) key: String,
    /// Certificate authorities to trust in addition to the system's, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<String>,
}

impl fmt::Debug for Context {
    /// Leaves out the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Context");
        shown.field("server", &self.server).finish_non_exhaustive()
    }
}

/// All contexts of this user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contexts {
    version: u32,
    /// The context of commands that name no server.
    pub(crate) current: Option<String>,
    pub(crate) contexts: BTreeMap<String, Context>,
}

impl Default for Contexts {
    fn default() -> Self {
        Self {
            version: 1,
            current: None,
            contexts: BTreeMap::new(),
        }
    }
}

impl Contexts {
    /// Reads the contexts of this user. Without a file there are none.
    pub(crate) fn read() -> Result<Self, ContextProblem> {
        match path() {
            Some(path) => Self::read_from(&path),
            None => Ok(Self::default()),
        }
    }

    fn read_from(path: &Path) -> Result<Self, ContextProblem> {
        let unreadable = |why: String| ContextProblem::Unreadable {
            path: path.into(),
            why,
        };
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(LARGEST).read_to_string(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unreadable(error.to_string())),
        }
        serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))
    }

    /// Returns a context by its name.
    pub(crate) fn get(&self, name: &str) -> Result<&Context, ContextProblem> {
        let found = self.contexts.get(name);
        found.ok_or_else(|| ContextProblem::Unknown(name.into()))
    }
}

/// Changes the contexts of this user. Concurrent changes wait for each other.
pub(crate) fn change<T>(
    change: impl FnOnce(&mut Contexts) -> Result<T, ContextProblem>,
) -> anyhow::Result<T> {
    change_at(&path().ok_or(ContextProblem::NoHome)?, change)
}

fn change_at<T>(
    path: &Path,
    change: impl FnOnce(&mut Contexts) -> Result<T, ContextProblem>,
) -> anyhow::Result<T> {
    let failed = |source| FileProblem::Io {
        action: "write",
        path: path.into(),
        source,
    };
    let directory = path.parent().unwrap_or(Path::new("/"));
    let _lock = lock(directory).map_err(failed)?;
    let mut contexts = Contexts::read_from(path)?;
    let result = change(&mut contexts)?;
    write(directory, path, &contexts).map_err(failed)?;
    Ok(result)
}

/// Creates the directory, and locks it.
fn lock(directory: &Path) -> io::Result<File> {
    let mut create = DirBuilder::new();
    create.recursive(true).mode(0o700).create(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    let file = File::open(directory)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

fn write(directory: &Path, path: &Path, contexts: &Contexts) -> io::Result<()> {
    // A temporary file has mode 0600 from its creation.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    serde_json::to_writer_pretty(&mut file, contexts)?;
    writeln!(file)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// The path of the file, unless this user has no home.
pub(crate) fn path() -> Option<PathBuf> {
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let config = absolute("XDG_CONFIG_HOME");
    let config = config.or_else(|| Some(absolute("HOME")?.join(".config")));
    Some(config?.join("elevo/contexts.json"))
}

/// Checks the name of a new context.
pub(crate) fn check_name(name: &str) -> Result<(), ContextProblem> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    let is_valid = !name.is_empty() && name.len() <= 64 && name.chars().all(is_allowed);
    match is_valid && name != LOCAL {
        true => Ok(()),
        false => Err(ContextProblem::InvalidName(name.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(path: &Path, name: &str, key: &str) {
        let context = Context {
            server: "https://elevo.example.com".into(),
            key: key.into(),
            ca: None,
        };
        let added = change_at(path, |all| {
            all.contexts.insert(name.into(), context);
            Ok(())
        });
        added.unwrap();
    }

    #[test]
    fn only_this_user_can_read_the_keys() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config/elevo/contexts.json");
        assert_eq!(Contexts::read_from(&path).unwrap(), Contexts::default());
        add(&path, "prod", "elv_secret");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let contexts = Contexts::read_from(&path).unwrap();
        assert_eq!(contexts.get("prod").unwrap().key, "elv_secret");
        assert!(!format!("{contexts:?}").contains("elv_secret"));
        assert!(contexts.get("other").is_err());
    }

    #[test]
    fn concurrent_changes_are_all_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("contexts.json");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                scope.spawn(move || add(path, &format!("c{n}"), "k"));
            }
        });
        assert_eq!(Contexts::read_from(&path).unwrap().contexts.len(), 8);
    }

    #[test]
    fn names_are_plain_words() {
        for name in ["prod", "elevo.example.com", "127.0.0.1:8080"] {
            check_name(name).unwrap();
        }
        for name in ["", "local", "a b", "a/b", "-\u{1b}"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
