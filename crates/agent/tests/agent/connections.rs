use std::time::Duration;

use elevo_agent_link::{Event, LinkError, LinkEvent, ProcessState, Settings};

use crate::support::{Agent, Pair, SANDBOX, Server, finish, read_until, until, within};

#[tokio::test]
async fn commands_outlive_the_server_and_lose_no_output() {
    let mut pair = Pair::start().await;
    let script = "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); sleep 0.005; done";
    let mut output = pair.start_command(pair.command("counting", script)).await;
    let mut all = String::new();
    let mut restarts = 0;
    let exit = loop {
        match within(output.next()).await {
            Ok(Event::Data { offset, data, .. }) => {
                assert_eq!(offset, all.len() as u64);
                all.push_str(std::str::from_utf8(&data).unwrap());
                if all.len() > (restarts + 1) * 1000 && restarts < 3 {
                    restarts += 1;
                    pair = restart(pair).await;
                }
            }
            Ok(Event::Exit(exit)) => break exit,
            Err(LinkError::Disconnected) => {
                let offset = output.offset();
                output = within(pair.link.attach("counting", offset)).await.unwrap();
            }
            other => panic!("{other:?}"),
        }
    };
    let expected: String = (0..400).map(|i| format!("line {i}\n")).collect();
    assert_eq!(all, expected);
    assert_eq!((exit.code, restarts), (Some(0), 3));
}

/// Stops the server, and starts another server on the same socket when the agent
/// has noticed the end of the first.
async fn restart(pair: Pair) -> Pair {
    let socket = pair.socket();
    let Pair {
        agent,
        server,
        directory,
        ..
    } = pair;
    server.stop().await;
    let _ = std::fs::remove_file(&socket);
    let between = tokio::net::UnixListener::bind(&socket).unwrap();
    within(between.accept()).await.unwrap();
    drop(between);
    let server = Server::start(&socket);
    let link = server.link().await;
    Pair {
        link,
        agent,
        server,
        directory,
    }
}

#[tokio::test]
async fn a_restarted_server_receives_all_processes_again() {
    let pair = Pair::start().await;
    let mut done = pair
        .start_command(pair.command("done", "echo before; exit 4"))
        .await;
    finish(&mut done).await;
    let much = "seq 1 1000000; echo end";
    pair.start_command(pair.command("blocked", much)).await;
    let before = pair.link.clone();
    let pair = restart(pair).await;
    assert_eq!(
        within(before.attach("done", 0)).await.unwrap_err(),
        LinkError::Disconnected
    );
    let process = pair.link.process("done").unwrap();
    assert_eq!(process.exit.unwrap().code, Some(4));
    let mut done = within(pair.link.attach("done", 0)).await.unwrap();
    assert_eq!(finish(&mut done).await.stdout, "before\n");
    // The command blocked until a reader came.
    let process = pair.link.process("blocked").unwrap();
    assert_eq!(process.state, ProcessState::Running);
    let mut blocked = within(pair.link.attach("blocked", 0)).await.unwrap();
    let done = finish(&mut blocked).await;
    let expected: String = (1..=1_000_000).map(|i| format!("{i}\n")).collect();
    assert!(done.stdout == expected + "end\n");
}

#[tokio::test]
async fn rejects_a_wrong_token_and_never_registers_the_agent() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("agent.sock");
    let server = Server::start(&socket);
    let mut events = server.links.events();
    let mut wrong = Agent::start_as(&socket, "wrong", &[]);
    server.rejects_more_tokens().await;
    assert!(server.links.get(SANDBOX).is_none());
    assert_eq!(server.links.count(), 0);
    assert!(events.try_recv().is_err());
    assert!(!wrong.has_ended(), "the agent retries");
    let _right = Agent::start(&socket);
    server.link().await;
    server.rejects_more_tokens().await;
    assert_eq!(server.links.count(), 1);
}

#[tokio::test]
async fn connections_are_reported_as_events() {
    let pair = Pair::start().await;
    let mut events = pair.server.links.events();
    assert_eq!(pair.server.links.count(), 1);
    assert_eq!(pair.link.version(), env!("CARGO_PKG_VERSION"));
    pair.server.links.forget(SANDBOX);
    let sandbox = SANDBOX.to_owned();
    let gone = within(events.recv()).await.unwrap();
    assert_eq!(
        gone,
        LinkEvent::Disconnected {
            sandbox: sandbox.clone()
        }
    );
    let back = within(events.recv()).await.unwrap();
    assert_eq!(back, LinkEvent::Connected { sandbox });
    let ended = within(pair.link.attach("x", 0)).await;
    assert_eq!(ended.unwrap_err(), LinkError::Disconnected);
    let link = pair.server.link().await;
    let nobody = within(link.attach("x", 0)).await;
    assert_eq!(nobody.unwrap_err(), LinkError::NoSuchProcess);
}

#[tokio::test]
async fn a_new_connection_replaces_the_old_one() {
    let pair = Pair::start().await;
    let mut output = pair
        .start_command(pair.command("old", "echo here; sleep 1000"))
        .await;
    read_until(&mut output, "here").await;
    let mut events = pair.server.links.events();
    let _second = Agent::start(&pair.socket());
    within(events.recv()).await.unwrap();
    let lost = within(output.next()).await;
    assert_eq!(lost, Err(LinkError::Disconnected));
}

#[tokio::test]
async fn a_silent_agent_is_disconnected() {
    let settings = Settings {
        heartbeat: Duration::from_millis(200),
        ..Settings::default()
    };
    let pair = Pair::with(settings).await;
    let usage = || pair.link.usage();
    until("a heartbeat comes", || usage().is_some()).await;
    let first = usage().unwrap().at_ms;
    until("another one comes", || usage().unwrap().at_ms > first).await;
    let pid = rustix::process::Pid::from_raw(pair.agent.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    until("it is lost", || pair.server.links.count() == 0).await;
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    pair.server.link().await;
}

#[tokio::test]
async fn an_agent_connects_over_tcp() {
    let pair = Pair::start().await;
    // The first agent is killed, because it would reconnect and replace the new
    // connection.
    let pid = rustix::process::Pid::from_raw(pair.agent.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until("it has gone", || pair.server.links.count() == 0).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let links = pair.server.links.clone();
    let serving = links.clone();
    let server =
        tokio::spawn(async move { serving.serve_tcp(listener, std::future::pending()).await });
    let mut events = links.events();
    let mut agent = std::process::Command::new(env!("CARGO_BIN_EXE_workspace-agent"))
        .env("WORKSPACE_SERVER", address.to_string())
        .env("SANDBOX_ID", SANDBOX)
        .env("SANDBOX_TOKEN", crate::support::TOKEN)
        .spawn()
        .unwrap();
    within(events.recv()).await.unwrap();
    let link = links.get(SANDBOX).unwrap();
    let output = within(link.run(pair.command("tcp", "echo over tcp"))).await;
    let done = finish(&mut output.unwrap().unwrap()).await;
    assert_eq!(done.stdout, "over tcp\n");
    agent.kill().unwrap();
    agent.wait().unwrap();
    server.abort();
}
