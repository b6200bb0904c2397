//! Commands and terminals in sandboxes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::server::{Ended, Server};

#[test]
fn a_command_has_its_bytes_its_input_and_its_exit_code() {
    let server = Server::start();
    let id = server.sandbox();
    let ended = server.run(["exec", &id, "--", "echo out; echo err >&2; exit 3"]);
    assert_eq!(ended.code, 3);
    assert_eq!(
        (ended.stdout.as_slice(), ended.stderr.as_str()),
        (&b"out\n"[..], "err\n")
    );
    let words = [
        "exec", &id, "--", "printf", "%s|", "a b", "it's", "", "$HOME",
    ];
    assert_eq!(server.ok(words), "a b|it's||$HOME|");
    assert_eq!(server.run(["exec", &id, "--", "kill -9 $$"]).code, 137);
    let where_is = [
        "exec",
        "--cwd",
        "/tmp",
        "--env",
        "A=b c",
        &id,
        "--",
        "echo $PWD $A",
    ];
    assert_eq!(server.ok(where_is), "/tmp b c\n");
    // Bytes that are not UTF-8, in pieces that are cut anywhere.
    let bytes: Vec<u8> = (0..3_000_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let ended = server.feed(["exec", &id, "--", "cat"], &bytes);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout == bytes,
        "{} of {} bytes",
        ended.stdout.len(),
        bytes.len()
    );
    // A command that does not read its input ends nevertheless.
    assert_eq!(server.feed(["exec", &id, "--", "true"], &bytes).code, 0);
    let late = server.run(["exec", &id, "--timeout", "200", "--", "sleep 30"]);
    assert!(
        late.code > 128 && late.stderr.contains("timed out"),
        "{}",
        late.stderr
    );
    let missing = server.run(["exec", "--json", "sbx-none", "--", "true"]);
    assert_eq!(
        (missing.code, missing.name().as_str()),
        (125, "sandbox_not_found")
    );
    server.ok(["sandbox", "rm", &id]);
}

#[test]
fn restarts_of_the_server_lose_and_double_no_output() {
    let mut server = Server::start();
    let id = server.sandbox();
    let script = "i=0; while [ $i -lt 120 ]; do i=$((i+1)); echo line $i; sleep 0.05; done; exit 5";
    let mut command = server.command(["exec", "--timeout", "0", &id, "--", script]);
    let mut running = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let mut text = String::new();
    for signal in [Signal::TERM, Signal::KILL] {
        for _ in 0..20 {
            output.read_line(&mut text).unwrap();
        }
        server.end(signal);
        server.up();
    }
    output.read_to_string(&mut text).unwrap();
    let ended = Ended::new(running.wait_with_output().unwrap());
    assert_eq!(ended.code, 5, "{}", ended.stderr);
    let expected: String = (1..=120).map(|i| format!("line {i}\n")).collect();
    assert_eq!(text, expected);
    server.ok(["sandbox", "rm", &id]);
}

#[test]
fn an_interrupt_reaches_the_command() {
    let server = Server::start();
    let id = server.sandbox();
    let script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done";
    let mut command = server.command(["exec", &id, "--", script]);
    let mut running = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let mut text = String::new();
    output.read_line(&mut text).unwrap();
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    output.read_to_string(&mut text).unwrap();
    let ended = Ended::new(running.wait_with_output().unwrap());
    assert_eq!((ended.code, text.as_str()), (9, "ready\ncaught\n"));
    server.ok(["sandbox", "rm", &id]);
}

#[test]
fn a_command_in_the_background_is_listed_attached_to_and_killed() {
    let server = Server::start();
    let id = server.sandbox();
    let command = server.ok(["exec", "-b", &id, "--", "echo one; echo two; exit 4"]);
    let attached = server.run(["attach", &id, command.trim()]);
    assert_eq!(
        (attached.code, attached.stdout.as_slice()),
        (4, &b"one\ntwo\n"[..])
    );
    let rest = server.run(["attach", &id, command.trim(), "--offset", "4"]);
    assert_eq!((rest.code, rest.stdout.as_slice()), (4, &b"two\n"[..]));
    let sleeper = server.ok(["exec", "-b", &id, "--", "sleep 600"]);
    let listed = server.ok(["ps", &id, "--json"]);
    let infos = listed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let running: Vec<_> = infos
        .into_iter()
        .filter(|info| info["running"] == true)
        .collect();
    assert_eq!(running.len(), 1);
    assert_eq!(running[0]["commandId"], sleeper.trim());
    server.ok(["kill", &id, sleeper.trim(), "-s", "KILL"]);
    assert_eq!(server.run(["attach", &id, sleeper.trim()]).code, 137);
    server.ok(["sandbox", "rm", &id]);
}

#[test]
fn a_shell_is_a_terminal_and_ends_as_it_does() {
    let server = Server::start();
    let id = server.sandbox();
    let elevo = crate::server::ELEVO.as_str();
    // The input comes through a terminal, as from a person.
    let script = format!("stty rows 33 cols 99; exec '{elevo}' shell {id} --shell /bin/sh");
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--return", "--command", &script, "/dev/null"])
        .env("ELEVO_DATA", server.data())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut typing = running.stdin.take().unwrap();
    let mut output = running.stdout.take().unwrap();
    let mut seen = Vec::new();
    // The prompt of the shell; input before it may be lost.
    while !seen.ends_with(b"$ ") && !seen.ends_with(b"# ") {
        let mut byte = [0];
        output.read_exact(&mut byte).unwrap();
        seen.extend(byte);
    }
    typing.write_all(b"tty; stty size; exit 7\n").unwrap();
    output.read_to_end(&mut seen).unwrap();
    let ended = Ended::new(running.wait_with_output().unwrap());
    let seen = String::from_utf8_lossy(&seen).into_owned();
    assert_eq!(ended.code, 7, "{seen}");
    assert!(
        seen.contains("/dev/pts/") && seen.contains("33 99"),
        "{seen}"
    );
    let piped = server.run(["shell", "--json", &id]);
    assert_eq!((piped.code, piped.name().as_str()), (125, "not_a_terminal"));
    server.ok(["sandbox", "rm", &id]);
}
