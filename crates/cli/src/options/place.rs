//! The argument `PLACE:PATH`, which names a file on a server.

use std::convert::Infallible;
use std::str::FromStr;

/// A file or directory of a sandbox, a workspace, a project or a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePlace {
    pub(crate) of: PlaceKind,
    /// The sandbox, workspace, project or snapshot, by id or name.
    pub(crate) name: String,
    /// The path; empty for the root.
    pub(crate) path: String,
}

/// Kind of the resource that has the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlaceKind {
    Sandbox,
    Workspace,
    /// A project, in the newest or an older state.
    Project {
        revision: Option<String>,
    },
    Snapshot,
}

impl FromStr for FilePlace {
    type Err = Infallible;

    /// Splits at the first colon. Names of resources have no slash, so the word
    /// before a slash is the kind.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (place, path) = text.split_once(':').unwrap_or((text, ""));
        let (kind, name) = match place.split_once('/') {
            Some((kind, name)) => (kind, name),
            None if place.starts_with("ws-") => ("workspace", place),
            None if place.starts_with("prj-") => ("project", place),
            None => ("sandbox", place),
        };
        let (of, name) = match kind {
            "workspace" => (PlaceKind::Workspace, name),
            "snapshot" => (PlaceKind::Snapshot, name),
            "project" => {
                let (name, revision) = match name.split_once('@') {
                    Some((name, revision)) => (name, Some(revision)),
                    None => (name, None),
                };
                let revision = revision.filter(|it| !it.is_empty()).map(str::to_owned);
                (PlaceKind::Project { revision }, name)
            }
            "sandbox" => (PlaceKind::Sandbox, name),
            // The server does not find a sandbox with this name.
            _ => (PlaceKind::Sandbox, place),
        };
        Ok(Self {
            of,
            name: name.to_owned(),
            path: path.to_owned(),
        })
    }
}

impl FilePlace {
    /// Returns the last name in the path; `None` for the root.
    pub(crate) fn file_name(&self) -> Option<&str> {
        let name = self.path.trim_end_matches('/').rsplit('/').next();
        name.filter(|name| !matches!(*name, "" | "." | ".."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_kind_a_name_and_a_path() {
        let project = |revision: Option<&str>| PlaceKind::Project {
            revision: revision.map(str::to_owned),
        };
        for (text, of, name, path) in [
            ("try-1", PlaceKind::Sandbox, "try-1", ""),
            ("try-1:a/b:c", PlaceKind::Sandbox, "try-1", "a/b:c"),
            (
                "sandbox/try-1:/etc/hosts",
                PlaceKind::Sandbox,
                "try-1",
                "/etc/hosts",
            ),
            ("ws-1:a", PlaceKind::Workspace, "ws-1", "a"),
            ("workspace/fix:a", PlaceKind::Workspace, "fix", "a"),
            ("prj-1:a@b", project(None), "prj-1", "a@b"),
            ("project/site:a", project(None), "site", "a"),
            ("project/site@v1~2:a", project(Some("v1~2")), "site", "a"),
            ("project/site@:a", project(None), "site", "a"),
            ("snapshot/good:a", PlaceKind::Snapshot, "good", "a"),
            ("other/x:a", PlaceKind::Sandbox, "other/x", "a"),
        ] {
            let place: FilePlace = text.parse().unwrap();
            assert_eq!(
                (place.of, &*place.name, &*place.path),
                (of, name, path),
                "{text}"
            );
        }
    }

    #[test]
    fn a_file_has_the_last_name_of_its_path() {
        for (text, name) in [
            ("x:a/b", Some("b")),
            ("x:a/b/", Some("b")),
            ("x:", None),
            ("x:/", None),
            ("x:a/..", None),
        ] {
            let place: FilePlace = text.parse().unwrap();
            assert_eq!(place.file_name(), name, "{text}");
        }
    }
}
