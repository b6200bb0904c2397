//! Faults through sockets.

use std::io::ErrorKind;
use std::time::Instant;

use tokio::net::TcpSocket;

use super::*;
use crate::wire::{Direction, Fault, Faults};

#[tokio::test]
async fn a_refused_connection_is_reset() {
    let server = Server::start().await;
    let wire = Wire::postgres(server.address);
    let mut old = client(&wire).await;

    wire.set(Fault::Refuse);
    assert_eq!(refused(&wire).await.kind(), ErrorKind::ConnectionReset);
    query(&mut old).await;
    assert_eq!(wire.trips().connections, 1);

    wire.heal();
    client(&wire).await;
}

#[tokio::test]
async fn a_fence_refuses_new_connections_and_closes_old_ones() {
    let server = Server::start().await;
    let wire = Wire::postgres(server.address);
    let mut old = client(&wire).await;

    for _ in 0..3 {
        wire.fence();
        assert_eq!(rest(&mut old).await, b"");
        assert_eq!(refused(&wire).await.kind(), ErrorKind::ConnectionRefused);

        wire.heal();
        old = client(&wire).await;
        query(&mut old).await;
    }
}

#[tokio::test]
async fn all_connections_are_cut_and_new_ones_are_accepted() {
    let server = Server::start().await;
    let wire = Wire::postgres(server.address);
    let (mut one, mut two) = (client(&wire).await, client(&wire).await);
    wire.cut_all();
    assert_eq!(rest(&mut one).await, b"");
    assert_eq!(rest(&mut two).await, b"");
    client(&wire).await;
}

#[tokio::test]
async fn connections_that_hang_go_on_when_healed() {
    let server = Server::start().await;
    let wire = Wire::postgres(server.address);
    let mut old = client(&wire).await;

    wire.set(Fault::Hang);
    let mut new = TcpStream::connect(wire.address()).await.unwrap();
    old.write_all(b"old").await.unwrap();
    new.write_all(b"new").await.unwrap();
    assert!(is_silent(&mut old).await && is_silent(&mut new).await);
    assert_eq!(wire.trips().connections, 1);

    wire.heal();
    for (client, expected) in [(&mut old, b"old"), (&mut new, b"new")] {
        let mut bytes = [0; 3];
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, expected);
    }
}

#[tokio::test]
async fn a_round_trip_takes_the_delay_and_a_stream_takes_it_once() {
    let server = Server::start().await;
    let wire = Wire::postgres(server.address);
    let mut client = client(&wire).await;
    let trip = Duration::from_millis(40);
    wire.delay(trip);

    let start = Instant::now();
    query(&mut client).await;
    assert!(start.elapsed() >= trip);

    // If the delay applied to each of these 64 pieces or more, or to each
    // direction in turn, this would take seconds.
    let bytes = vec![1; 1024 * 1024];
    let (mut read, mut write) = client.split();
    let mut answer = vec![0; bytes.len()];
    let start = Instant::now();
    let (sent, received) = tokio::join!(write.write_all(&bytes), read.read_exact(&mut answer));
    let elapsed = start.elapsed();
    sent.unwrap();
    received.unwrap();
    assert!(answer == bytes && elapsed >= trip, "{elapsed:?}");
}

#[tokio::test]
async fn a_connection_is_cut_after_a_number_of_bytes_from_now() {
    let server = Server::start().await;
    let wire = Wire::postgres(server.address);
    for (direction, after) in [
        (Direction::Up, 5),
        (Direction::Down, 5),
        (Direction::Down, 0),
    ] {
        let mut one = client(&wire).await;
        let mut two = client(&wire).await;
        wire.set(Fault::Cut { direction, after });
        if after > 0 {
            // Bytes of all connections count.
            assert_eq!(exchange(&mut one, b"abc", 3).await, b"abc");
        }
        two.write_all(b"defg").await.unwrap();
        let arrived = rest(&mut two).await;
        match direction {
            Direction::Up => assert!(b"de".starts_with(&arrived)),
            Direction::Down => assert_eq!(arrived, b"de"[..after.min(2) as usize]),
        }
        // It happens once.
        query(&mut one).await;
        let mut three = client(&wire).await;
        query(&mut three).await;
    }
}

