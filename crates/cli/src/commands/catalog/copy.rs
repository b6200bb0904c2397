use std::collections::BTreeMap;
use std::sync::Mutex;

use clap::Args;
use elevo_server::{CatalogPlace, copy_catalog};
use serde_json::json;

use crate::errors::{Exit, ServerProblem};
use crate::output::Output;
use crate::output::format::count;
use crate::output::progress::{self, Watch};

/// Copy a catalog to an empty database or a new file.
#[derive(Debug, Args)]
#[command(after_help = "\
FROM and TO are files, or URLs of PostgreSQL databases:
postgres://USER@HOST:PORT/DATABASE, with several hosts separated by commas. The
password is read from PGPASSWORD or from ~/.pgpass if the URL has none.

Stop the server first. TO must be empty: a new file, or a database in which no
server has recorded anything. The copy is one transaction, and every row is
compared before it commits, so an interrupted copy leaves TO empty. FROM is not
changed, except that a catalog of an older format is migrated.

Then start the server with CATALOG_URL, or without it after a copy to a file. A
server refuses to start with the catalog that it no longer uses.

Examples:
  elevo catalog copy /var/lib/elevo/catalog.db postgres://elevo@db1,db2/elevo
  elevo catalog copy postgres://elevo@db1,db2/elevo /var/lib/elevo/catalog.db
  elevo catalog copy old/catalog.db new/catalog.db --json | jq .rows")]
pub(super) struct Copy {
    /// The catalog: a file or a URL
    from: String,

    /// The place for the copy: a file or a URL
    to: String,
}

pub(super) fn run(args: &Copy, is_quiet: bool, is_json: bool) -> anyhow::Result<Exit> {
    let from = place(&args.from)?;
    let to = place(&args.to)?;
    let rows = Mutex::new(BTreeMap::<String, u64>::new());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let watch = Watch {
        doing: "copying",
        things: "rows",
        total: None,
        counts: || (rows.lock().map_or(0, |rows| rows.values().sum()), 0),
    };
    let copied = progress::watch(is_quiet, watch, || {
        let mut note = |table: &str, copied: u64| {
            if let Ok(mut rows) = rows.lock() {
                rows.insert(table.to_owned(), copied);
            }
        };
        runtime.block_on(copy_catalog(&from, &to, &mut note))
    })?;
    let total: u64 = copied.iter().map(|(_, rows)| rows).sum();
    let mut output = Output::new(is_json);
    if is_json {
        let tables: BTreeMap<_, _> = copied.into_iter().collect();
        output.value(&json!({
            "from": from.to_string(),
            "to": to.to_string(),
            "rows": total,
            "tables": tables,
        }))?;
    } else {
        let rows = count(total, "row", "rows");
        output.line(format!("Copied {rows} from {from} to {to}"))?;
        let next = match to {
            CatalogPlace::Database(_) => "Start the server with CATALOG_URL set to that database",
            CatalogPlace::File(_) => {
                "Start the server without CATALOG_URL if the file is catalog.db in its data directory"
            }
        };
        output.line(next)?;
    }
    output.finish()?;
    Ok(Exit::Done)
}

fn place(text: &str) -> Result<CatalogPlace, ServerProblem> {
    // The text of the error does not contain the URL, which can have a password.
    CatalogPlace::parse(text).map_err(|error| ServerProblem::CatalogUrl(error.to_string()))
}
