//! Starts a server in a new process that outlives this one, and waits until it
//! is ready.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use elevo_api as api;
use elevo_server::Config;

use crate::client::Client;
use crate::client::paths::TEMPLATES;
use crate::errors::{Exit, FileProblem, ProcessProblem};
use crate::local::data_directory::{DataDirectory, RunningServer};
use crate::options::server_settings::ServerSettings;
use crate::output::progress::{self, Watch};
use crate::output::server_greeting::Greeting;
use crate::server_socket;

/// Maximum bytes of a greeting.
const LARGEST: u64 = 64 << 10;

/// Options of a start.
#[derive(Debug)]
pub(crate) struct StartOptions<'a> {
    pub(crate) settings: &'a ServerSettings,
    /// The data directory that the option names.
    pub(crate) data: Option<&'a Path>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// Print commands to try.
    pub(crate) hints: bool,
}

/// Starts the server and prints its address. The new process prints its own
/// errors, and its exit code becomes that of this one.
pub(crate) fn start(options: &StartOptions<'_>) -> anyhow::Result<Exit> {
    // Invalid settings are reported before a process exists.
    let config = options.settings.read(options.data)?;
    let mut child = spawn(options, &config).map_err(|source| FileProblem::Io {
        action: "start",
        path: "elevo".into(),
        source,
    })?;
    let watch = Watch {
        doing: "starting the server",
        things: "",
        total: None,
        counts: || (0, 0),
    };
    let greeting = progress::watch(options.quiet || options.json, watch, || {
        greeting(&mut child)
    });
    if let Some(greeting) = greeting {
        greeting.print(options.json, options.hints)?;
        return Ok(Exit::Done);
    }
    let status = child.wait()?;
    let log = DataDirectory::new(Some(config.data_dir)).log();
    match (status.code(), status.signal()) {
        (Some(0), _) => Err(ProcessProblem::StoppedEarly.into()),
        (Some(code), _) => Ok(Exit::of_command(code)),
        (None, signal) => Err(ProcessProblem::Died { signal, log }.into()),
    }
}

/// Returns the name of a template of a server that runs, if the server tells.
pub(crate) fn template_of(
    data: &DataDirectory,
    running: &RunningServer,
) -> anyhow::Result<Option<String>> {
    let client = Client::local(running, data.owner_key().as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let page = runtime.block_on(client.get::<api::TemplatePage>(&TEMPLATES));
    let templates = page.map(|page| page.items).unwrap_or_default();
    Ok(templates.into_iter().next().map(|template| template.name))
}

fn spawn(options: &StartOptions<'_>, config: &Config) -> std::io::Result<Child> {
    let data: &PathBuf = &config.data_dir;
    let mut words: Vec<OsString> = ["server", "run", "--detached", "--data"]
        .map(Into::into)
        .into();
    words.push(data.into());
    words.extend(options.settings.words());
    if options.json {
        words.push("--json".into());
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).stdin(Stdio::null());
    for name in server_socket::VARIABLES {
        command.env_remove(name);
    }
    command.stdout(Stdio::piped()).spawn()
}

/// Reads the greeting of the new server. Returns `None` if the server ended
/// before its greeting.
fn greeting(child: &mut Child) -> Option<Greeting> {
    let stdout = child.stdout.take()?;
    let mut line = String::new();
    let mut reader = BufReader::new(stdout.take(LARGEST));
    reader.read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}
