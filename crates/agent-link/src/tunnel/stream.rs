//! The server's end of a tunnel.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use elevo_agent_proto::v1::TunnelPiece;
use elevo_agent_proto::v1::tunnel_piece::Content;
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Streaming;

use super::Arrived;
use super::pipe::PipeWriter;

/// A connection to a port in a sandbox. Shutting it down ends the direction to
/// the port. Dropping it before both directions have ended resets the
/// connection to the port.
pub struct TunnelStream {
    inbound: Streaming<TunnelPiece>,
    /// The unread part of the last piece.
    unread: Bytes,
    end: End,
    outbound: PipeWriter,
}

/// How the direction from the port has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Complete,
    CutOff,
}

impl TunnelStream {
    pub(super) fn new(arrived: Arrived, place: OwnedSemaphorePermit) -> Self {
        arrived.outbound.keep(place);
        Self {
            inbound: arrived.inbound,
            unread: Bytes::new(),
            end: End::Open,
            outbound: arrived.outbound,
        }
    }

    /// Returns the next data. It is empty at the end of the direction.
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<io::Result<&mut Bytes>> {
        while self.unread.is_empty() && self.end == End::Open {
            let piece = ready!(Pin::new(&mut self.inbound).poll_next(context));
            let content = piece.and_then(Result::ok).and_then(|piece| piece.content);
            match content {
                // An empty piece would allow the agent to keep this loop busy.
                Some(Content::Data(data)) if !data.is_empty() => self.unread = data,
                Some(Content::End(_)) => self.end = End::Complete,
                _ => self.end = End::CutOff,
            }
        }
        match self.unread.is_empty() && self.end == End::CutOff {
            true => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            false => Poll::Ready(Ok(&mut self.unread)),
        }
    }
}

impl TunnelStream {
    /// Returns the next data without a copy; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the direction was cut off.
    pub async fn next_data(&mut self) -> io::Result<Option<Bytes>> {
        std::future::poll_fn(|context| {
            let data = std::mem::take(ready!(self.poll_data(context))?);
            Poll::Ready(Ok((!data.is_empty()).then_some(data)))
        })
        .await
    }

    /// Returns the next piece, of an operation on files. Anything that the
    /// protocol does not allow is `None`.
    pub(super) async fn next_piece(&mut self) -> Option<Content> {
        let piece = self.inbound.message().await.ok()??;
        piece.content
    }

    /// Sends a piece before all data.
    pub(super) fn send_first(&self, piece: TunnelPiece) {
        self.outbound.send_first(piece);
    }
}

impl AsyncRead for TunnelStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let data = ready!(self.poll_data(context))?;
        let count = data.len().min(buffer.remaining());
        buffer.put_slice(&data[..count]);
        data.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.outbound.poll_write(context, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.outbound.poll_write(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Written data needs no flush: the connection sends it as soon as the
    /// agent has space.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outbound.end();
        Poll::Ready(Ok(()))
    }
}

impl std::fmt::Debug for TunnelStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TunnelStream").finish_non_exhaustive()
    }
}
