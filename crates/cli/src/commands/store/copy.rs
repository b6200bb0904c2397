use std::path::{Path, PathBuf};

use clap::Args;
use elevo_core::TenantId;
use elevo_engine::{Copied, Progress};
use elevo_server::{CopiedTenant, StorePlace, copy_store};
use serde_json::json;

use crate::commands::store::opened::{database, runtime, url};
use crate::errors::Exit;
use crate::local::layout::store_in;
use crate::local::session::Session;
use crate::output::format::{bytes, count};
use crate::output::progress::{self, Watch};

/// Maximum number of damaged objects and snapshots printed for a tenant.
const SHOWN: usize = 10;

/// Copy a store to a database with a bucket, or back.
#[derive(Debug, Args)]
#[command(after_help = "\
FROM and TO are directories, or URLs of PostgreSQL databases:
postgres://USER@HOST:PORT/DATABASE, with several hosts separated by commas. The
bucket of such a store is that of S3_BUCKET, with the other S3_ settings in the
environment or in the file of --config; `workspace-server --help` lists them.
The store of a server without STORE_URL is the directory `store` in its data
directory.

Stop all servers that use either store. FROM is not changed. TO must be empty, or
have a part of the same store: an interrupted copy continues where it was
interrupted. Every object is hashed when it is read; afterwards all of TO is read
back, unless --no-verify is given. Objects of FROM that are damaged are listed,
and the snapshots that need them are left out.

Then start the server with STORE_URL and the same S3_ settings, or without them
after a copy to its data directory. It refuses a store that is older than its
catalog, so the original cannot be used by mistake.

Exit code 6 means that a part of the store could not be copied.

Examples:
  elevo store copy /var/lib/elevo/store postgres://elevo@db1,db2/elevo --config /etc/elevo/elevo.toml
  elevo store copy postgres://elevo@db1,db2/elevo /var/lib/elevo/store
  elevo store copy ~/project/.elevo/store /backups/project --json")]
pub(crate) struct Copy {
    /// The store: a directory or a URL
    from: PathBuf,

    /// The place for the copy: a directory or a URL
    to: PathBuf,

    /// TOML file with the settings of the bucket
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Do not read the copy back
    #[arg(long)]
    no_verify: bool,
}

pub(crate) fn run(session: &mut Session, args: &Copy) -> anyhow::Result<Exit> {
    let from = place(session, &args.from, args.config.as_deref())?;
    let to = place(session, &args.to, args.config.as_deref())?;
    let runtime = runtime()?;
    let progress = Progress::new();
    let watch = Watch {
        doing: "copying",
        things: "objects",
        total: None,
        counts: || (progress.entries(), progress.bytes()),
    };
    let copied = progress::watch(session.hides_progress(), watch, || {
        runtime.block_on(copy_store(&from, &to, !args.no_verify, &progress))
    })?;
    let is_whole = copied.iter().all(CopiedTenant::is_whole);
    for one in &copied {
        print(session, one)?;
    }
    if !session.output.is_json() {
        let line = match is_whole {
            true => format!("The store {to} has everything of {from}"),
            false => format!("A part of {from} could not be copied to {to}"),
        };
        session.output.line(line)?;
    }
    Ok(match is_whole {
        true => Exit::Done,
        false => Exit::Damaged,
    })
}

/// Returns the place that an argument names.
fn place(session: &Session, argument: &Path, config: Option<&Path>) -> anyhow::Result<StorePlace> {
    if let Some(url) = url(argument) {
        return database(url, config);
    }
    let path = session.path(argument);
    let inside = store_in(&path);
    Ok(StorePlace::Directory(match inside.is_dir() {
        true => inside,
        false => path,
    }))
}

fn print(session: &mut Session, one: &CopiedTenant) -> anyhow::Result<()> {
    if session.output.is_json() {
        session.output.value(&json!({
            "tenant": one.tenant.to_string(),
            "whole": one.is_whole(),
            "copied": shape(&one.copied),
            "verified": one.checked.as_ref().map(shape),
        }))?;
        return Ok(());
    }
    if one.tenant != TenantId::LOCAL {
        session.output.line(format!("Tenant {}:", one.tenant))?;
    }
    let copied = &one.copied;
    let sent = match copied.has_sent_nothing() {
        true => "everything was there already".into(),
        false => format!(
            "sent {} of {} in {}",
            count(copied.objects_sent, "object", "objects"),
            bytes(copied.bytes_sent),
            count(copied.snapshots_sent, "snapshot", "snapshots")
        ),
    };
    let all = format!(
        "Copied {} and {}",
        count(copied.snapshots, "snapshot", "snapshots"),
        count(copied.references, "reference", "references"),
    );
    session.output.line(format!("{all}: {sent}"))?;
    for (part, verb) in [
        (Some(copied), "was not copied"),
        (one.checked.as_ref(), "is not whole in the copy"),
    ] {
        if let Some(part) = part {
            print_faults(session, part, verb)?;
        }
    }
    Ok(())
}

fn print_faults(session: &mut Session, part: &Copied, verb: &str) -> anyhow::Result<()> {
    for damage in part.damage.iter().take(SHOWN) {
        let (hash, kind) = (damage.key.hash, &damage.kind);
        session.output.line(format!("object {hash}: {kind}"))?;
    }
    for id in part.failed_snapshots.iter().take(SHOWN) {
        session.output.line(format!("snapshot {id} {verb}"))?;
    }
    for name in part.failed_references.iter().take(SHOWN) {
        session.output.line(format!("reference {name} {verb}"))?;
    }
    Ok(())
}

fn shape(part: &Copied) -> serde_json::Value {
    json!({
        "whole": part.is_whole(),
        "snapshots": part.snapshots,
        "snapshots_sent": part.snapshots_sent,
        "objects_sent": part.objects_sent,
        "bytes_sent": part.bytes_sent,
        "references": part.references,
        "damage": part.damage.iter().map(|damage| json!({
            "hash": damage.key.hash.to_string(),
            "problem": damage.kind.to_string(),
        })).collect::<Vec<_>>(),
        "failed_snapshots": part.failed_snapshots.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "failed_references": part.failed_references,
        "extra_references": part.extra_references,
    })
}
