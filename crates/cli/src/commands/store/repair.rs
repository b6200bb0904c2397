use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use elevo_engine::{ImportOptions, Progress, RepairSource, Repaired, VerifyOptions, repair};
use elevo_store_local::{LocalStore, Options, find_backup};
use serde_json::json;

use crate::commands::store::opened::{Opened, database, runtime, url};
use crate::errors::Exit;
use crate::local::session::Session;
use crate::local::wait::left_out;
use crate::output::damage;
use crate::output::format::{count, path_text};
use crate::output::progress::{self, Watch};

/// Repair a damaged store from copies of its data.
#[derive(Debug, Args)]
#[command(after_help = "\
The command looks for damaged and missing objects in each PATH: another store, a
backup or a directory of backups (of which the newest is used), or a directory
of files. It splits and hashes files like an import, and takes only lost
objects. It deletes damaged objects that nothing needs. Nothing else changes.

STORE or PATH may also be the URL of a PostgreSQL database. The settings of its
bucket are those of `elevo store copy`. They name one bucket, so a store in a
database is repaired from directories, for example from a copy. Stop all servers
that use STORE: a server could need an object that the command deletes.

A store whose log is damaged is opened without the commits that follow the
damage. Exit code 6 means that objects are still lost.

Examples:
  elevo store repair --from /backups
  elevo store repair --from ~/project --from ../other/.elevo/store
  elevo store repair postgres://elevo@db1,db2/elevo --from /backups/store
  elevo store repair --json")]
pub(crate) struct Repair {
    /// The store: a directory or a URL; by default that of --store
    #[arg(value_name = "STORE")]
    pub(super) place: Option<PathBuf>,

    /// Store, backup, directory or URL with copies of lost data; can be repeated
    #[arg(long, value_name = "PATH")]
    from: Vec<PathBuf>,

    /// TOML file with the settings of the bucket
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// A source of lost data.
enum Source {
    Store(Opened),
    Files(PathBuf),
}

impl Source {
    fn source<'a>(&'a self, files: &'a ImportOptions) -> RepairSource<'a> {
        match self {
            Self::Store(opened) => RepairSource::Store(&*opened.store),
            Self::Files(path) => RepairSource::Directory(path, files),
        }
    }
}

pub(crate) fn run(session: &mut Session, args: &Repair) -> anyhow::Result<Exit> {
    let runtime = runtime()?;
    let _inside = runtime.enter();
    let opened = open(session, args)?;
    let from = args
        .from
        .iter()
        .map(|path| open_source(session, args, path));
    let from: Vec<_> = from.collect::<anyhow::Result<_>>()?;
    let files = ImportOptions {
        threads: session.threads(),
        leave_out: left_out(),
        ignoring: None,
    };
    let sources: Vec<_> = from.iter().map(|source| source.source(&files)).collect();
    let mut is_whole = true;
    for tenant in opened.tenants()? {
        let progress = Progress::new();
        let watch = Watch {
            doing: "repairing",
            things: "objects",
            total: None,
            counts: || (progress.entries(), progress.bytes()),
        };
        let options = VerifyOptions::default();
        let repaired = progress::watch(session.hides_progress(), watch, || {
            repair(&opened.store, tenant, &sources, &options, &progress)
        })?;
        is_whole &= repaired.after.is_whole();
        print(session, &repaired)?;
    }
    Ok(match is_whole {
        true => Exit::Done,
        false => Exit::Damaged,
    })
}

fn open(session: &Session, args: &Repair) -> anyhow::Result<Opened> {
    if let Some(url) = args.place.as_deref().and_then(url) {
        return Opened::alone(&database(url, args.config.as_deref())?);
    }
    let place = session.place(None)?;
    let options = Options {
        salvage: true,
        ..session.options()
    };
    let store = match session.held(&place) {
        Some(held) => held.store.clone(),
        None => Arc::new(LocalStore::open(&place.store, &options)?),
    };
    Ok(Opened::local(store))
}

fn open_source(session: &Session, args: &Repair, path: &Path) -> anyhow::Result<Source> {
    if let Some(url) = url(path) {
        let place = database(url, args.config.as_deref())?;
        return Ok(Source::Store(Opened::shared(&place)?));
    }
    let path = session.directory(path)?;
    let backup = find_backup(&path).ok();
    let is_store = path.join("FORMAT").is_file();
    match backup.or_else(|| is_store.then(|| path.clone())) {
        Some(store) => {
            let store = LocalStore::open_read_only(&store, &session.options())?;
            Ok(Source::Store(Opened::local(Arc::new(store))))
        }
        None => Ok(Source::Files(path)),
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
            "before": damage::damage_shape(before),
            "mended": mended,
            "references": references,
            "removed": removed,
            "after": damage::damage_shape(after),
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
            "`{name}` could not be read, and was restored from the other store"
        ));
    }
    let mended = count(*mended, "object", "objects");
    let removed = count(*removed, "damaged object", "damaged objects");
    session.output.line(format!(
        "Repaired {mended}, deleted {removed} that nothing needs"
    ))?;
    if !after.is_whole() {
        damage::print_damage(session, after)?;
    }
    if after.gaps > 0 && after.damage.is_empty() {
        session.note(
            "all needed objects can be read, but table files are damaged: create a backup, restore \
             it and use the restored store if `elevo store verify` finds no damage; otherwise move \
             the snapshots to a new store with `elevo checkout` and `import`",
        );
    }
    Ok(())
}
