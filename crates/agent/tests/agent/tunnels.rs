use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use elevo_agent_link::{LinkError, TunnelStream};
use elevo_agent_proto::{MAX_PIECE, MAX_TUNNELS, STREAM_WINDOW};
use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::support::{Pair, SANDBOX, finish, until, within};

/// A port, the tunnel to it, and the connection that the tunnel made.
struct Tunnel {
    stream: TunnelStream,
    socket: TcpStream,
    _listener: TcpListener,
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

async fn tunnel(pair: &Pair) -> Tunnel {
    let (listener, port) = listen().await;
    let stream = within(pair.link.open_port(port)).await.unwrap();
    let (socket, _) = within(listener.accept()).await.unwrap();
    Tunnel {
        stream,
        socket,
        _listener: listener,
    }
}

/// Bytes that differ from place to place.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 31 / 7) as u8).collect()
}

#[tokio::test]
async fn a_tunnel_carries_data_and_ends_in_both_directions() {
    let pair = Pair::start().await;
    let mut tunnel = tunnel(&pair).await;
    tunnel.stream.write_all(b"a question").await.unwrap();
    tunnel.stream.shutdown().await.unwrap();
    let mut question = String::new();
    within(tunnel.socket.read_to_string(&mut question))
        .await
        .unwrap();
    assert_eq!(question, "a question");
    // The other direction is still open.
    tunnel.socket.write_all(b"an answer").await.unwrap();
    drop(tunnel.socket);
    let mut answer = String::new();
    within(tunnel.stream.read_to_string(&mut answer))
        .await
        .unwrap();
    assert_eq!(answer, "an answer");
}

#[tokio::test]
async fn a_tunnel_carries_much_data_in_both_directions_at_once() {
    let pair = Pair::start().await;
    let Tunnel {
        stream,
        mut socket,
        _listener,
    } = tunnel(&pair).await;
    let data = pattern(20_000_000);
    let (mut from, mut to) = tokio::io::split(stream);
    let sent = data.clone();
    let writing = tokio::spawn(async move {
        to.write_all(&sent).await.unwrap();
        to.shutdown().await.unwrap();
    });
    let echoing = tokio::spawn(async move {
        let (mut from, mut to) = socket.split();
        tokio::io::copy(&mut from, &mut to).await.unwrap();
        to.shutdown().await.unwrap();
    });
    let mut echo = Vec::new();
    within(from.read_to_end(&mut echo)).await.unwrap();
    assert!(echo == data);
    within(writing).await.unwrap();
    within(echoing).await.unwrap();
}

#[tokio::test]
async fn a_tunnel_reaches_a_port_of_ipv6() {
    let pair = Pair::start().await;
    let Ok(listener) = TcpListener::bind("[::1]:0").await else {
        return;
    };
    let port = listener.local_addr().unwrap().port();
    let mut stream = within(pair.link.open_port(port)).await.unwrap();
    let (mut socket, _) = within(listener.accept()).await.unwrap();
    socket.write_all(b"six").await.unwrap();
    let mut read = [0; 3];
    within(stream.read_exact(&mut read)).await.unwrap();
    assert_eq!(&read, b"six");
}

/// Returns a socket that keeps its port from other processes and does not
/// listen.
fn reserve() -> TcpSocket {
    let any = |host: IpAddr| SocketAddr::from((host, 0));
    if let Ok(socket) = TcpSocket::new_v6()
        && socket.bind(any(Ipv6Addr::UNSPECIFIED.into())).is_ok()
    {
        return socket;
    }
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(any(Ipv4Addr::UNSPECIFIED.into())).unwrap();
    socket
}

#[tokio::test]
async fn a_port_without_a_listener_is_not_open() {
    let pair = Pair::start().await;
    let reserved = reserve();
    let port = reserved.local_addr().unwrap().port();
    let refused = within(pair.link.open_port(port)).await;
    assert_eq!(refused.unwrap_err(), LinkError::NotOpen);
    let invalid = within(pair.link.open_port(0)).await;
    assert!(matches!(invalid, Err(LinkError::Invalid(_))));
    // Failures leave nothing behind.
    for _ in 0..2 * MAX_TUNNELS {
        let refused = within(pair.link.open_port(port)).await;
        assert_eq!(refused.unwrap_err(), LinkError::NotOpen);
    }
}

