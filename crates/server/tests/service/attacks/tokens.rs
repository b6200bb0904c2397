//! The agent's socket, which every sandbox can reach.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Arena, Runtime, create, in_each_runtime, token};
use crate::harness::eventually;

in_each_runtime!(
    a_sandbox_cannot_act_as_another,
    a_token_of_the_past_is_worth_nothing,
    guesses_are_refused_and_do_not_flood_the_log,
    silent_connections_keep_no_one_out,
);

const SOCKET: &str = "/.elevo/run/agent.sock";
const REFUSED: &str = "rejected a workspace agent with a wrong token";

/// Connects as the agent of a sandbox, from within the attacker's; returns the
/// outcome.
async fn speak_as(arena: &Arena, sandbox: &str, token: &str) -> String {
    let command = format!("/workspace/probe speak {SOCKET} '{sandbox}' '{token}'");
    arena.attack(&command).await.trim().to_owned()
}

/// Returns a well-formed token that no sandbox has.
fn made_up() -> String {
    format!("elvs_{}", "A".repeat(43))
}

/// Asserts that the log has the sandbox and the reason, and never a token.
fn assert_logged(arena: &Arena, sandbox: &str, tokens: &[&str]) {
    let lines = arena.logged(REFUSED);
    assert!(lines.iter().any(|line| line.contains(sandbox)), "{lines:?}");
    let log = arena.log();
    assert!(!log.contains("elvs_"), "{log}");
    for token in tokens.iter().filter(|token| !token.is_empty()) {
        assert!(!log.contains(token), "{log}");
    }
}

async fn a_sandbox_cannot_act_as_another(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    let own = token(&arena.attacker);
    let guess = made_up();
    let neighbours = token(&arena.neighbour);
    // One letter differs.
    let (start, last) = neighbours.split_at(neighbours.len() - 1);
    let near = format!("{start}{}", if last == "A" { "E" } else { "A" });
    let tokens = [&*own, &*guess, &*near, "elvs_", "", "*"];
    for token in tokens {
        let seen = speak_as(&arena, &arena.neighbour, token).await;
        assert_eq!(seen, "refused", "{token}");
    }
    assert_logged(&arena, &arena.neighbour, &tokens[..3]);
    // The attacker cannot connect as a sandbox that does not exist or whose
    // name is invalid either.
    for sandbox in ["sbx-0123456789abcdef", "../../x", "*", "\" or 1=1 --", ""] {
        assert_eq!(
            speak_as(&arena, sandbox, &own).await,
            "refused",
            "{sandbox}"
        );
    }
    assert_eq!(
        arena.logged("an agent has disconnected"),
        Vec::<String>::new()
    );
    arena.unharmed().await;
    // The same request is accepted with the right token, so the denials above are
    // not parse errors.
    assert_eq!(speak_as(&arena, &arena.attacker, &own).await, "accepted");
    let log = arena.log();
    assert!(!log.contains(&own), "{log}");
}

async fn a_token_of_the_past_is_worth_nothing(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    // The token of a deleted sandbox.
    let removed = create(&arena.service, runtime, json!({})).await;
    let old = token(&removed);
    arena.service.delete(&removed).await;
    assert_eq!(speak_as(&arena, &removed, &old).await, "refused");
    assert_eq!(speak_as(&arena, &arena.neighbour, &old).await, "refused");
    assert_logged(&arena, &removed, &[&old]);

    // The token of a sandbox that lost its container and was restarted.
    let failed = create(&arena.service, runtime, json!({})).await;
    let old = token(&failed);
    crate::harness::docker(&["rm", "-f", &failed]);
    let path = format!("/api/v1/sandboxes/{failed}");
    eventually("the loss is noticed", async || {
        arena.service.get(&path).await["state"] == "error"
    })
    .await;
    let started = arena
        .service
        .post(&format!("{path}/start"), json!({}))
        .await;
    assert_eq!(started["state"], "running", "{started}");
    assert_eq!(speak_as(&arena, &failed, &old).await, "refused");
    assert_logged(&arena, &failed, &[&old, &token(&failed)]);
    assert_eq!(
        arena.service.output_of(&failed, "echo here").await,
        "here\n"
    );
    arena.unharmed().await;
}

async fn guesses_are_refused_and_do_not_flood_the_log(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    let guess = format!("/workspace/probe guess {SOCKET} {} 3000", arena.neighbour);
    let started = Instant::now();
    assert_eq!(arena.attack(&guess).await, "refused 3000\n");
    let lines = arena.logged(REFUSED).len() as u64;
    assert!(lines > 0, "it is logged");
    let most = 10 + started.elapsed().as_secs();
    assert!(lines <= most, "{lines} lines, {most} would do");
    assert_logged(&arena, &arena.neighbour, &[]);
    assert_eq!(
        arena.logged("an agent has disconnected"),
        Vec::<String>::new()
    );
    arena.unharmed().await;
}

async fn silent_connections_keep_no_one_out(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    let began = Instant::now();
    let attack = arena
        .begin(&format!("/workspace/probe hold {SOCKET} 30"))
        .await;
    // The probe reports nothing before it ends, but the server does.
    let many = "its sandbox has too many connections without a valid token";
    eventually("the probe holds all it can get", async || {
        !arena.logged(many).is_empty()
    })
    .await;
    for _ in 0..3 {
        let started = Instant::now();
        let new = create(&arena.service, runtime, json!({})).await;
        assert_eq!(arena.service.output_of(&new, "echo hello").await, "hello\n");
        let took = started.elapsed();
        assert!(took < Duration::from_secs(20), "{took:?}");
    }
    arena.unharmed().await;
    let path = format!("/api/v1/sandboxes/{}/process/{attack}", arena.attacker);
    eventually("the attack is over", async || {
        arena.service.get(&path).await["running"] == false
    })
    .await;
    // More connections were tried than may exist at a time.
    let output = arena
        .service
        .request(reqwest::Method::GET, &format!("{path}/output"));
    let text = output.send().await.unwrap().text().await.unwrap();
    assert!(text.contains("held"), "{text}");
    // There are two kinds of log lines, for too many connections and for late
    // ones. Each kind is limited to ten lines, and then to one per second.
    let lines = arena.logged("closed a connection").len() as u64;
    let most = 2 * (10 + began.elapsed().as_secs());
    assert!(
        (1..=most).contains(&lines),
        "{lines} lines, {most} would do"
    );
    arena.unharmed().await;
}
