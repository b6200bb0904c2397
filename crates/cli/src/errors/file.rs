use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::described::{Advice, Described, describe, lossy, path_details};
use super::exit::Exit;

/// Errors of reading and writing files that arguments name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileProblem {
    #[error("cannot {action} {}", .path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("the path {} is not valid UTF-8 and cannot be sent to a server", .0.display())]
    PathNotText(PathBuf),
    #[error("{} is not valid UTF-8 text", .0.display())]
    ContentNotText(PathBuf),
    #[error("{} is larger than {limit} bytes", .path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("the editor `{editor}` cannot be used")]
    Editor { editor: String, source: io::Error },
    #[error("there is no file or directory {}", .0.display())]
    NotFound(PathBuf),
    #[error("{} is a directory, but an option needs a tar archive", .0.display())]
    NotATar(PathBuf),
    #[error("`{0}` has no path of a file")]
    NoPath(String),
    #[error("files of `{0}` can only be read")]
    ReadOnlyPlace(String),
    #[error("{} is a directory", .0.display())]
    Directory(PathBuf),
    #[error("refusing to write an archive to a terminal")]
    ArchiveToTerminal,
}

impl FileProblem {
    pub(crate) fn not_written(path: &Path, source: io::Error) -> Self {
        Self::Io {
            action: "write",
            path: path.into(),
            source,
        }
    }

    pub(super) fn describe(&self) -> Described {
        match self {
            Self::Io { path, .. } => {
                describe(Exit::Failed, "io", path_details("path", path), Advice::None)
            }
            Self::PathNotText(path) => describe(
                Exit::Usage,
                "path_invalid",
                path_details("path", path),
                Advice::None,
            ),
            Self::ContentNotText(path) => describe(
                Exit::Usage,
                "not_text",
                path_details("path", path),
                Advice::None,
            ),
            Self::TooLarge { path, limit } => describe(
                Exit::Usage,
                "file_too_large",
                json!({ "path": lossy(path), "limit": limit }),
                Advice::None,
            ),
            Self::Editor { editor, .. } => describe(
                Exit::Failed,
                "editor_failed",
                json!({ "editor": editor }),
                "set VISUAL or EDITOR to the command of your editor",
            ),
            Self::NotFound(path) => describe(
                Exit::NotFound,
                "file_not_found",
                path_details("path", path),
                Advice::None,
            ),
            Self::NotATar(path) => describe(
                Exit::Usage,
                "not_a_tar",
                path_details("path", path),
                "leave out --layer-on, --max-size and --max-entries, or name a tar archive",
            ),
            Self::NoPath(place) => describe(
                Exit::Usage,
                "path_invalid",
                json!({ "place": place }),
                "name a file as PLACE:PATH; `elevo files ls PLACE` lists the files",
            ),
            Self::ReadOnlyPlace(place) => describe(
                Exit::Usage,
                "place_read_only",
                json!({ "place": place }),
                "change files of a project with `elevo project apply`, or in a workspace",
            ),
            Self::Directory(path) => describe(
                Exit::Usage,
                "is_a_directory",
                path_details("path", path),
                "`elevo cp DIRECTORY SANDBOX:PATH` copies a directory",
            ),
            Self::ArchiveToTerminal => describe(
                Exit::Usage,
                "archive_to_terminal",
                Value::Null,
                "write it to a file with `-o FILE`, or into a pipe",
            ),
        }
    }
}
