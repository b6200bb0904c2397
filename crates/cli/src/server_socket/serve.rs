//! The server's side of the protocol.

use std::ffi::OsString;
use std::io::{self, Cursor, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fs, thread};

use parking_lot::Mutex;

use crate::errors::{Exit, FileProblem, Report};
use crate::local::caller::{Caller, HeldStore, Notes};
use crate::local::data_directory::DataDirectory;
use crate::output::Sink;
use crate::server_socket::frame::{self, Kind, LARGEST, read, write};
use crate::server_socket::request::{Request, VERSION};

/// Maximum number of concurrent calls.
const MOST: usize = 16;

/// How long a caller may take to send its request.
const ASKING: Duration = Duration::from_secs(5);

/// How long a caller may leave output unread, or send no input.
const READING: Duration = Duration::from_secs(3600);

/// Parses the arguments of a caller's command and runs it.
///
/// Passed in by the program, which has the command tree: the commands use this
/// module, so it cannot use them.
pub(crate) type Dispatch = fn(Vec<OsString>, Caller) -> Result<Exit, CommandFailure>;

/// The failure of a command that a server ran.
pub(crate) enum CommandFailure {
    /// The arguments are invalid.
    Usage(clap::Error),
    /// The command runs only in the caller's process.
    NotServed,
    /// The command failed; `json` is the form in which the caller wants errors.
    Failed { error: anyhow::Error, json: bool },
}

impl CommandFailure {
    /// Returns the text for the caller's standard error, and the exit code.
    fn render(self, colour: bool) -> (Vec<u8>, Exit) {
        match self {
            Self::Usage(error) => (error.render().to_string().into_bytes(), Exit::Usage),
            Self::NotServed => (Vec::new(), Exit::Usage),
            Self::Failed { error, json } => {
                let report = Report::new(&error);
                let mut text = Vec::new();
                // Writing to memory does not fail.
                let _ = match colour {
                    true => report.print_to(&mut text, json),
                    false => report.print_to(&mut anstream::StripStream::new(&mut text), json),
                };
                (text, report.exit)
            }
        }
    }
}

/// A listening socket; removed when dropped.
#[derive(Debug)]
pub(crate) struct SocketServer {
    socket: PathBuf,
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

impl SocketServer {
    pub(crate) fn open(
        data: &DataDirectory,
        held: HeldStore,
        dispatch: Dispatch,
    ) -> Result<Self, FileProblem> {
        let socket = data.socket();
        let failed = |source| FileProblem::Io {
            action: "listen on",
            path: socket.clone(),
            source,
        };
        // A server that was killed leaves its socket behind.
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).map_err(failed)?;
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&socket, mode).map_err(failed)?;
        let held = Arc::new(held);
        thread::spawn(move || accept(&listener, &held, dispatch));
        Ok(Self { socket })
    }
}

/// Accepts calls until the process ends.
fn accept(listener: &UnixListener, held: &Arc<HeldStore>, dispatch: Dispatch) {
    let calls = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // Out of file descriptors, most likely.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        if !is_same_user(&stream) {
            continue;
        }
        let (held, calls) = (held.clone(), calls.clone());
        if calls.fetch_add(1, Ordering::AcqRel) >= MOST {
            calls.fetch_sub(1, Ordering::AcqRel);
            let _ = refuse(stream);
            continue;
        }
        thread::spawn(move || {
            if let Err(error) = answer(stream, held, dispatch) {
                tracing::warn!(%error, "cannot complete a command that `elevo` sent");
            }
            calls.fetch_sub(1, Ordering::AcqRel);
        });
    }
}

fn is_same_user(stream: &UnixStream) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(stream);
    peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

fn refuse(mut stream: UnixStream) -> io::Result<()> {
    stream.set_write_timeout(Some(ASKING))?;
    let text = format!("error: the server is already running {MOST} commands; retry later\n");
    write(&mut stream, Kind::Errors, text.as_bytes())?;
    write(&mut stream, Kind::Exit, &[Exit::Busy.code()])
}

/// Runs one call.
fn answer(mut stream: UnixStream, held: Arc<HeldStore>, dispatch: Dispatch) -> io::Result<()> {
    stream.set_read_timeout(Some(ASKING))?;
    stream.set_write_timeout(Some(READING))?;
    let (kind, payload) = read(&mut stream)?;
    let request: Request = serde_json::from_slice(&payload)?;
    if kind != Kind::Request || request.version != VERSION {
        return Err(frame::strange());
    }
    stream.set_read_timeout(Some(READING))?;
    let input = FrameInput {
        stream: stream.try_clone()?,
        payload: Cursor::default(),
        is_at_end: false,
    };
    let frames = Frames(Arc::new(Mutex::new(stream)));
    // In its own thread, so that a panic ends this call and not the server.
    let ran = thread::spawn({
        let frames = frames.clone();
        move || {
            let call = Call {
                request,
                input,
                frames,
            };
            call.run(held, dispatch)
        }
    });
    let code = ran.join().unwrap_or(Exit::Failed.code());
    frames.send(Kind::Exit, &[code])
}

/// One command of a caller.
struct Call {
    request: Request,
    input: FrameInput,
    frames: Frames,
}

impl Call {
    /// Runs the command. Returns its exit code.
    fn run(self, held: Arc<HeldStore>, dispatch: Dispatch) -> u8 {
        let (request, frames) = (self.request, self.frames);
        let (Some(args), Some(here)) = (request.args(), request.here()) else {
            return Exit::Usage.code();
        };
        let caller = Caller {
            here,
            author: request.author.clone(),
            input: Box::new(self.input),
            sink: Sink {
                out: Box::new(frames.stream(Kind::Output)),
                colour: request.colour,
                at_once: request.terminal,
                to_file: request.to_file,
            },
            notes: Notes::Elsewhere {
                out: Mutex::new(Box::new(frames.stream(Kind::Errors))),
                colour: request.colour_errors,
            },
            held: Some(held),
        };
        let failure = match dispatch(args, caller) {
            Ok(exit) => return exit.code(),
            Err(failure) => failure,
        };
        let (text, exit) = failure.render(request.colour_errors);
        let _ = frames.stream(Kind::Errors).write_all(&text);
        exit.code()
    }
}

/// The connection, shared by output and notes.
#[derive(Clone)]
struct Frames(Arc<Mutex<UnixStream>>);

impl Frames {
    fn send(&self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        let mut stream = self.0.lock();
        write(&mut *stream, kind, payload)
    }

    fn stream(&self, kind: Kind) -> FrameStream {
        FrameStream {
            frames: self.clone(),
            kind,
        }
    }
}

/// A writer that sends frames of one kind.
struct FrameStream {
    frames: Frames,
    kind: Kind,
}

impl Write for FrameStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(LARGEST);
        self.frames.send(self.kind, &bytes[..length])?;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The caller's standard input.
struct FrameInput {
    stream: UnixStream,
    payload: Cursor<Vec<u8>>,
    is_at_end: bool,
}

impl Read for FrameInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.payload.read(into)?;
            if length > 0 || self.is_at_end || into.is_empty() {
                return Ok(length);
            }
            let (kind, payload) = read(&mut self.stream)?;
            if kind != Kind::Input {
                return Err(frame::strange());
            }
            self.is_at_end = payload.is_empty();
            self.payload = Cursor::new(payload);
        }
    }
}
