//! Counting through sockets.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use super::*;
use crate::wire::{Trips, expect_trips, expect_trips_of_both};

/// Returns the message of the panic that the future ends with.
async fn panic_of(work: impl Future<Output = ()>) -> String {
    let panic = AssertUnwindSafe(work).catch_unwind().await.unwrap_err();
    *panic.downcast::<String>().unwrap()
}

#[tokio::test]
async fn connections_and_round_trips_are_counted_apart() {
    let server = Server::start().await;
    let wire = Wire::postgres(server.address);
    let mut one = client(&wire).await;
    let mut two = client(&wire).await;
    query(&mut one).await;
    query(&mut two).await;
    query(&mut two).await;

    let expected = Trips {
        trips: 3,
        connections: 2,
        startup_trips: 2,
        unreadable: 0,
    };
    assert_eq!(wire.trips(), expected);
}

#[tokio::test]
async fn messages_that_arrive_byte_by_byte_are_counted() {
    let server = Server::start().await;
    let wire = Wire::postgres(server.address);
    let mut client = client(&wire).await;
    // The server sends each byte back alone: a message with a body, and two
    // that end a round trip.
    for byte in b"d\0\0\0\x05Z".iter().chain(READY).chain(READY) {
        assert_eq!(exchange(&mut client, &[*byte], 1).await, [*byte]);
    }
    assert_eq!(wire.trips().trips, 2);
}

#[tokio::test]
async fn requests_are_counted() {
    let server = Server::start().await;
    let wire = Wire::http(server.address);
    let mut client = TcpStream::connect(wire.address()).await.unwrap();
    let request = b"PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
    let both = request.repeat(2);
    exchange(&mut client, &both, both.len()).await;
    // The server does not speak HTTP, but the proxy counts requests only.
    assert_eq!((wire.trips().trips, wire.trips().connections), (2, 1));
}

#[tokio::test]
async fn the_right_number_of_round_trips_is_accepted() {
    let server = Server::start().await;
    let (pg, s3) = (Wire::postgres(server.address), Wire::http(server.address));
    let mut client = client(&pg).await;
    let result = expect_trips(&pg, 2, async {
        query(&mut client).await;
        query(&mut client).await;
        7
    });
    assert_eq!(result.await, 7);
    expect_trips_of_both((&pg, 1), (&s3, 0), query(&mut client)).await;
}

#[tokio::test]
async fn a_wrong_number_of_round_trips_fails_with_place_and_numbers() {
    let server = Server::start().await;
    let (pg, s3) = (Wire::postgres(server.address), Wire::http(server.address));
    let mut one = client(&pg).await;

    let message = panic_of(expect_trips(&pg, 2, query(&mut one))).await;
    assert!(message.contains("counting.rs:"), "{message}");
    assert!(
        message.ends_with("expected 2 round trips to PostgreSQL, counted 1"),
        "{message}"
    );

    let message = panic_of(expect_trips_of_both((&pg, 1), (&s3, 3), query(&mut one))).await;
    assert!(
        message.ends_with(": expected 3 round trips to HTTP, counted 0"),
        "{message}"
    );

    let message = panic_of(expect_trips(&pg, 0, async {
        client(&pg).await;
    }));
    let message = message.await;
    assert!(message.contains("warm the connections"), "{message}");
}

#[tokio::test]
async fn a_server_behind_a_socket_file_is_reached() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let wire = Wire::postgres(path);
    let mut client = TcpStream::connect(wire.address()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    client.write_all(b"up").await.unwrap();
    let mut bytes = [0; 2];
    server.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"up");
}

#[tokio::test]
async fn the_end_of_one_direction_leaves_the_other_one_open() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let wire = Wire::postgres(listener.local_addr().unwrap());
    let mut client = TcpStream::connect(wire.address()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut server).await, b"");
    server.write_all(b"last").await.unwrap();
    drop(server);
    assert_eq!(rest(&mut client).await, b"last");
}

#[tokio::test]
async fn dropping_the_proxy_closes_its_port_and_its_connections() {
    let server = Server::start().await;
    let wire = Wire::postgres(server.address);
    let address = wire.address();
    let mut client = client(&wire).await;
    drop(wire);
    assert_eq!(rest(&mut client).await, b"");
    TcpStream::connect(address).await.unwrap_err();
}

#[test]
fn a_test_without_a_runtime_can_use_a_proxy() {
    use std::io::{Read, Write};

    let upstream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let wire = Wire::postgres(upstream.local_addr().unwrap());
    let mut client = std::net::TcpStream::connect(wire.address()).unwrap();
    upstream.accept().unwrap().0.write_all(b"down").unwrap();
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"down");
    assert_eq!(wire.trips().connections, 1);
}
