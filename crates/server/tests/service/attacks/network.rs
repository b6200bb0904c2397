//! Addresses that a sandbox must not reach.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use elevo_testkit::outside::{HOST, METADATA, Outside, PORT, PRIVATE, PUBLIC, SHARED};
use serde_json::json;

use super::{Arena, Runtime, in_each_runtime};
use crate::harness::docker;

in_each_runtime!(
    neither_host_nor_neighbour_nor_private_address_is_reached,
    a_sandbox_without_network_reaches_itself_alone,
);

/// Listens on an address of the host and greets every client.
fn greeter(address: &str) -> SocketAddr {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"hello\n");
        }
    });
    // A listener that cannot be reached would prove nothing.
    TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap();
    address
}

fn address(id: &str, which: &str) -> String {
    let format = format!("{{{{range .NetworkSettings.Networks}}}}{{{{.{which}}}}}{{{{end}}}}");
    docker(&["inspect", "--format", &format, id])
        .trim()
        .to_owned()
}

async fn connect(arena: &Arena, address: &str, port: u16) -> String {
    let command = format!("/workspace/probe connect {address} {port}");
    arena.attack(&command).await.trim().to_owned()
}

async fn neither_host_nor_neighbour_nor_private_address_is_reached(runtime: Runtime) {
    let _outside = Outside::new();
    let mut arena = Arena::with(runtime, json!({"network": "internet"})).await;
    // The allowed address can be reached, so that the others are denied and not
    // just absent.
    assert_eq!(connect(&arena, PUBLIC, PORT).await, "hello");

    arena.arm(&arena.neighbour).await;
    let path = format!("/api/v1/sandboxes/{}/process/run", arena.neighbour);
    let body = json!({"command": "./probe listen 8000", "background": true});
    arena.service.post(&path, body).await;
    crate::harness::eventually("the neighbour listens", async || {
        let own = arena
            .service
            .run_in(&arena.neighbour, "./probe connect 127.0.0.1 8000");
        own.await["stdout"] == "hello\n"
    })
    .await;
    let neighbour = address(&arena.neighbour, "IPAddress");
    let gateway = address(&arena.neighbour, "Gateway");
    let mut targets: Vec<_> = [(neighbour, 8000)].into();
    for host in [&*gateway, HOST] {
        let listener = greeter(host);
        targets.push((host.to_owned(), listener.port()));
    }
    let api: SocketAddr = arena
        .service
        .url
        .trim_start_matches("http://")
        .parse()
        .unwrap();
    targets.push((gateway, api.port()));
    targets.push(("127.0.0.1".to_owned(), api.port()));
    targets.extend([PRIVATE, METADATA, SHARED].map(|address| (address.to_owned(), PORT)));
    for (address, port) in targets {
        let seen = connect(&arena, &address, port).await;
        let refused = ["ETIMEDOUT", "ECONNREFUSED", "EHOSTUNREACH"];
        assert!(refused.contains(&&*seen), "{address}:{port}: {seen}");
    }
    arena.unharmed().await;
    // A server that stops without sandboxes deletes its network.
    arena.service.delete(&arena.attacker).await;
    arena.service.delete(&arena.neighbour).await;
    arena.service.stop();
}

async fn a_sandbox_without_network_reaches_itself_alone(runtime: Runtime) {
    let _outside = Outside::new();
    let arena = Arena::new(runtime).await;
    for address in [PUBLIC, PRIVATE, METADATA, HOST] {
        assert_eq!(
            connect(&arena, address, PORT).await,
            "ENETUNREACH",
            "{address}"
        );
    }
    let api: SocketAddr = arena
        .service
        .url
        .trim_start_matches("http://")
        .parse()
        .unwrap();
    assert_eq!(
        connect(&arena, "127.0.0.1", api.port()).await,
        "ECONNREFUSED"
    );
    // The abstract socket namespace belongs to the sandbox's network namespace,
    // too.
    let sockets = arena.attack("cat /proc/net/unix | grep -c @").await;
    assert_eq!(sockets, "0\n");
    arena.unharmed().await;
}