#[tokio::test]
async fn the_server_receives_exactly_the_bytes_before_a_cut() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let wire = Wire::postgres(listener.local_addr().unwrap());
    wire.plan(Faults::script([vec![Fault::Cut {
        direction: Direction::Up,
        after: 3,
    }]]));
    let mut client = TcpStream::connect(wire.address()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    client.write_all(b"abcdef").await.unwrap();
    assert_eq!(rest(&mut server).await, b"abc");
}

#[tokio::test]
async fn a_cut_at_a_round_trip_hides_its_end_from_the_client() {
    let server = Server::start().await;
    let wire = Wire::postgres(server.address);
    let mut one = client(&wire).await;
    let mut two = client(&wire).await;

    wire.set(Fault::CutAtTrip { nth: 2 });
    query(&mut one).await;
    two.write_all(b"Q").await.unwrap();
    assert_eq!(rest(&mut two).await, b"");
    assert_eq!(wire.trips().trips, 2, "the server has done its work");

    // A retry on a new connection succeeds.
    let mut three = client(&wire).await;
    query(&mut three).await;
    query(&mut three).await;
}

#[tokio::test]
async fn a_cut_at_a_request_hides_the_end_of_its_response_head() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let wire = Wire::http(listener.local_addr().unwrap());
    wire.set(Fault::CutAtTrip { nth: 1 });
    let mut client = TcpStream::connect(wire.address()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let request = b"PUT /a HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
    client.write_all(request).await.unwrap();
    let mut received = vec![0; request.len()];
    server.read_exact(&mut received).await.unwrap();
    assert_eq!(received, request);
    server
        .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(rest(&mut client).await, b"HTTP/1.1 204 No Content\r\n\r");
}

#[tokio::test]
async fn a_bit_is_flipped_once() {
    let server = Server::start().await;
    let wire = Wire::postgres(server.address);
    for direction in [Direction::Up, Direction::Down] {
        let mut client = client(&wire).await;
        wire.set(Fault::Flip {
            direction,
            at: 4,
            bit: 5,
        });
        assert_eq!(exchange(&mut client, b"abc", 3).await, b"abc");
        assert_eq!(exchange(&mut client, b"defg", 4).await, b"dEfg");
        assert_eq!(exchange(&mut client, b"defg", 4).await, b"defg");
    }
}

#[tokio::test]
async fn a_plan_gives_each_connection_its_faults() {
    let server = Server::start().await;
    let wire = Wire::postgres(server.address);
    let up = Direction::Up;
    wire.plan(Faults::script([
        vec![Fault::Refuse],
        vec![],
        vec![Fault::Flip {
            direction: up,
            at: 9,
            bit: 0,
        }],
        vec![Fault::CutAtTrip { nth: 1 }],
        vec![Fault::Hang],
    ]));

    assert_eq!(refused(&wire).await.kind(), ErrorKind::ConnectionReset);
    let mut whole = client(&wire).await;
    query(&mut whole).await;
    // The start-up packet has 8 bytes.
    let mut flipped = client(&wire).await;
    assert_eq!(exchange(&mut flipped, b"abc", 3).await, b"acc");
    let mut cut = client(&wire).await;
    cut.write_all(b"Q").await.unwrap();
    assert_eq!(rest(&mut cut).await, b"");
    let mut hanging = TcpStream::connect(wire.address()).await.unwrap();
    hanging.write_all(b"abc").await.unwrap();
    assert!(is_silent(&mut hanging).await);
    client(&wire).await;

    wire.heal();
    let mut bytes = [0; 3];
    hanging.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"abc");
}

#[tokio::test]
async fn an_upstream_that_is_gone_resets_the_connection() {
    // This socket does not listen, but no other test can get its port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let wire = Wire::postgres(socket.local_addr().unwrap());
    assert_eq!(refused(&wire).await.kind(), ErrorKind::ConnectionReset);
    assert_eq!(wire.trips().connections, 0);
}
