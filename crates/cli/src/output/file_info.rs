//! Prints files on a server.

use elevo_api::{FileInfo, FileKind};

use crate::output::{ADDED, Output, OutputError, PLACE, format};

/// Prints a file: as JSON, as a line with its path, or as a line with its kind,
/// mode and size too.
pub(crate) fn print(output: &mut Output, file: &FileInfo, long: bool) -> Result<(), OutputError> {
    if output.is_json() {
        return output.value(file);
    }
    let mut path = plain(&file.path);
    let style = match file.kind {
        FileKind::Directory => {
            path.push('/');
            PLACE
        }
        FileKind::Symlink => ADDED,
        FileKind::File | FileKind::Other => anstyle::Style::new(),
    };
    let path = output.styled(style, path);
    if !long {
        return output.line(path);
    }
    let kind = match file.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Other => "other",
    };
    let mode = format::first_line(&file.mode);
    let size = file.size.map(format::bytes).unwrap_or_default();
    let about = format!("{kind:<9}  {mode:>4}  {size:>12}  ");
    let target = file.target.as_deref().map(plain);
    let target = target.map_or(String::new(), |target| format!(" -> {target}"));
    output.line([about.as_bytes(), &path, target.as_bytes()].concat())
}

/// Returns a path without control characters. A line break in a name must not
/// hide the rest of the name.
pub(crate) fn plain(path: &str) -> String {
    path.replace(char::is_control, "\u{fffd}")
}
