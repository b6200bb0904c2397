//! The lines that a start of a server prints.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::local::data_directory::{DataDirectory, RunningServer};
use crate::output::{Output, STRONG};

/// A server that has started. `server start` reads it from the new process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Greeting {
    server: String,
    metrics: String,
    data: PathBuf,
    key_file: PathBuf,
    /// Whether the owner's key is new.
    key_created: bool,
    /// The log, unless the server logs to standard error.
    log: Option<PathBuf>,
    pid: u32,
    /// A template to create sandboxes from, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    template: Option<String>,
}

impl Greeting {
    pub(crate) fn new(
        data: &DataDirectory,
        running: &RunningServer,
        key_created: bool,
        log_stderr: bool,
        template: Option<String>,
    ) -> Self {
        Self {
            server: running.url(),
            metrics: format!("http://{}", running.metrics),
            data: data.path().into(),
            key_file: data.owner_key_path(),
            key_created,
            log: (!log_stderr).then(|| data.log()),
            pid: running.pid,
            template,
        }
    }

    /// Prints the address of the server and, with `hints`, commands to try.
    pub(crate) fn print(&self, json: bool, hints: bool) -> anyhow::Result<()> {
        let mut output = Output::new(json);
        if json {
            output.value(self)?;
            return Ok(output.finish()?);
        }
        let shown = output.styled(STRONG, &self.server);
        output.line([b"Elevo is at ", shown.as_slice()].concat())?;
        output.line(format!("Data in {}", self.data.display()))?;
        if let Some(log) = &self.log {
            output.line(format!("Log in {}", log.display()))?;
        }
        let key = self.key_file.display();
        if self.key_created {
            output.line(format!("The owner's key was written to {key}"))?;
        }
        if hints {
            self.print_hints(&mut output)?;
        }
        Ok(output.finish()?)
    }

    fn print_hints(&self, output: &mut Output) -> anyhow::Result<()> {
        let (key, url) = (self.key_file.display(), &self.server);
        output.line(
            "Commands of this user on this machine find both. For other clients, for example:",
        )?;
        output.line(format!(
            "  curl -H \"Authorization: Bearer $(cat {key})\" {url}/api/v1/sandboxes"
        ))?;
        output.line("")?;
        output.line("Try:")?;
        if self.data != DataDirectory::new(None).path() {
            output.line(format!("  export ELEVO_DATA={}", self.data.display()))?;
        }
        let (first, template) = match &self.template {
            Some(name) => (None, name.as_str()),
            None => (Some("elevo template create debian:12"), "debian:12"),
        };
        let create = format!("elevo sandbox create {template} --project site --name ada");
        let commands = [
            "elevo project create site",
            &create,
            "elevo exec ada -- 'echo hello > page.md'",
            "elevo ws merge ada -m \"a page\"",
            "elevo project log site",
        ];
        for command in first.into_iter().chain(commands) {
            output.line(format!("  {command}"))?;
        }
        output.line("")?;
        output.line("`elevo server status` shows the server, `elevo down` stops it.")?;
        Ok(())
    }
}
