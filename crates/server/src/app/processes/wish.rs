//! Checks a request to run a command.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use elevo_agent_link::Command;
use elevo_api as api;
use elevo_core::ErrorCode;

use crate::app::sandboxes::spec;
use crate::failure::{Failure, Result};

/// Maximum of `maxOutputSize`.
const MAX_OUTPUT: u64 = 64 << 20;
/// Maximum of `timeout`, in milliseconds.
const DAY: u32 = 86_400_000;
/// Maximum bytes of `command`, and of all `args` together.
const MAX_COMMAND: usize = 128 << 10;
/// Maximum number of `args`.
const MAX_ARGS: usize = 4096;
/// Maximum length of `commandId`.
const MAX_ID: usize = 64;

/// Returns the command that a request describes. `timeout` is the default for
/// commands that do not run in the background.
pub(super) fn command(wish: &api::RunCommand, id: String, timeout: Duration) -> Result<Command> {
    if let Some(id) = &wish.command_id {
        check_id(id)?;
    }
    check_command(wish)?;
    if wish.background && wish.stream {
        let message =
            "`background` and `stream` cannot be combined; use `background`, then attach to it";
        return Err(Failure::invalid(message));
    }
    if wish.max_output_size.is_some_and(|size| size > MAX_OUTPUT) {
        let message =
            format!("`maxOutputSize` must be at most {MAX_OUTPUT} bytes; use `stream` for more");
        return Err(Failure::new(ErrorCode::ResourceRefused, message));
    }
    if wish.timeout.is_some_and(|timeout| timeout > DAY) {
        let message = format!("`timeout` must be at most {DAY} milliseconds, or 0 for no timeout");
        return Err(Failure::new(ErrorCode::ResourceRefused, message));
    }
    check_cwd(wish.cwd.as_deref())?;
    spec::check_envs(&wish.envs)?;
    let default = match wish.background {
        true => 0,
        false => timeout.as_millis() as u32,
    };
    let timeout = wish.timeout.unwrap_or(default);
    Ok(Command {
        id,
        command: wish.command.clone().unwrap_or_default(),
        args: wish.args.clone(),
        cwd: wish.cwd.clone(),
        envs: wish.envs.clone(),
        timeout: (timeout > 0).then(|| Duration::from_millis(timeout.into())),
        background: wish.background,
        stdin: stdin(wish)?,
        open_stdin: wish.open_stdin,
        read: !wish.background,
    })
}

fn check_id(id: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match (1..=MAX_ID).contains(&id.len()) && id.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(Failure::invalid(
            "`commandId` must have 1 to 64 letters, digits, `.`, `_` or `-`",
        )),
    }
}

fn check_command(wish: &api::RunCommand) -> Result<()> {
    let Some(command) = &wish.command else {
        let bytes: usize = wish.args.iter().map(String::len).sum();
        let has_nul = wish.args.iter().any(|arg| arg.contains('\0'));
        return match wish.args.first() {
            None => Err(Failure::invalid(
                "the request needs `command`, or `args` with a program",
            )),
            Some(program) if program.is_empty() => {
                Err(Failure::invalid("the first of `args` names no program"))
            }
            Some(_) if bytes > MAX_COMMAND || has_nul || wish.args.len() > MAX_ARGS => {
                let message =
                    "`args` must have at most 4096 items and 131072 bytes, none of them NUL";
                Err(Failure::invalid(message))
            }
            Some(_) => Ok(()),
        };
    };
    if !wish.args.is_empty() {
        let message = "`command` and `args` cannot be combined";
        return Err(Failure::invalid(message));
    }
    if command.is_empty() || command.len() > MAX_COMMAND || command.contains('\0') {
        let message = "`command` must have 1 to 131072 bytes, none of them NUL";
        return Err(Failure::invalid(message));
    }
    Ok(())
}

fn stdin(wish: &api::RunCommand) -> Result<Bytes> {
    let bytes = match (&wish.stdin, &wish.stdin_base64) {
        (Some(_), Some(_)) => {
            let message = "`stdin` and `stdinBase64` cannot be combined";
            return Err(Failure::invalid(message));
        }
        (Some(text), None) => text.clone().into_bytes(),
        (None, Some(text)) => {
            let bytes = STANDARD.decode(text);
            bytes.map_err(|_| Failure::invalid("`stdinBase64` is not valid base64"))?
        }
        (None, None) => Vec::new(),
    };
    if bytes.len() > 1 << 20 {
        let message =
            "the standard input has more than 1 MiB; use `openStdin` and send it in parts";
        return Err(Failure::invalid(message));
    }
    Ok(bytes.into())
}

pub(crate) fn check_cwd(cwd: Option<&str>) -> Result<()> {
    match cwd {
        Some(cwd) if !cwd.starts_with('/') || cwd.contains('\0') || cwd.len() > 4096 => Err(
            Failure::invalid("`cwd` must be an absolute path of at most 4096 bytes"),
        ),
        _ => Ok(()),
    }
}
