//! The caller's side of the protocol.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::errors::{Exit, LocalProblem, ServerProblem};
use crate::local::caller::Caller;
use crate::local::data_directory::DataDirectory;
use crate::server_socket::frame::{self, Kind, read, write};
use crate::server_socket::request::{Request, VERSION};

/// How long a server may take to accept a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Has the server that holds `store` run this process's command. Returns `None`
/// if no server holds it.
pub(crate) fn call(
    store: Result<PathBuf, LocalProblem>,
    caller: &Caller,
    reads_input: bool,
) -> anyhow::Result<Option<Exit>> {
    // The command itself reports a missing store.
    let Ok(store) = store else {
        return Ok(None);
    };
    let Some(data) = serving(&store) else {
        return Ok(None);
    };
    let request = Request {
        version: VERSION,
        args: args(&store),
        here: BASE64_STANDARD.encode(caller.here.as_os_str().as_bytes()),
        author: std::env::var("ELEVO_AUTHOR").unwrap_or_else(|_| caller.author.clone()),
        terminal: caller.sink.at_once,
        to_file: caller.sink.to_file,
        colour: caller.sink.colour,
        colour_errors: anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never,
    };
    let code = ask(&data.socket(), &request, reads_input)
        .map_err(|source| ServerProblem::Socket { store, source })?;
    Ok(Some(Exit::Of(code)))
}

/// Whether a server holds a store.
pub(crate) fn serves(store: &Path) -> bool {
    serving(store).is_some()
}

/// The data directory whose store this is, if a server runs with it.
fn serving(store: &Path) -> Option<DataDirectory> {
    let data = DataDirectory::new(Some(store.parent()?.into()));
    let is_its = data.store() == store && data.socket().exists();
    data.running().filter(|_| is_its).map(|_| data)
}

/// Encodes the arguments of this process. Adds `--store`, and `--workspaces` from
/// its environment variable, unless they are given.
fn args(store: &Path) -> Vec<String> {
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Finds the command: only options without a value may stand before it.
    let mut words = args.iter();
    let command = words.position(|word| !word.as_bytes().starts_with(b"-"));
    let after = command.map_or(args.len(), |at| at + 1);
    let is_ws = command.is_some_and(|at| args[at] == "ws");
    let root = std::env::var_os("ELEVO_WORKSPACES");
    if let Some(root) = root.filter(|_| is_ws && !gives(&args, "--workspaces")) {
        args.splice(after..after, ["--workspaces".into(), root]);
    }
    if !gives(&args, "--store") {
        args.splice(
            after..after,
            ["--store".into(), store.as_os_str().to_owned()],
        );
    }
    let encode = |arg: &OsString| BASE64_STANDARD.encode(arg.as_bytes());
    args.iter().map(encode).collect()
}

/// Whether the arguments contain an option.
fn gives(args: &[OsString], option: &str) -> bool {
    let options = args.iter().take_while(|arg| *arg != "--");
    let is_it = |arg: &OsString| {
        let rest = arg.as_bytes().strip_prefix(option.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"="))
    };
    options.into_iter().any(is_it)
}

fn ask(socket: &Path, request: &Request, reads_input: bool) -> io::Result<u8> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write(&mut stream, Kind::Request, &serde_json::to_vec(request)?)?;
    if reads_input {
        stream.set_write_timeout(None)?;
        let out = stream.try_clone()?;
        // Not joined: the thread may wait for input until the process ends.
        thread::spawn(move || send_input(out));
    }
    let mut input = io::BufReader::new(stream);
    loop {
        let (kind, payload) = read(&mut input)?;
        match kind {
            // The reader of our output has closed the pipe: not an error.
            Kind::Output => match print(&mut io::stdout().lock(), &payload) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
                printed => printed?,
            },
            Kind::Errors => print(&mut io::stderr().lock(), &payload)?,
            Kind::Exit => return payload.first().copied().ok_or_else(frame::strange),
            Kind::Request | Kind::Input => return Err(frame::strange()),
        }
    }
}

/// Sends standard input. On a failure it sends no final frame, so the server
/// knows that the input is incomplete.
fn send_input(mut out: UnixStream) {
    let mut send = || -> io::Result<()> {
        let mut input = io::stdin().lock();
        let mut buffer = vec![0; 256 << 10];
        loop {
            let length = input.read(&mut buffer)?;
            write(&mut out, Kind::Input, &buffer[..length])?;
            if length == 0 {
                return Ok(());
            }
        }
    };
    if send().is_err() {
        let _ = out.shutdown(Shutdown::Write);
    }
}

fn print(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_where_they_are_options() {
        let gives = |words: &[&str]| {
            let args: Vec<OsString> = words.iter().map(Into::into).collect();
            gives(&args, "--store")
        };
        assert!(gives(&["store", "--store", "x", "verify"]));
        assert!(gives(&["commit", "--store=x"]));
        assert!(!gives(&["commit", "--stores"]));
        assert!(!gives(&["ws", "diff", "id", "--", "--store"]));
    }
}
