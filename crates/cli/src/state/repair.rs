use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use elevo_engine::{ImportOptions, Inspect, Progress, Repaired, Source, VerifyOptions, repair};
use elevo_store_local::{LocalStore, Options, find_backup};
use serde_json::json;

use super::verify;
use crate::bar::{self, Watch};
use crate::errors::Exit;
use crate::format::{count, path_text};
use crate::session::{Session, left_out};

/// Put a damaged store right from what still has the data.
#[derive(Debug, Args)]
#[command(after_help = "\
What is damaged or missing is looked for in each PATH: another store, a backup
or a directory of backups (the newest is taken), or a directory of files. Files
are cut and hashed as by an import, so that only what was lost is taken. What
is damaged and needed by nobody is removed. Nothing else changes.

A store whose log is damaged is opened without the commits that follow the
damage. Exit code 6 means that something is still lost.

Examples:
  elevo state repair --from /backups
  elevo state repair --from ~/project --from ../other/.elevo/store
  elevo state repair --json")]
pub(crate) struct Repair {
    /// Where lost data may still be; can be given more than once
    #[arg(long, value_name = "PATH")]
    from: Vec<PathBuf>,
}

/// A place that lost data is taken from.
enum Opened {
    Store(Box<LocalStore>),
    Files(PathBuf),
}

impl Opened {
    fn source<'a>(&'a self, files: &'a ImportOptions) -> Source<'a> {
        match self {
            Self::Store(store) => Source::Store(store.as_ref()),
            Self::Files(path) => Source::Directory(path, files),
        }
    }
}

pub(crate) fn run(session: &mut Session, args: &Repair) -> anyhow::Result<ExitCode> {
    let place = session.place(None)?;
    let from = args.from.iter().map(|path| open(session, path));
    let from: Vec<_> = from.collect::<anyhow::Result<_>>()?;
    let options = Options {
        salvage: true,
        ..session.options()
    };
    let store: Arc<LocalStore> = match session.held(&place) {
        Some(held) => held.store.clone(),
        None => Arc::new(LocalStore::open(&place.store, &options)?),
    };
    let files = ImportOptions {
        threads: session.threads(),
        leave_out: left_out(),
        ignoring: None,
    };
    let sources: Vec<_> = from.iter().map(|opened| opened.source(&files)).collect();
    let mut is_whole = true;
    for tenant in verify::tenants(&store)? {
        let progress = Progress::new();
        let watch = Watch {
            doing: "repairing",
            things: "objects",
            total: None,
            counts: || (progress.entries(), progress.bytes()),
        };
        let target: Arc<dyn Inspect> = store.clone();
        let options = VerifyOptions::default();
        let repaired = bar::watch(session.hides_progress(), watch, || {
            repair(&target, tenant, &sources, &options, &progress)
        })?;
        is_whole &= repaired.after.is_whole();
        print(session, &repaired)?;
    }
    Ok(match is_whole {
        true => ExitCode::SUCCESS,
        false => Exit::Damaged.into(),
    })
}

fn open(session: &Session, path: &Path) -> anyhow::Result<Opened> {
    let path = session.directory(path)?;
    let backup = find_backup(&path).ok();
    let is_store = path.join("FORMAT").is_file();
    match backup.or_else(|| is_store.then(|| path.clone())) {
        Some(store) => {
            let store = LocalStore::open_read_only(&store, &session.options())?;
            Ok(Opened::Store(Box::new(store)))
        }
        None => Ok(Opened::Files(path)),
    }
}

fn print(session: &mut Session, repaired: &Repaired) -> anyhow::Result<()> {
    let Repaired {
        before,
        mended,
        references,
        removed,
        after,
    } = repaired;
    if session.output.is_json() {
        session.output.value(&json!({
            "before": verify::value(before),
            "mended": mended,
            "references": references,
            "removed": removed,
            "after": verify::value(after),
        }))?;
        return Ok(());
    }
    if before.is_whole() {
        session.output.line("Nothing is damaged")?;
        return Ok(());
    }
    for name in references {
        let name = path_text(name.as_bytes());
        session.note(&format!(
            "`{name}` could not be read, and is now where it was in the other store"
        ));
    }
    let mended = count(*mended, "object", "objects");
    let removed = count(*removed, "damaged one", "damaged ones");
    session.output.line(format!(
        "Put {mended} right, removed {removed} that nothing needs"
    ))?;
    if !after.is_whole() {
        verify::print_damage(session, after)?;
    }
    if after.gaps > 0 && after.damage.is_empty() {
        session.note(
            "all that is needed can be read, but table files are damaged: make a backup, and use \
             what is restored from it once `elevo state verify` finds it whole; if it does not, \
             keep it in a new store by `elevo state checkout` and `import`",
        );
    }
    Ok(())
}
