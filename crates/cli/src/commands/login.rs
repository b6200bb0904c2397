//! `elevo login`: stores a server and a key for later commands.

use std::path::{Path, PathBuf};

use clap::Args;
use elevo_core::ErrorCode;
use serde_json::{Value, json};

use crate::client::Client;
use crate::client::contexts::{self, Context};
use crate::client::trust::Trust;
use crate::errors::{ContextProblem, Exit, FileProblem};
use crate::input::{file, secret};
use crate::output::Output;
use crate::output::notes::print_note;

/// Maximum bytes of a file with certificate authorities.
const LARGEST_CA: u64 = 1 << 20;

/// Log in to a server, and use it for later commands.
#[derive(Debug, Args)]
#[command(after_help = "\
Asks for the key without showing it, or reads it from standard input or the file
of --key-file. Checks the key with a request to the server. Stores the address,
the key and the certificate authorities of --ca in the user's configuration
directory ($XDG_CONFIG_HOME/elevo or ~/.config/elevo), which other users cannot
read, and makes this context the current one.

Examples:
  elevo login https://elevo.example.com
  elevo login https://elevo.example.com --name prod --ca ca.pem
  elevo login http://127.0.0.1:8080 < key")]
pub(crate) struct Login {
    /// Address of the server
    url: String,

    /// Name of the context; by default the host and port of the address
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// File with the key; `-` is standard input
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// PEM file of certificate authorities to trust in addition to the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Print JSON, errors included
    #[arg(long)]
    pub(crate) json: bool,

    /// Show no notes
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: &Login) -> anyhow::Result<Exit> {
    let server = args.url.trim_end_matches('/').to_owned();
    let ca = match &args.ca {
        Some(path) => Some(file::read_text(path, LARGEST_CA)?),
        None => None,
    };
    let trust = args.ca.clone().map_or(Trust::System, Trust::With);
    // Reports an invalid address before it asks for the key.
    let anonymous = Client::new(&server, None, None, &trust)?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => anonymous.authority(),
    };
    contexts::check_name(&name)?;
    let key = read_key(args.key_file.as_deref(), &server)?;
    check(&Client::new(&server, Some(&key), None, &trust)?)?;
    if !args.quiet && !args.json && anonymous.is_exposed() {
        print_note("the address has no TLS: anyone on the network path can read the key");
    }
    let context = Context { server, key, ca };
    let url = context.server.clone();
    contexts::change(|all| {
        all.contexts.insert(name.clone(), context);
        all.current = Some(name.clone());
        Ok(())
    })?;
    let mut output = Output::new(args.json);
    match args.json {
        true => output.value(&json!({ "context": name, "server": url }))?,
        false => output.line(format!("Logged in to {url} as the context `{name}`"))?,
    }
    output.finish()?;
    Ok(Exit::Done)
}

fn read_key(path: Option<&Path>, server: &str) -> anyhow::Result<String> {
    const LARGEST: u64 = 16 << 10;
    let key = match path {
        Some(path) => file::read_text(path, LARGEST)?.trim().to_owned(),
        None => {
            let question = format!("Key for {server}");
            secret::read(&question).map_err(|source| FileProblem::Io {
                action: "read the key from",
                path: "the terminal".into(),
                source,
            })?
        }
    };
    match key.is_empty() {
        true => Err(ContextProblem::NoKey.into()),
        false => Ok(key),
    }
}

/// Checks that the server accepts the key. A key without the scope of the request
/// is valid too.
fn check(client: &Client) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let checked = runtime.block_on(client.get::<Value>(&["api", "v1", "templates"]));
    match checked {
        Ok(_) => Ok(()),
        Err(error) => match error.code() {
            Some(ErrorCode::Forbidden) => Ok(()),
            Some(ErrorCode::Unauthorized) => Err(ContextProblem::KeyRejected {
                url: client.url().to_owned(),
            }
            .into()),
            _ => Err(error.into()),
        },
    }
}