#[tokio::test]
async fn a_reset_of_the_port_is_an_error_for_the_reader() {
    let pair = Pair::start().await;
    let mut tunnel = tunnel(&pair).await;
    tunnel.socket.write_all(b"the beginning").await.unwrap();
    let mut read = [0; 13];
    within(tunnel.stream.read_exact(&mut read)).await.unwrap();
    tunnel.socket.set_zero_linger().unwrap();
    drop(tunnel.socket);
    let error = within(tunnel.stream.read(&mut read)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_dropped_tunnel_resets_the_connection_to_the_port() {
    let pair = Pair::start().await;
    let mut tunnel = tunnel(&pair).await;
    tunnel.stream.write_all(b"half a request").await.unwrap();
    let mut read = [0; 14];
    within(tunnel.socket.read_exact(&mut read)).await.unwrap();
    drop(tunnel.stream);
    let error = within(tunnel.socket.read(&mut read)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn data_and_end_arrive_although_the_tunnel_is_dropped_at_once() {
    let pair = Pair::start().await;
    let Tunnel {
        mut stream,
        mut socket,
        _listener,
    } = tunnel(&pair).await;
    stream.write_all(b"goodbye").await.unwrap();
    stream.shutdown().await.unwrap();
    drop(stream);
    let mut read = String::new();
    within(socket.read_to_string(&mut read)).await.unwrap();
    assert_eq!(read, "goodbye");
}

#[tokio::test]
async fn tunnels_end_with_the_connection_of_the_agent() {
    let pair = Pair::start().await;
    let mut tunnel = tunnel(&pair).await;
    pair.server.links.forget(SANDBOX);
    let mut read = [0; 1];
    let error = within(tunnel.stream.read(&mut read)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(within(tunnel.socket.read(&mut read)).await.is_err());
    let late = within(pair.link.open_port(1)).await;
    assert_eq!(late.unwrap_err(), LinkError::Disconnected);
}

/// Bytes that have space in a tunnel that is not read, but not in its window
/// alone.
const CERTAIN: usize = STREAM_WINDOW as usize + MAX_PIECE / 2;

/// Writes to one end of a tunnel until probably no more data has space. Writes
/// at least [`CERTAIN`] bytes, which may take any time on a busy machine.
async fn fill(mut end: impl AsyncWrite + Unpin, content: u8) {
    end.write_all(&vec![content; CERTAIN]).await.unwrap();
    let data = vec![content; 100_000];
    let pause = Duration::from_millis(300);
    while let Ok(written) = tokio::time::timeout(pause, end.write_all(&data)).await {
        written.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_tunnels_hold_up_neither_commands_nor_other_tunnels() {
    let pair = Pair::start().await;
    let (listener, port) = listen().await;
    let (mut streams, mut sockets) = (Vec::new(), Vec::new());
    for _ in 0..MAX_TUNNELS - 1 {
        streams.push(within(pair.link.open_port(port)).await.unwrap());
        sockets.push(within(listener.accept()).await.unwrap().0);
    }
    // Neither the server nor the ports read.
    let from_ports = join_all(sockets.iter_mut().map(|socket| fill(socket, 7)));
    let to_ports = join_all(streams.iter_mut().map(|stream| fill(stream, 8)));
    within(futures::future::join(from_ports, to_ports)).await;
    let done = pair.run("seq 1 300000").await;
    let expected: String = (1..=300_000).map(|i| format!("{i}\n")).collect();
    assert!(done.stdout == expected);
    let last = tunnel(&pair).await;
    let many = within(pair.link.open_port(port)).await;
    let limit = MAX_TUNNELS as u64;
    let what = "tunnels".to_owned();
    assert_eq!(many.unwrap_err(), LinkError::TooMany { what, limit });
    let Tunnel {
        mut stream,
        mut socket,
        _listener,
    } = last;
    socket.write_all(b"not stalled").await.unwrap();
    let mut read = [0; 11];
    within(stream.read_exact(&mut read)).await.unwrap();
    assert_eq!(&read, b"not stalled");
    let resident = pair.agent.resident();
    assert!(resident < 250_000_000, "{resident}");
    // The data of a stalled tunnel is still there.
    let mut rest = vec![0; CERTAIN];
    within(streams[0].read_exact(&mut rest)).await.unwrap();
    assert!(rest.iter().all(|byte| *byte == 7));
}

#[tokio::test]
async fn many_small_unread_pieces_do_not_close_the_connection() {
    let pair = Pair::start().await;
    let mut stalled = Vec::new();
    for _ in 0..32 {
        let mut tunnel = tunnel(&pair).await;
        tunnel.socket.set_nodelay(true).unwrap();
        for _ in 0..1000 {
            tunnel.socket.write_all(b"small").await.unwrap();
            tokio::task::yield_now().await;
        }
        stalled.push(tunnel);
    }
    let done = pair.run("echo still connected").await;
    assert_eq!(done.stdout, "still connected\n");
    for mut tunnel in stalled {
        let mut read = vec![0; 5000];
        within(tunnel.stream.read_exact(&mut read)).await.unwrap();
        assert_eq!(read, b"small".repeat(1000));
    }
}

#[tokio::test]
async fn ended_tunnels_make_room_for_others() {
    let pair = Pair::start().await;
    let (listener, port) = listen().await;
    for _ in 0..3 {
        let mut open = Vec::new();
        for _ in 0..MAX_TUNNELS {
            open.push(within(pair.link.open_port(port)).await.unwrap());
            within(listener.accept()).await.unwrap();
        }
    }
    let mut output = pair.start_command(pair.command("after", "echo here")).await;
    assert_eq!(finish(&mut output).await.stdout, "here\n");
    let descriptors = || {
        let path = format!("/proc/{}/fd", pair.agent.pid());
        std::fs::read_dir(path).unwrap().count()
    };
    until("the agent has closed all sockets", || descriptors() < 40).await;
}
