//! `elevo doctor`: checks what this machine supports.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use elevo_workspace::{ProbeResult, ProviderKind, default_of, probe};
use serde_json::json;

use crate::client::health;
use crate::errors::{DirectoryProblem, Exit, FileProblem};
use crate::output::check::check_row;
use crate::output::format::path_text;
use crate::output::{Output, STRONG};

/// Check what works on this machine: workspaces, container engine, server, database.
#[derive(Debug, Args)]
#[command(after_help = "\
The check creates a workspace of each kind in the directory and deletes it
again. It uses the container engine of DOCKER_HOST. If CATALOG_URL or STORE_URL is
set, it examines that database: its version, its standby and its settings; and the
bucket of S3_BUCKET, in which it writes, reads and deletes a file. A failed check is
an error (exit code 1) only if --require names it.

Examples:
  elevo doctor                 for the current directory
  elevo doctor /data           for another disk
  elevo doctor --json | jq -r .provider
  CATALOG_URL=postgres://elevo@db1,db2/elevo elevo doctor --require catalog
  elevo doctor --require engine --require server && elevo sandbox create")]
pub(crate) struct Doctor {
    /// Directory for workspaces; by default the current directory
    #[arg(default_value = ".", hide_default_value = true)]
    directory: PathBuf,

    /// Fail unless this works: catalog, engine, internet, server, store, or a
    /// provider; can be repeated
    #[arg(long, value_name = "CHECK", value_parser = check_name())]
    require: Vec<String>,

    /// Data directory of the server [env: ELEVO_DATA]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Print JSON, errors included
    #[arg(long)]
    pub(crate) json: bool,

    /// Print nothing; the exit code is the result of --require
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: &Doctor) -> anyhow::Result<Exit> {
    let given = &args.directory;
    let directory = match given.canonicalize() {
        Ok(found) if found.is_dir() => found,
        Ok(other) => return Err(DirectoryProblem::NotADirectory(other).into()),
        Err(_) => return Err(DirectoryProblem::NotADirectory(given.clone()).into()),
    };
    let findings = probe(&directory).map_err(|source| FileProblem::Io {
        action: "write to",
        path: directory.clone(),
        source,
    })?;
    let found = health::look(args.data.clone())?;
    let mut output = Output::new(args.json);
    let chosen = default_of(&findings);
    if args.json {
        let providers: Vec<_> = findings.iter().map(shape).collect();
        output.value(&json!({
            "directory": directory.to_string_lossy(),
            "provider": chosen.name(),
            "providers": providers,
            "engine": found.engine_shape(),
            "server": found.server_shape(),
            "catalog": found.catalog_shape(),
            "store": found.store_shape(),
        }))?;
    } else if !args.quiet {
        let shown = path_text(directory.as_os_str().as_encoded_bytes());
        output.line(format!("Workspaces in {shown}"))?;
        for finding in &findings {
            let line = line(&output, finding);
            output.line(line)?;
        }
        let name = output.styled(STRONG, chosen.name());
        output.line([b"New workspaces use ", name.as_slice(), b"."].concat())?;
        found.print(&mut output)?;
    }
    output.finish()?;
    let works = |name: &String| match found.works(name) {
        Some(works) => works,
        None => findings
            .iter()
            .any(|it| it.provider.name() == name && it.obstacle.is_none()),
    };
    Ok(match args.require.iter().all(works) {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

/// Accepts the names of checks.
fn check_name() -> PossibleValuesParser {
    let providers = ProviderKind::ALL.map(ProviderKind::name);
    PossibleValuesParser::new(health::CHECKS.into_iter().chain(providers))
}

fn shape(finding: &ProbeResult) -> serde_json::Value {
    json!({
        "provider": finding.provider.name(),
        "usable": finding.obstacle.is_none(),
        "obstacle": finding.obstacle,
        "cost": finding.cost(),
    })
}

fn line(output: &Output, finding: &ProbeResult) -> Vec<u8> {
    let name = finding.provider.name();
    match &finding.obstacle {
        None => check_row(output, name, true, finding.cost()),
        Some(obstacle) => check_row(output, name, false, obstacle),
    }
}
