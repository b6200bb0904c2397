//! A connection through the proxy: two pumps, one for each direction.
//!
//! ```text
//! source ── read ── on its way (16 KiB, or 4 MiB with a delay) ── faults ── write ── destination
//! ```

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::Upstream;
use super::clock::sleep_until;
use super::conversation::{Conversation, Event, Protocol};
use super::faults::{Direction, Fault};
use super::state::{Line, State};

/// Maximum size of a piece.
const PIECE: usize = 16 * 1024;
/// Maximum number of pieces on their way in a direction that has a delay.
/// Without one, a piece takes the whole line.
const LINE: u32 = 256;

type Source = Pin<Box<dyn AsyncRead + Send>>;
type Destination = Pin<Box<dyn AsyncWrite + Send>>;

/// Bytes on their way.
struct Piece<'a> {
    due: Instant,
    bytes: BytesMut,
    _place: SemaphorePermit<'a>,
}

pub(super) struct Connection {
    state: Arc<State>,
    /// The faults that the plan has for this connection.
    faults: Vec<Fault>,
    /// How often the proxy was healed before this connection.
    heals: u64,
    progress: Mutex<Progress>,
}

struct Progress {
    conversation: Conversation,
    /// Number of answers that were read.
    answers: u64,
    /// Number of bytes that were forwarded.
    up: u64,
    down: u64,
}

impl Connection {
    pub(super) fn new(state: Arc<State>, protocol: Protocol, faults: Vec<Fault>) -> Self {
        Self {
            heals: state.line().borrow().heals,
            state,
            faults,
            progress: Mutex::new(Progress {
                conversation: Conversation::new(protocol),
                answers: 0,
                up: 0,
                down: 0,
            }),
        }
    }

    /// Connects the client with the upstream until either closes the
    /// connection or a fault does.
    pub(super) async fn run(self, client: TcpStream, upstream: Upstream) -> io::Result<()> {
        self.works(&mut self.state.line()).await;
        client.set_nodelay(true)?;
        let (from_server, to_server): (Source, Destination) = match upstream {
            Upstream::Tcp(address) => {
                let Ok(server) = TcpStream::connect(address).await else {
                    return client.set_zero_linger();
                };
                server.set_nodelay(true)?;
                let (read, write) = server.into_split();
                (Box::pin(read), Box::pin(write))
            }
            Upstream::Unix(path) => {
                let Ok(server) = UnixStream::connect(path).await else {
                    return client.set_zero_linger();
                };
                let (read, write) = server.into_split();
                (Box::pin(read), Box::pin(write))
            }
        };
        self.state.connected();
        let (from_client, to_client) = client.into_split();
        tokio::try_join!(
            self.pump(Direction::Up, Box::pin(from_client), to_server),
            self.pump(Direction::Down, from_server, Box::pin(to_client)),
        )?;
        Ok(())
    }

    async fn pump(&self, direction: Direction, from: Source, to: Destination) -> io::Result<()> {
        let line = Semaphore::new(LINE as usize);
        let (send, receive) = mpsc::unbounded_channel();
        tokio::try_join!(
            self.read(direction, from, &line, send),
            self.write(direction, receive, to),
        )?;
        Ok(())
    }

    async fn read<'a>(
        &self,
        direction: Direction,
        mut from: Source,
        line: &'a Semaphore,
        send: UnboundedSender<Piece<'a>>,
    ) -> io::Result<()> {
        let mut faults = self.state.line();
        let mut buffer = BytesMut::with_capacity(PIECE);
        loop {
            self.works(&mut faults).await;
            let places = match self.delay(direction).is_zero() {
                true => LINE,
                false => 1,
            };
            let place = line.acquire_many(places).await.map_err(io::Error::other)?;
            buffer.reserve(PIECE);
            let mut piece = (&mut buffer).limit(PIECE);
            let read = tokio::select! {
                biased;
                () = self.hangs(&mut faults) => continue,
                read = from.read_buf(&mut piece) => read?,
            };
            if read == 0 {
                return Ok(());
            }
            // The writer ends only together with this reader.
            let _ = send.send(Piece {
                due: Instant::now() + self.delay(direction),
                bytes: buffer.split(),
                _place: place,
            });
        }
    }

    async fn write(
        &self,
        direction: Direction,
        mut receive: UnboundedReceiver<Piece<'_>>,
        mut to: Destination,
    ) -> io::Result<()> {
        let mut faults = self.state.line();
        while let Some(mut piece) = receive.recv().await {
            sleep_until(piece.due).await;
            self.works(&mut faults).await;
            let cut = self.pass(direction, &mut piece.bytes);
            let forwarded = cut.unwrap_or(piece.bytes.len());
            to.write_all(&piece.bytes[..forwarded]).await?;
            if cut.is_some() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        to.shutdown().await
    }

    /// Counts the events in a piece and applies the faults to it. Returns the
    /// number of bytes to forward, if the connection is then cut.
    fn pass(&self, direction: Direction, bytes: &mut [u8]) -> Option<usize> {
        let mut progress = self.progress.lock().expect("no pump has panicked");
        let mut cut = self.read_events(&mut progress, direction, bytes);
        let place = match direction {
            Direction::Up => &mut progress.up,
            Direction::Down => &mut progress.down,
        };
        for fault in &self.faults {
            let end = cut.unwrap_or(bytes.len());
            cut = fault.cut(direction, *place, end).or(cut);
        }
        let end = cut.unwrap_or(bytes.len());
        cut = self.state.bytes(direction, &mut bytes[..end]).or(cut);
        let forwarded = &mut bytes[..cut.unwrap_or(end)];
        for fault in &self.faults {
            fault.flip(direction, *place, forwarded);
        }
        *place += forwarded.len() as u64;
        cut
    }

    /// Returns the index of the byte before which the connection is cut.
    fn read_events(
        &self,
        progress: &mut Progress,
        direction: Direction,
        bytes: &[u8],
    ) -> Option<usize> {
        for (at, event) in progress.conversation.read(direction, bytes) {
            self.state.count(event);
            if event == Event::Answer {
                progress.answers += 1;
                let nth = progress.answers;
                let is_planned = self.faults.contains(&Fault::CutAtTrip { nth });
                // Both count this answer.
                if self.state.answers() | is_planned {
                    return Some(at);
                }
            }
        }
        None
    }

    fn delay(&self, direction: Direction) -> Duration {
        let line = *self.state.line().borrow();
        let of = |up, down| match direction {
            Direction::Up => up,
            Direction::Down => down,
        };
        let planned = self.faults.iter().map(|fault| match fault {
            Fault::Delay { up, down } => of(*up, *down),
            _ => Duration::ZERO,
        });
        of(line.up, line.down) + planned.sum::<Duration>()
    }

    /// Waits until the connection does not hang.
    async fn works(&self, line: &mut watch::Receiver<Line>) {
        self.wait(line, false).await;
    }

    /// Waits until the connection hangs.
    async fn hangs(&self, line: &mut watch::Receiver<Line>) {
        self.wait(line, true).await;
    }

    async fn wait(&self, line: &mut watch::Receiver<Line>, hangs: bool) {
        let planned = self.faults.contains(&Fault::Hang);
        let is_reached = |line: &Line| {
            let now = line.hangs || (planned && line.heals == self.heals);
            now == hangs
        };
        // The sender is in the state, which this connection keeps.
        let _ = line.wait_for(is_reached).await;
    }
}
