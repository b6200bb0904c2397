//! Reads the agent's settings from the environment.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::log::Level;

const SERVER: &str = "WORKSPACE_SERVER";
const ID: &str = "SANDBOX_ID";
const TOKEN: &str = "SANDBOX_TOKEN";
const LOG_LEVEL: &str = "AGENT_LOG_LEVEL";

/// Set if the token is on standard input.
const GIVEN: &str = "SANDBOX_TOKEN_ON_STDIN";

/// Variables that are not passed on to commands.
const OURS: [&str; 4] = [SERVER, TOKEN, GIVEN, LOG_LEVEL];

/// Maximum bytes of a token.
const MAX_TOKEN: u64 = 4096;

/// The address of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    Ip(SocketAddr),
    /// A host and a port. The host is resolved for each connection.
    Named(String),
}

impl Address {
    fn parse(text: &str) -> anyhow::Result<Self> {
        if let Some(path) = text.strip_prefix("unix://") {
            return match path.starts_with('/') {
                true => Ok(Self::Unix(path.into())),
                false => bail!("{SERVER} is not the absolute path of a socket: `{text}`"),
            };
        }
        let text = text.strip_prefix("http://").unwrap_or(text);
        let text = text.trim_end_matches('/');
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Self::Named(text.to_owned()))
            }
            _ => bail!("{SERVER} is neither unix:///path nor host:port: `{text}`"),
        }
    }
}

pub(crate) struct Settings {
    pub(crate) server: Address,
    pub(crate) sandbox: String,
    pub(crate) token: String,
    pub(crate) log_level: Level,
    /// The environment variables of commands and terminals.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

/// If the token is in the environment, executes this program again with the
/// token on standard input: `/proc` shows the initial environment of a process
/// as long as the process lives, and gVisor shows it to every process of the
/// same user.
pub(crate) fn hide_token() -> anyhow::Result<()> {
    let Ok(token) = std::env::var(TOKEN) else {
        return Ok(());
    };
    if token.len() as u64 > MAX_TOKEN {
        bail!("{TOKEN} is longer than {MAX_TOKEN} bytes");
    }
    let (reader, mut writer) = std::io::pipe().context("cannot create a pipe")?;
    // Does not block: the token fits into the buffer of the pipe, although
    // nothing reads it yet.
    writer.write_all(token.as_bytes())?;
    let error = Command::new("/proc/self/exe")
        .arg0(env!("CARGO_BIN_NAME"))
        .env_remove(TOKEN)
        .env(GIVEN, "1")
        .stdin(Stdio::from(reader))
        .exec();
    Err(error).context("cannot re-execute the agent without the token in its environment")
}

fn token() -> anyhow::Result<String> {
    if std::env::var_os(GIVEN).is_none() {
        bail!("{TOKEN} is not set");
    }
    let mut token = String::new();
    std::io::stdin()
        .take(MAX_TOKEN)
        .read_to_string(&mut token)
        .context("cannot read the token")?;
    Ok(token)
}

impl Settings {
    pub(crate) fn from_env() -> anyhow::Result<Self> {
        let needed = |name| std::env::var(name).with_context(|| format!("{name} is not set"));
        let level = std::env::var(LOG_LEVEL).unwrap_or_default();
        let theirs = |name: &OsString| !OURS.iter().any(|ours| name == ours);
        Ok(Self {
            server: Address::parse(&needed(SERVER)?)?,
            sandbox: needed(ID)?,
            token: token()?,
            log_level: Level::from_name(&level),
            environment: std::env::vars_os()
                .filter(|(name, _)| theirs(name))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_socket_or_a_host_with_a_port() {
        let parse = |text| Address::parse(text).ok();
        let path = PathBuf::from("/run/elevo/agent.sock");
        assert_eq!(
            parse("unix:///run/elevo/agent.sock"),
            Some(Address::Unix(path))
        );
        assert_eq!(
            parse("127.0.0.1:50051"),
            Some(Address::Ip(([127, 0, 0, 1], 50051).into()))
        );
        assert_eq!(
            parse("http://server:50051/"),
            Some(Address::Named("server:50051".to_owned()))
        );
        for wrong in ["unix://relative", "server", ":1", "server:port", ""] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
