use std::env;
use std::path::PathBuf;

use clap::Args;
use elevo_engine::Progress;
use elevo_server::{
    CatalogDatabase, CatalogPlace, has_secrets_key, restore_server, secrets_key_file,
};
use serde_json::json;

use crate::client::operator::OperatorOptions;
use crate::errors::{Exit, ServerProblem};
use crate::local::data_directory::DataDirectory;
use crate::output::Output;
use crate::output::format::bytes;
use crate::output::progress::{self, Watch};

/// Create a data directory from a backup of a server.
#[derive(Debug, Args)]
#[command(after_help = "\
BACKUP is a backup, or a directory of backups, of which the newest is used. The
directory of --data must be empty or must not exist. The checksum of every file
is verified, and every snapshot that the catalog names must exist.

No backup contains the key of secrets: copy the key file of the original server
(SECRETS_KEY_FILE, by default DATA_DIR.secrets-key) to the same place next to
--data.

A backup of a server with CATALOG_URL has no catalog. Recover the database to the
position that the backup names, and set CATALOG_URL to it for this command.

Then start the server: it has all workspaces, and sandboxes that were running
can be started. The restored server is a separate installation: it does not
touch the containers of the original server, which can keep running.

Examples:
  elevo server restore /backups --data /srv/elevo
  elevo server restore /backups/2026-11-16T02-00-00Z --data /srv/elevo
  elevo server restore /backups --data /srv/elevo --workspace-root /fast/workspaces")]
pub(super) struct Restore {
    /// The backup
    backup: PathBuf,

    /// Directory for workspaces, if the server has WORKSPACE_ROOT set
    #[arg(long, value_name = "DIR")]
    workspace_root: Option<PathBuf>,
}

/// Returns the recovered database that the environment names.
fn database() -> anyhow::Result<Option<CatalogDatabase>> {
    let Some(url) = env::var("CATALOG_URL").ok().filter(|url| !url.is_empty()) else {
        return Ok(None);
    };
    let place = CatalogPlace::parse(&url);
    match place.map_err(|error| ServerProblem::CatalogUrl(error.to_string()))? {
        CatalogPlace::Database(database) => Ok(Some(database)),
        CatalogPlace::File(_) => {
            let problem = "CATALOG_URL is not the URL of a database".to_owned();
            Err(ServerProblem::CatalogUrl(problem).into())
        }
    }
}

pub(super) fn run(at: &OperatorOptions, args: &Restore) -> anyhow::Result<Exit> {
    let data = DataDirectory::new(at.data.clone());
    let progress = Progress::new();
    let watch = Watch {
        doing: "restoring",
        things: "files",
        total: None,
        counts: || (progress.entries(), progress.bytes()),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let root = args.workspace_root.as_deref();
    let database = database()?;
    let restored = progress::watch(at.quiet, watch, || {
        let database = database.as_ref();
        let restoring = restore_server(&args.backup, data.path(), root, database, &progress);
        runtime.block_on(restoring)
    })?;
    let mut output = Output::new(at.json);
    let path = data.path().display();
    let key_file = env::var_os("SECRETS_KEY_FILE").filter(|file| !file.is_empty());
    let key_file = key_file.map_or_else(|| secrets_key_file(data.path()), PathBuf::from);
    let missing = restored.secrets_key.as_deref();
    let missing = missing.filter(|id| !has_secrets_key(&key_file, id));
    if at.json {
        output.value(&json!({
            "data": data.path().to_string_lossy(),
            "backup": restored.backup.to_string_lossy(),
            "begunAt": restored.begun,
            "installation": restored.installation,
            "bytes": restored.bytes,
            "secretsKey": restored.secrets_key.as_deref().map(|id| json!({
                "id": id,
                "file": key_file.to_string_lossy(),
                "isThere": missing.is_none(),
            })),
        }))?;
    } else {
        let (all, from) = (bytes(restored.bytes), restored.backup.display());
        output.line(format!("Restored {all} from {from} to {path}"))?;
        if let Some(id) = missing {
            output.line(format!(
                "Variables of sandboxes and secrets of webhooks are encrypted with the key {id},\n\
                 which no backup has. Copy the key file of the original server to {}\n\
                 before you start this one.",
                key_file.display()
            ))?;
        }
        output.line(format!("Start it with `elevo up --data {path}`"))?;
    }
    output.finish()?;
    Ok(Exit::Done)
}
