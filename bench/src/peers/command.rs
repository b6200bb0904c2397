//! Running other programs.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::measure::timed;

/// A command that gets only `PATH` from this process's environment, so that a user's configuration
/// does not affect the figures.
pub(crate) fn clean_command(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Times a program from its start to its end. If it fails, the error contains its output.
pub(crate) fn time_to_run(command: &mut Command) -> Result<f64> {
    let (seconds, output) = timed(|| {
        let output = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output();
        output.with_context(|| format!("cannot run {command:?}"))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} failed ({}): {}", output.status, said.trim());
    }
    Ok(seconds)
}
