//! The place that a path of a request names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::failure::{Failure, Result};

/// The workspace in a sandbox.
const WORKSPACE: &str = "/workspace";
/// The home in a sandbox.
const HOME: &str = "/home/agent";

/// Maximum length of a path, as in Linux.
const LONGEST: usize = 4095;

/// The place of a file in a sandbox or a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A path relative to the workspace.
    Workspace(PathBuf),
    /// A path relative to the home.
    Home(PathBuf),
    /// An absolute path in the container, outside of both.
    Container(PathBuf),
}

impl Place {
    /// Parses a path. It need not be UTF-8.
    pub(crate) fn parse(text: &[u8]) -> Result<Self> {
        if text.len() > LONGEST {
            let message = format!("`path` has more than {LONGEST} bytes");
            return Err(Failure::invalid(message));
        }
        let mut path = PathBuf::new();
        for part in Path::new(OsStr::from_bytes(text)).components() {
            match part {
                Component::Normal(name) if name.as_bytes().contains(&0) => {
                    return Err(Failure::invalid("`path` contains NUL"));
                }
                Component::Normal(_) | Component::RootDir => path.push(part),
                Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(Failure::invalid("`path` contains `..`"));
                }
            }
        }
        if !path.is_absolute() {
            return Ok(Self::Workspace(path));
        }
        if let Ok(below) = path.strip_prefix(WORKSPACE) {
            return Ok(Self::Workspace(below.into()));
        }
        if let Ok(below) = path.strip_prefix(HOME) {
            return Ok(Self::Home(below.into()));
        }
        Ok(Self::Container(path))
    }

    /// Returns the path of a file as responses show it: relative to the
    /// workspace, or absolute.
    pub(crate) fn shown(&self) -> PathBuf {
        match self {
            Self::Workspace(path) | Self::Container(path) => path.clone(),
            Self::Home(path) if path.as_os_str().is_empty() => HOME.into(),
            Self::Home(path) => Path::new(HOME).join(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_in_the_workspace_the_home_or_the_container() {
        let place = |text: &str| Place::parse(text.as_bytes()).unwrap();
        let workspace = |path: &str| Place::Workspace(path.into());
        for text in ["", ".", "/workspace", "/workspace/", "./"] {
            assert_eq!(place(text), workspace(""), "{text}");
        }
        for text in ["a/b", "a//b/", "/workspace/a/b", "./a/./b"] {
            assert_eq!(place(text), workspace("a/b"), "{text}");
        }
        assert_eq!(place("/home/agent"), Place::Home("".into()));
        assert_eq!(place("/home/agent/.npmrc"), Place::Home(".npmrc".into()));
        for text in ["/", "/etc/hosts", "/workspaces/a", "/home/agents"] {
            assert_eq!(place(text), Place::Container(text.into()));
        }
        assert_eq!(
            Place::parse(b"a\xff").unwrap(),
            Place::Workspace(OsStr::from_bytes(b"a\xff").into())
        );
        assert_eq!(place("/home/agent/a").shown(), Path::new("/home/agent/a"));
        assert_eq!(place("/home/agent").shown(), Path::new("/home/agent"));
    }

    #[test]
    fn a_path_that_is_too_long_or_leads_upwards_is_rejected() {
        let long = vec![b'a'; LONGEST + 1];
        for bad in [&b".."[..], b"a/..", b"a/../b", b"/..", b"a\0b", &long] {
            assert!(Place::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Place::parse(&long[1..]).is_ok());
    }
}
