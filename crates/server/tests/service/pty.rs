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

pub(crate) async fn open(service: &Service, id: &str) -> (String, String) {
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

pub(crate) async fn type_in(socket: &mut Socket, text: &str) {
    send(
        socket,
        json!({"type": "input", "data": STANDARD.encode(text)}),
    )
    .await;
}

/// Reads output until it contains a text; returns the offset at that point.
pub(crate) async fn read_until(socket: &mut Socket, wanted: &str) -> (String, u64) {
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

fn url(service: &Service, id: &str, pty: &str, query: &str) -> String {
    let base = service.url.replacen("http", "ws", 1);
    format!("{base}/api/v1/sandboxes/{id}/pty/{pty}/ws?{query}")
}

/// Sends numbered input, and waits for its acknowledgement.
async fn type_numbered(socket: &mut Socket, seq: u64, text: &str) {
    let data = STANDARD.encode(text);
    send(socket, json!({"type": "input", "seq": seq, "data": data})).await;
    loop {
        let message = message_of(socket, "ack").await;
        if message["seq"] == seq {
            return;
        }
    }
}

/// Reads until a message of this type, and returns it.
async fn message_of(socket: &mut Socket, kind: &str) -> Value {
    loop {
        let next = tokio::time::timeout(std::time::Duration::from_secs(20), socket.next()).await;
        let next = next.unwrap_or_else(|_| panic!("no message of the type `{kind}`"));
        if let Message::Text(text) = next.unwrap().unwrap() {
            let message: Value = serde_json::from_str(&text).unwrap();
            if message["type"] == kind {
                return message;
            }
        }
    }
}

#[tokio::test]
async fn numbered_input_is_written_once_across_reconnects_and_restarts_of_the_server() {
    let mut service = Service::start().await;
    let id = service.sandbox().await;
    let (pty, _) = open(&service, &id).await;
    let mut socket = connect(&url(&service, &id, &pty, "client=a")).await;
    type_numbered(&mut socket, 1, "echo one >> log\n").await;
    drop(socket);
    let mut socket = connect(&url(&service, &id, &pty, "client=a")).await;
    type_numbered(&mut socket, 1, "echo one >> log\n").await;
    drop(socket);
    service.kill();
    service.run();
    let mut socket = connect(&url(&service, &id, &pty, "client=a")).await;
    type_numbered(&mut socket, 1, "echo one >> log\n").await;
    type_numbered(&mut socket, 2, "echo two >> log\n").await;
    // Another client has its own numbers, and input without one is always new.
    let mut other = connect(&url(&service, &id, &pty, "client=b")).await;
    type_numbered(&mut other, 1, "echo three >> log\n").await;
    type_in(&mut other, "echo four >> log; echo d''one\n").await;
    read_until(&mut other, "done").await;
    let log = service.output_of(&id, "cat log").await;
    assert_eq!(log, "one\ntwo\nthree\nfour\n");

    let bad = [
        json!({"type": "input", "seq": 0, "data": ""}),
        json!({"type": "input", "seq": 3, "data": STANDARD.encode(vec![b'x'; 70_000])}),
        json!({"type": "input", "data": "?"}),
    ];
    for message in bad {
        send(&mut socket, message).await;
        let error = message_of(&mut socket, "error").await;
        assert_eq!(error["error"]["name"], "INVALID_REQUEST", "{error}");
        assert!(error["error"]["requestId"].is_string(), "{error}");
    }
    let refused = crate::harness::connect(&url(&service, &id, &pty, "client=a%20b")).await;
    assert!(refused.unwrap_err().to_string().contains("400"));
    type_in(&mut socket, "kill -9 $$\n").await;
    let exit = message_of(&mut socket, "exit").await;
    assert_eq!(
        (&exit["exitCode"], &exit["signal"]),
        (&json!(137), &json!(9))
    );
}

#[tokio::test]
async fn a_new_connection_of_a_client_replaces_the_earlier_one() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let (pty, plain) = open(&service, &id).await;
    let named = url(&service, &id, &pty, "client=a");
    let mut unnamed = connect(&plain).await;
    let mut earlier = connect(&named).await;
    message_of(&mut earlier, "attached").await;
    let mut other = connect(&url(&service, &id, &pty, "client=b")).await;
    let mut later = connect(&named).await;
    loop {
        match earlier.next().await {
            Some(Ok(Message::Close(Some(frame)))) => {
                assert_eq!(u16::from(frame.code), 4409);
                break;
            }
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    // The others stay, and the end of the earlier connection removes nothing.
    type_numbered(&mut later, 1, "echo o''ne\n").await;
    for socket in [&mut unnamed, &mut other, &mut later] {
        read_until(socket, "one").await;
    }
    let mut last = connect(&named).await;
    message_of(&mut last, "attached").await;
    while !matches!(later.next().await, Some(Ok(Message::Close(Some(_))))) {}
}

#[tokio::test]
async fn a_connection_to_a_terminal_that_is_gone_is_closed_with_its_own_code() {
    let service = Service::start().await;
    service.expect_warnings();
    let id = service.sandbox().await;
    let (_, url) = open(&service, &id).await;
    let mut socket = connect(&url).await;
    message_of(&mut socket, "attached").await;
    service.simulated().end(&id, false).await;
    let path = format!("/api/v1/sandboxes/{id}");
    eventually("the end is noticed", async || {
        service.get(&path).await["state"] == "error"
    })
    .await;
    let start = format!("{path}/start");
    service.expect(Method::POST, &start, None, 200).await;
    let error = message_of(&mut socket, "error").await;
    assert_eq!(error["error"]["name"], "PTY_NOT_FOUND", "{error}");
    match socket.next().await {
        Some(Ok(Message::Close(Some(frame)))) => assert_eq!(u16::from(frame.code), 4404),
        other => panic!("{other:?}"),
    }
}
