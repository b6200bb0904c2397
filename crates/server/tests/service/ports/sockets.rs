//! WebSockets and TCP connections to ports.

use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};

use super::*;
use crate::harness::Socket;

/// Starts a program that sends each message of a WebSocket back. Returns its
/// port.
async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else {
                    return;
                };
                while let Some(Ok(message)) = socket.next().await {
                    let is_data = message.is_text() || message.is_binary();
                    if is_data && socket.send(message).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// Opens a WebSocket to the server, with headers.
async fn open(
    service: &Service,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<Socket, tungstenite::Error> {
    let url = format!("{}{path}", service.url.replace("http://", "ws://"));
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let connected = tokio_tungstenite::connect_async(request).await?;
    Ok(connected.0)
}

async fn assert_echoes(socket: &mut Socket) {
    for size in [1, 1000, 300_000] {
        let message = Message::Binary(vec![7; size].into());
        socket.send(message.clone()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), message);
    }
}

/// Waits until a WebSocket ends.
async fn ended(mut socket: Socket) {
    while let Some(Ok(_)) = socket.next().await {}
}

#[tokio::test]
async fn a_websocket_reaches_the_program_until_its_key_is_revoked() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let port = echo().await;
    let made = service.post("/api/v1/keys", json!({"name": "k"})).await;
    let secret = made["secret"].as_str().unwrap();
    let path = format!("/api/v1/sandboxes/{id}/ports/{port}/socket");
    let mut socket = open(&service, &path, &[("x-api-key", secret)])
        .await
        .unwrap();
    assert_echoes(&mut socket).await;
    let key = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    service.expect(Method::DELETE, &key, None, 204).await;
    ended(socket).await;
    let url = link(&service, &id, port, json!({})).await;
    let path = format!("{path}?elevo-link={}", token(&url));
    let mut socket = open(&service, &path, &[]).await.unwrap();
    assert_echoes(&mut socket).await;
    open(&service, &path.replace("elevo-link", "x"), &[])
        .await
        .unwrap_err();
}

#[tokio::test]
async fn a_websocket_by_link_ends_when_the_link_expires() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let port = echo().await;
    let url = link(&service, &id, port, json!({"expiresIn": 5})).await;
    let path = format!("/api/v1/sandboxes/{id}/ports/{port}/?elevo-link=");
    let path = format!("{path}{}", token(&url));
    let mut socket = open(&service, &path, &[]).await.unwrap();
    assert_echoes(&mut socket).await;
    ended(socket).await;
    open(&service, &path, &[]).await.unwrap_err();
}

#[tokio::test]
async fn a_websocket_by_cookie_needs_the_origin_of_its_host() {
    let service = with_domain().await;
    let id = service.sandbox().await;
    let port = echo().await;
    let url = link(&service, &id, port, json!({})).await;
    let cookie = links::exchanged(&service, &id, port, &url).await;
    let host = format!("{port}-{id}.{DOMAIN}");
    let own = format!("http://{host}");
    let headers = |origin| [("host", &*host), ("cookie", &*cookie), ("origin", origin)];
    let mut socket = open(&service, "/", &headers(&own)).await.unwrap();
    assert_echoes(&mut socket).await;
    let sibling = format!("http://{port}-sbx-other.{DOMAIN}");
    for origin in [&*sibling, "null", "http://evil.test", &*format!("{own}:81")] {
        let refused = open(&service, "/", &headers(origin)).await.unwrap_err();
        assert!(refused.to_string().contains("403"), "{origin}: {refused}");
    }
    let without = [("host", &*host), ("cookie", &*cookie)];
    let refused = open(&service, "/", &without).await.unwrap_err();
    assert!(refused.to_string().contains("403"), "{refused}");
    // A link in the query is enough: no page of another host knows it.
    let path = format!("/?elevo-link={}", token(&url));
    let mut socket = open(&service, &path, &[("host", &host)]).await.unwrap();
    assert_echoes(&mut socket).await;
}

#[tokio::test]
async fn websockets_end_when_the_server_stops_and_when_the_sandbox_stops() {
    let mut service = Service::start().await;
    let [id, other] = [service.sandbox().await, service.sandbox().await];
    let port = echo().await;
    let key = [("x-api-key", KEY)];
    let path = |id: &str| format!("/api/v1/sandboxes/{id}/ports/{port}/");
    let mut socket = open(&service, &path(&id), &key).await.unwrap();
    let mut second = open(&service, &path(&other), &key).await.unwrap();
    assert_echoes(&mut socket).await;
    assert_echoes(&mut second).await;
    let stop = format!("/api/v1/sandboxes/{other}/stop");
    service.expect(Method::POST, &stop, None, 200).await;
    ended(second).await;
    assert_echoes(&mut socket).await;
    service.terminate();
    ended(socket).await;
    service.ends().await;
}

#[tokio::test]
async fn a_client_with_a_key_opens_a_tcp_connection() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let program = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"hello\n").await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        bytes
    });
    let upgrade = |request: RequestBuilder| {
        let request = request.header("connection", "upgrade");
        request.header("upgrade", "elevo-tcp").send()
    };
    let opened = upgrade(at_path(&service, &id, port, "").bearer_auth(KEY));
    let mut stream = opened.await.unwrap().upgrade().await.unwrap();
    let mut hello = [0; 6];
    stream.read_exact(&mut hello).await.unwrap();
    assert_eq!(&hello, b"hello\n");
    stream.write_all(b"any bytes\0\xff").await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(program.await.unwrap(), b"any bytes\0\xff");
    let without = upgrade(at_path(&service, &id, port, ""));
    assert_eq!(without.await.unwrap().status(), 401);
}

#[tokio::test]
async fn a_program_that_ends_first_still_gets_the_bytes_of_the_client() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let program = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"done").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        bytes
    });
    let request = at_path(&service, &id, port, "").bearer_auth(KEY);
    let request = request.header("connection", "upgrade");
    let opened = request.header("upgrade", "elevo-tcp").send().await;
    let mut stream = opened.unwrap().upgrade().await.unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, b"done");
    let sent = vec![7_u8; 1 << 20];
    stream.write_all(&sent).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(program.await.unwrap() == sent, "bytes were lost");
}
