//! Attempts to exceed every limit of a sandbox.

use reqwest::Method;
use serde_json::json;

use super::{Arena, Runtime, in_each_runtime};

in_each_runtime!(
    more_processes_than_allowed_are_not_to_be_had,
    more_memory_than_allowed_ends_who_takes_it,
    more_files_than_the_disk_holds_are_not_to_be_had,
    ten_thousand_terminals_are_not_to_be_had,
    output_without_end_takes_bounded_memory,
);

/// Without separate cgroups these limits are not enforced: see `SECURITY.md`.
fn holds_cgroups(runtime: Runtime) -> bool {
    runtime == Runtime::Runc
}

/// Parses the `COUNT ERROR` of the probe.
fn count_of(text: &str) -> (u64, &str) {
    let line = text.lines().next().unwrap_or_default();
    let pair = line.split_once(' ');
    let (count, error) = pair.unwrap_or_else(|| panic!("{text}"));
    (count.parse().unwrap_or_else(|_| panic!("{text}")), error)
}

async fn more_processes_than_allowed_are_not_to_be_had(runtime: Runtime) {
    let arena = Arena::with(runtime, json!({"resources": {"pids": 64}})).await;
    let seen = arena.attack("/workspace/probe processes 200").await;
    let (count, error) = count_of(&seen);
    if holds_cgroups(runtime) {
        assert_eq!(error, "EAGAIN");
        assert!((30..64).contains(&count), "{count}");
    } else {
        assert_eq!((count, error), (200, "done"), "SECURITY.md says otherwise");
    }
    arena.unharmed().await;
    if holds_cgroups(runtime) {
        // A fork bomb runs for some seconds. During this time nothing else can
        // be started; then the sandbox works as before.
        let bomb = "bomb() { bomb | bomb & }; bomb; sleep 3; kill -9 -1";
        let body = json!({"command": bomb, "timeout": 8000});
        let path = format!("/api/v1/sandboxes/{}/process/run", arena.attacker);
        arena.service.post(&path, body).await;
        arena.unharmed().await;
    }
    crate::harness::eventually("the attacker's sandbox answers again", async || {
        let result = arena.service.run_in(&arena.attacker, "echo back").await;
        if result["stdout"] == "back\n" {
            return true;
        }
        arena.service.run_in(&arena.attacker, "kill -9 -1").await;
        false
    })
    .await;
}

async fn more_memory_than_allowed_ends_who_takes_it(runtime: Runtime) {
    let arena = Arena::with(runtime, json!({"resources": {"memory": "128m"}})).await;
    let result = arena
        .service
        .run_in(&arena.attacker, "/workspace/probe memory 400")
        .await;
    if holds_cgroups(runtime) {
        assert_eq!(result["exitCode"], 137, "{result}");
    } else {
        assert_eq!(
            result["exitCode"], 0,
            "SECURITY.md says otherwise: {result}"
        );
    }
    assert_eq!(arena.attack("echo back").await, "back\n");
    // Files in memory count as memory, or have their own limit.
    let filled = arena
        .attack("head -c 300m /dev/zero > /tmp/big; rm -f /tmp/big")
        .await;
    assert!(filled.contains("No space left on device"), "{filled}");
    arena.unharmed().await;
}

async fn more_files_than_the_disk_holds_are_not_to_be_had(runtime: Runtime) {
    let arena = Arena::with(runtime, json!({"resources": {"disk": "32m"}})).await;
    let full = |text: &str| text.contains("No space left") || text.contains("quota exceeded");
    for place in ["/workspace", "/home/agent"] {
        let seen = arena
            .attack(&format!(
                "head -c 100m /dev/zero > {place}/big; rm -f {place}/big"
            ))
            .await;
        assert!(full(&seen), "{place}: {seen}");
        // The space of deleted files is free some seconds later.
        crate::harness::eventually("there is room again", async || {
            let seen = arena
                .attack(&format!(
                    "head -c 1m /dev/zero > {place}/small && rm {place}/small"
                ))
                .await;
            !full(&seen)
        })
        .await;
    }
    // A limit on bytes also bounds empty files, since their names take space.
    let seen = arena
        .attack("mkdir many && /workspace/probe files /workspace/many 1000000")
        .await;
    let (count, error) = count_of(&seen);
    assert!(["ENOSPC", "EDQUOT"].contains(&error), "{seen}");
    assert!(count < 300_000, "{count}");
    arena.unharmed().await;
    // The full workspace is deleted like any other.
    arena.service.delete(&arena.attacker).await;
    arena.unharmed().await;
}

