//! Commands.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;

use crate::harness::{Events, Service, eventually};

#[tokio::test]
async fn commands_have_results_and_failures_to_start_are_errors() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let result = service.run_in(&id, "echo out; echo err >&2; exit 7").await;
    assert_eq!(
        (&result["exitCode"], &result["stdout"], &result["stderr"]),
        (&json!(7), &json!("out\n"), &json!("err\n"))
    );
    let killed = service.run_in(&id, "kill -9 $$").await;
    assert_eq!(
        (&killed["exitCode"], &killed["signal"]),
        (&json!(137), &json!(9))
    );
    let body = json!({"command": "pwd; echo $COLOUR; cat", "cwd": "/tmp", "envs": {"COLOUR": "red"}, "stdin": "given"});
    let result = service.post(&path, body).await;
    assert_eq!(result["stdout"], "/tmp\nred\ngiven");
    let binary = service.run_in(&id, "printf '\\377\\000'").await;
    assert_eq!(
        (&binary["stdoutEncoding"], &binary["stdout"]),
        (&json!("base64"), &json!("/wA="))
    );
    let body = json!({"command": "yes | head -c 3000000", "maxOutputSize": 1000});
    let cut = service.post(&path, service.inside(&id, body)).await;
    assert_eq!(
        (&cut["truncated"], cut["stdout"].as_str().unwrap().len()),
        (&json!(true), 1000)
    );

    let bytes = STANDARD.encode([0xff, 0]);
    let body = json!({"args": ["od", "-An", "-tx1"], "stdinBase64": bytes});
    let result = service.post(&path, service.inside(&id, body)).await;
    assert_eq!(result["stdout"], " ff 00\n");
    for body in [
        json!({}),
        json!({"command": "true", "args": ["true"]}),
        json!({"args": [""]}),
        json!({"args": ["echo", "a\0b"]}),
        json!({"command": "cat", "stdin": "a", "stdinBase64": "YQ=="}),
        json!({"command": "cat", "stdinBase64": "?"}),
    ] {
        let refused = service.expect(Method::POST, &path, Some(body), 400).await;
        assert_eq!(refused["error"]["name"], "INVALID_REQUEST", "{refused}");
    }

    let body = json!({"command": "true", "cwd": "/nowhere"});
    let failed = service.expect(Method::POST, &path, Some(body), 422).await;
    assert_eq!(failed["error"]["name"], "COMMAND_FAILED", "{failed}");
    let body = json!({"command": "echo before; sleep 60", "timeout": 500});
    let body = service.inside(&id, body);
    let late = service.expect(Method::POST, &path, Some(body), 422).await;
    assert_eq!(late["error"]["name"], "PROCESS_TIMEOUT", "{late}");
    let details = &late["error"]["details"];
    assert_eq!(
        (&details["stdout"], &details["timedOut"]),
        (&json!("before\n"), &json!(true)),
        "{late}"
    );
    // A background process of a shell does not delay its end.
    let result = service.run_in(&id, "sleep 50 & echo done").await;
    assert_eq!(result["stdout"], "done\n");
}

#[tokio::test]
async fn output_streams_as_it_comes() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let body = json!({"command": "echo one; sleep 0.3; echo zwei ä >&2; sleep 0.3; printf '\\377'; exit 3", "stream": true});
    let request = service.request(Method::POST, &format!("/api/v1/sandboxes/{id}/process/run"));
    let body = service.inside(&id, body);
    let mut events = Events::new(request.json(&body).send().await.unwrap());
    let mut seen = Vec::new();
    while let Some((_, event)) = events.next().await {
        seen.push(event);
    }
    let kinds: Vec<_> = seen
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["start", "stdout", "stderr", "stdout", "exit"],
        "{seen:?}"
    );
    assert_eq!(
        (&seen[1]["data"], &seen[2]["data"]),
        (&json!("one\n"), &json!("zwei ä\n"))
    );
    assert_eq!(
        (&seen[3]["data"], &seen[3]["encoding"]),
        (&json!("/w=="), &json!("base64"))
    );
    assert_eq!(seen[4]["exitCode"], 3);
}

#[tokio::test]
async fn background_commands_are_listed_attached_to_fed_and_killed() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let run = format!("/api/v1/sandboxes/{id}/process/run");
    let body = json!({"command": "while read line; do echo got $line; done; echo end", "background": true, "openStdin": true});
    let body = service.inside(&id, body);
    let started = service.expect(Method::POST, &run, Some(body), 202).await;
    let command = started["commandId"].as_str().unwrap();
    let list = service
        .get(&format!("/api/v1/sandboxes/{id}/process"))
        .await;
    assert_eq!(
        (&list["items"][0]["commandId"], &list["items"][0]["running"]),
        (&json!(command), &json!(true))
    );
    assert_eq!(list["items"][0]["endedAt"], json!(null));

    let input = format!("/api/v1/sandboxes/{id}/process/{command}/input");
    for (data, eof) in [("a\n", false), ("b\n", true)] {
        let body = json!({"data": STANDARD.encode(data), "eof": eof});
        service.expect(Method::POST, &input, Some(body), 204).await;
    }
    let output = format!("/api/v1/sandboxes/{id}/process/{command}/output");
    let collect = async |offset: u64| {
        let request = service.request(Method::GET, &format!("{output}?offset={offset}"));
        let mut events = Events::new(request.send().await.unwrap());
        let mut text = String::new();
        while let Some((_, event)) = events.next().await {
            text += event["data"].as_str().unwrap_or_default();
        }
        text
    };
    assert_eq!(collect(0).await, "got a\ngot b\nend\n");
    let info = format!("/api/v1/sandboxes/{id}/process/{command}");
    eventually("the end is known", async || {
        service.get(&info).await["running"] == false
    })
    .await;
    let info = service.get(&info).await;
    assert!(info["pid"].as_i64().unwrap() > 1, "{info}");
    let time = |name: &str| info[name].as_str().unwrap().parse::<jiff::Timestamp>();
    assert!(time("endedAt").unwrap() >= time("startedAt").unwrap());
    assert_eq!(collect(6).await, "got b\nend\n");

    let body = json!({"command": "trap '' TERM; sleep 100; sleep 100", "background": true});
    let started = service.post(&run, service.inside(&id, body)).await;
    let command = started["commandId"].as_str().unwrap();
    let kill = format!("/api/v1/sandboxes/{id}/process/{command}/kill");
    service
        .expect(Method::POST, &kill, Some(json!({"signal": 9})), 204)
        .await;
    let info = format!("/api/v1/sandboxes/{id}/process/{command}");
    eventually("it is killed", async || {
        service.get(&info).await["signal"] == 9
    })
    .await;
    service
        .expect(Method::POST, &format!("{run}x"), None, 405)
        .await;
    let missing = service
        .expect(
            Method::GET,
            &format!("/api/v1/sandboxes/{id}/process/cmd-none"),
            None,
            404,
        )
        .await;
    assert_eq!(missing["error"]["name"], "PROCESS_NOT_FOUND");
}
