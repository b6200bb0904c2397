use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use elevo_archive::{ExportContent, Exported};
use elevo_engine::Progress;
use elevo_objects::SnapshotId;
use serde::Serialize;

use crate::errors::FileProblem;
use crate::local::revision;
use crate::local::session::Session;
use crate::local::tree_path::tree_path;
use crate::output::format;
use crate::output::progress::{self, Watch};

/// Write a snapshot as a tar archive.
#[derive(Debug, Args)]
#[command(after_help = "\
The archive is streamed, so its size does not matter. It is the same to the byte
each time: names are sorted, owners are 0, times are those of the snapshot. If
PATH is a directory, the names in the archive are relative to it. Without -o, it
goes to standard output, which must not be a terminal.

With --layer-on it contains only the differences from another snapshot, as a
layer of an OCI image: `.wh.NAME` marks that NAME was removed.

Examples:
  elevo export head -o site.tar
  elevo export v1:docs | tar x -C /tmp
  elevo export head | zstd > site.tar.zst
  elevo export v2 --layer-on v1 -o layer.tar")]
pub(crate) struct Export {
    /// The snapshot, or a file or directory in it
    #[arg(value_name = "REV[:PATH]")]
    source: OsString,

    /// File to write; by default standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Only the differences from this snapshot, as an image layer on top of it
    #[arg(long, value_name = "REV")]
    layer_on: Option<String>,
}

#[derive(Serialize)]
struct ExportShape {
    snapshot: String,
    tar: String,
    entries: u64,
    bytes: u64,
}

pub(crate) fn run(session: &mut Session, args: &Export) -> anyhow::Result<()> {
    // Like in other commands, `-` is standard output too.
    let output = args.output.as_deref();
    let output = output.filter(|path| path.as_os_str() != "-");
    if output.is_none() && session.output.is_terminal() {
        return Err(FileProblem::ArchiveToTerminal.into());
    }
    let (revision, path) = revision::with_path(&args.source)?;
    let path = tree_path(path.unwrap_or_default())?;
    let view = session.view()?;
    let (id, snapshot) = view.resolve(revision)?;
    let form = match &args.layer_on {
        Some(base) => ExportContent::Layer(Box::new(view.resolve(base)?.1)),
        None => ExportContent::Plain,
    };
    let export = elevo_archive::Export {
        repository: &view.repository,
        snapshot: &snapshot,
        path: &path,
        form: &form,
        threads: session.threads(),
    };
    let progress = Progress::new();
    let watch = Watch {
        doing: "writing",
        things: "entries",
        total: None,
        counts: || (progress.entries(), progress.bytes()),
    };
    let hides = session.hides_progress();
    let write = |out: &mut dyn Write| {
        progress::watch(hides, watch, || export.write(|_, _| true, out, &progress))
    };
    let Some(output) = output else {
        write(session.output.writer())?;
        return Ok(());
    };
    let file = session.path(output);
    let done = write_file(&file, |out| Ok(write(out)?))?;
    print(session, id, output, done)
}

fn print(session: &mut Session, id: SnapshotId, tar: &Path, done: Exported) -> anyhow::Result<()> {
    if session.output.is_json() {
        let shape = ExportShape {
            snapshot: id.to_string(),
            tar: tar.to_string_lossy().into_owned(),
            entries: done.entries,
            bytes: done.bytes,
        };
        session.output.value(&shape)?;
        return Ok(());
    }
    let totals = format::totals(done.entries, done.bytes);
    let line = format!("Wrote {} to {}: {totals}", format::short(id), tar.display());
    session.output.line(line)?;
    Ok(())
}

/// Writes a regular file atomically, through a temporary file. Writes directly to
/// anything else, such as a pipe.
fn write_file<T>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let failed = |source: io::Error| FileProblem::Io {
        action: "write",
        path: path.into(),
        source,
    };
    let is_special = fs::metadata(path).is_ok_and(|meta| !meta.is_file());
    if is_special {
        let mut out = fs::File::options().write(true).open(path).map_err(failed)?;
        return write(&mut out);
    }
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let mut out = tempfile::Builder::new()
        .prefix(".elevo-export-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent.unwrap_or(Path::new(".")))
        .map_err(failed)?;
    let done = write(&mut out)?;
    out.persist(path).map_err(|error| failed(error.error))?;
    Ok(done)
}