async fn ten_thousand_terminals_are_not_to_be_had(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    // Through the API.
    let pty = |id: &str| format!("/api/v1/sandboxes/{id}/pty");
    let wish = json!({"cols": 80, "rows": 24, "shell": "/bin/sh"});
    let mut opened = 0;
    for _ in 0..10_000 {
        let request = arena.service.request(Method::POST, &pty(&arena.attacker));
        let answer = request.json(&wish).send().await.unwrap();
        match answer.status().as_u16() {
            201 => opened += 1,
            429 => {
                let refused: serde_json::Value = answer.json().await.unwrap();
                assert_eq!(refused["error"]["name"], "PTY_LIMIT_EXCEEDED", "{refused}");
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(opened, 5);
    // Opens terminals through the kernel, whose terminals all sandboxes share.
    let attack = arena.begin("/workspace/probe terminals 10000 > held").await;
    let mut seen = String::new();
    crate::harness::eventually("it has what it can get", async || {
        seen = arena.attack("cat held").await;
        seen.contains(' ')
    })
    .await;
    let (count, error) = count_of(&seen);
    match runtime {
        Runtime::Runc => {
            assert_eq!(error, "ENOSPC");
            assert!((5..=30).contains(&count), "{count}");
        }
        // The terminals belong to gVisor's own kernel.
        Runtime::Runsc => assert!(count > 0, "{seen}"),
    }
    let made = arena
        .service
        .expect(Method::POST, &pty(&arena.neighbour), Some(wish), 201)
        .await;
    assert!(made["id"].is_string(), "{made}");
    let path = format!("/api/v1/sandboxes/{}/process/{attack}", arena.attacker);
    let kill = json!({"signal": 9});
    arena
        .service
        .expect(Method::POST, &format!("{path}/kill"), Some(kill), 204)
        .await;
    arena.unharmed().await;
}

async fn output_without_end_takes_bounded_memory(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    let before = resident(arena.service.pid());
    for _ in 0..8 {
        arena.begin("yes flood").await;
    }
    let path = format!("/api/v1/sandboxes/{}/process/run", arena.attacker);
    let body = json!({"command": "yes flood", "timeout": 4000, "maxOutputSize": 1000});
    let late = arena
        .service
        .expect(Method::POST, &path, Some(body), 422)
        .await;
    assert_eq!(late["error"]["name"], "PROCESS_TIMEOUT", "{late}");
    let kept = late["error"]["details"]["stdout"].as_str().unwrap();
    assert!(kept.len() <= 1000, "{}", kept.len());
    // Floods the output of the first process, which the engine stores.
    arena
        .attack("timeout 2 yes flood > /proc/1/fd/1; timeout 1 yes > /dev/console")
        .await;
    // The response arrived after all earlier output, which uses the same
    // connection.
    let grown = resident(arena.service.pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    let log = arena
        .service
        .get(&format!("/api/v1/sandboxes/{}/logs", arena.attacker))
        .await;
    let log = log["logs"].as_str().unwrap();
    match runtime {
        Runtime::Runc => assert!(!log.contains("flood"), "{log}"),
        // gVisor lets a program write to the log of its sandbox, which is
        // bounded.
        Runtime::Runsc => assert!(log.len() < 2_200_000, "{}", log.len()),
    }
    arena.unharmed().await;
}

/// Returns the resident memory of a process.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kilobytes << 10
}
