//! Terminals.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::{SinkExt, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Service, Socket, eventually};

async fn connect(url: &str) -> Socket {
    crate::harness::connect(url).await.unwrap()
}

async fn open(service: &Service, id: &str) -> (String, String) {
    let path = format!("/api/v1/sandboxes/{id}/pty");
    let body = json!({"cols": 80, "rows": 24, "envs": {"PS1": "$ "}, "shell": "/bin/sh"});
    let body = Some(service.inside(id, body));
    let made = service.expect(Method::POST, &path, body, 201).await;
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("websocketUrl"))
}

async fn send(socket: &mut Socket, value: Value) {
    socket
        .send(Message::Text(value.to_string().into()))
        .await
        .unwrap();
}

async fn type_in(socket: &mut Socket, text: &str) {
    send(
        socket,
        json!({"type": "input", "data": STANDARD.encode(text)}),
    )
    .await;
}

/// Reads output until it contains a text; returns the offset at that point.
async fn read_until(socket: &mut Socket, wanted: &str) -> (String, u64) {
    let (mut text, mut offset) = (String::new(), 0);
    while !text.contains(wanted) {
        let message = tokio::time::timeout(std::time::Duration::from_secs(20), socket.next()).await;
        let message = message.unwrap_or_else(|_| panic!("no `{wanted}` in {text:?}"));
        let Message::Text(message) = message.unwrap().unwrap() else {
            continue;
        };
        let message: Value = serde_json::from_str(&message).unwrap();
        match message["type"].as_str().unwrap() {
            "output" => {
                let data = STANDARD.decode(message["data"].as_str().unwrap()).unwrap();
                offset = message["offset"].as_u64().unwrap() + data.len() as u64;
                text += &String::from_utf8_lossy(&data);
            }
            other => text += &format!("<{other} {}>", message["exitCode"]),
        }
    }
    (text, offset)
}

#[tokio::test]
async fn a_terminal_is_a_terminal() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let (pty, url) = open(&service, &id).await;
    let mut socket = connect(&url).await;
    type_in(&mut socket, "tty; stty size; echo $((40 + 2))\n").await;
    let (text, _) = read_until(&mut socket, "42\r\n").await;
    assert!(
        text.contains("/dev/pts/") && text.contains("24 80"),
        "{text}"
    );
    send(
        &mut socket,
        json!({"type": "resize", "cols": 100, "rows": 30}),
    )
    .await;
    type_in(&mut socket, "stty size\n").await;
    read_until(&mut socket, "30 100").await;
    let resize = format!("/api/v1/sandboxes/{id}/pty/{pty}/resize");
    service
        .expect(
            Method::POST,
            &resize,
            Some(json!({"cols": 90, "rows": 20})),
            204,
        )
        .await;
    type_in(&mut socket, "stty size\n").await;
    read_until(&mut socket, "20 90").await;
    send(&mut socket, json!({"type": "ping"})).await;
    read_until(&mut socket, "<pong null>").await;
    // ^C ends the running command, not the shell.
    let command = "sh -c \"echo be''gun; exec sleep 100\"\n";
    type_in(&mut socket, command).await;
    read_until(&mut socket, "begun").await;
    type_in(&mut socket, "\u{3}").await;
    type_in(&mut socket, "echo a''live\n").await;
    read_until(&mut socket, "alive").await;
    socket
        .send(Message::Binary("exit 5\n".into()))
        .await
        .unwrap();
    read_until(&mut socket, "<exit 5>").await;
}

#[tokio::test]
async fn a_client_that_reconnects_to_a_terminal_misses_nothing() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let (pty, url) = open(&service, &id).await;
    let mut socket = connect(&url).await;
    type_in(
        &mut socket,
        "for n in 1 2 3 4 5 6; do echo line-$n; [ $n != 2 ] || until [ -e go ]; do sleep 0.05; \
         done; done; touch done; echo the''end\n",
    )
    .await;
    let (_, offset) = read_until(&mut socket, "line-2\r\n").await;
    drop(socket);
    service.output_of(&id, "touch go").await;
    eventually("all lines are written", async || {
        service.run_in(&id, "test -e done").await["exitCode"] == 0
    })
    .await;
    let mut socket = connect(&format!("{url}?offset={offset}")).await;
    let (text, _) = read_until(&mut socket, "theend").await;
    let rest = text.split("<attached null>").nth(1).unwrap();
    assert!(
        rest.starts_with("line-3\r\nline-4\r\nline-5\r\nline-6\r\ntheend"),
        "{text:?}"
    );
    let path = format!("/api/v1/sandboxes/{id}/pty/{pty}");
    service.expect(Method::DELETE, &path, None, 204).await;
}

#[tokio::test]
async fn there_are_only_so_many_terminals_and_those_left_alone_are_closed() {
    let service = Service::start_with(&[("TERMINAL_PATIENCE", "2")]).await;
    let id = service.sandbox().await;
    let (_, url) = open(&service, &id).await;
    for _ in 0..4 {
        open(&service, &id).await;
    }
    let mut socket = connect(&url).await;
    let path = format!("/api/v1/sandboxes/{id}/pty");
    let body = Some(service.inside(&id, json!({"cols": 80, "rows": 24})));
    let refused = service.expect(Method::POST, &path, body.clone(), 429).await;
    assert_eq!(refused["error"]["name"], "PTY_LIMIT_EXCEEDED");
    eventually(
        "the four terminals without a reader are closed",
        async || {
            let answer = service
                .request(Method::POST, &path)
                .json(&body)
                .send()
                .await
                .unwrap();
            answer.status() == 201
        },
    )
    .await;
    type_in(&mut socket, "echo st''ill\n").await;
    read_until(&mut socket, "still").await;
}
