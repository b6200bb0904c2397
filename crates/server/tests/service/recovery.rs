//! Recovery from operations that an earlier server has left unfinished.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Service, eventually};

#[tokio::test]
async fn resources_without_an_owner_are_deleted() {
    let mut service = Service::start().await;
    service.expect_complaint("so it is in quarantine");
    let id = service.sandbox().await;
    let kept = service.sandbox().await;
    service.output_of(&kept, "echo mine > file").await;
    service.kill();
    // A container without a row, and a row without a container.
    service
        .sql(&format!("delete from sandboxes where id = '{id}'"))
        .await;
    service.simulated().vanish(&kept).await;
    service.run();
    assert!(service.containers().is_empty());
    let row = service.get(&format!("/api/v1/sandboxes/{kept}")).await;
    assert_eq!(row["state"], "error", "{row}");
    assert!(row["reason"].as_str().unwrap().contains("start"), "{row}");
    let started = service
        .post(&format!("/api/v1/sandboxes/{kept}/start"), json!({}))
        .await;
    assert_eq!(started["state"], "running", "{started}");
    assert_eq!(service.output_of(&kept, "cat file").await, "mine\n");
    let cleared = service.post("/api/v1/gc", json!({})).await;
    assert_eq!(cleared["cleanedSandboxes"], 0, "{cleared}");
}

#[tokio::test]
async fn only_a_sandbox_whose_id_was_never_returned_is_rolled_back() {
    let mut service = Service::start().await;
    let (fresh, again) = (service.sandbox().await, service.sandbox().await);
    service.output_of(&again, "echo mine > file").await;
    service.kill();
    // Changes the rows to those of a sandbox that is being created, and of one
    // that is being restarted.
    for (id, started_before) in [(&fresh, 0), (&again, 1)] {
        service
            .sql(&format!(
                "update sandboxes set state = 'starting', started_before = {started_before} \
                 where id = '{id}'"
            ))
            .await;
    }
    service.run();
    let path = format!("/api/v1/sandboxes/{fresh}");
    service.expect(Method::GET, &path, None, 404).await;
    assert_eq!(service.containers(), [again.as_str()]);
    assert!(!service.mounts().iter().any(|mount| mount.contains(&fresh)));
    let path = format!("/api/v1/sandboxes/{again}");
    let row = service.get(&path).await;
    assert_eq!(row["state"], "error", "{row}");
    let reason = row["reason"].as_str().unwrap();
    assert!(reason.contains("while the sandbox was starting"), "{row}");
    let started = service.post(&format!("{path}/start"), json!({})).await;
    assert_eq!(started["state"], "running", "{started}");
    assert_eq!(service.output_of(&again, "cat file").await, "mine\n");
}

/// Returns the rows of another node, one per line, with the columns that a recovery
/// changes.
async fn rows_of_another_node(service: &Service) -> String {
    let select = "select id, state, reason, removing, keep_workspace, expires, updated, generation \
                  from sandboxes where node = 2 order by id; \
                  select id, state, expires, updated, generation from workspaces \
                  where node = 2 order by id; \
                  select id, process from requests where process = 'session-99'";
    let mut sqlite = std::process::Command::new("sqlite3");
    sqlite.args(["-cmd", ".timeout 10000"]);
    sqlite.arg(service.data.join("catalog.db")).arg(select);
    let output = tokio::task::spawn_blocking(move || sqlite.output());
    let output = output.await.unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// The rows of the other node are in every state that a recovery or a job of their
/// own node would change. Their containers and directories are not here.
#[tokio::test]
async fn the_sandboxes_and_workspaces_of_another_node_stay_as_they_are() {
    let mut service = Service::start().await;
    let (kept, ends) = (service.sandbox().await, service.sandbox().await);
    let states = [
        "state = 'starting', started_before = 0",
        "state = 'starting', started_before = 1",
        "state = 'stopping'",
        "state = 'running'",
        "removing = 1",
        "expires = 1",
    ];
    let mut elsewhere = Vec::new();
    for _ in states {
        // The deleted sandbox leaves an id that no container and directory has.
        let id = service.sandbox().await;
        service.delete(&id).await;
        elsewhere.push(id);
    }
    // A workspace needs its base in the store.
    let path = format!("/api/v1/sandboxes/{kept}/snapshot");
    let snapshot = service.post(&path, json!({})).await;
    let base = snapshot["id"].as_str().unwrap().to_owned();
    service.kill();
    for (id, state) in elsewhere.iter().zip(states) {
        let copy = format!(
            "create temp table copy as select * from sandboxes where id = '{kept}'; \
             update copy set id = '{id}', workspace = '{id}', node = 2, {state}; \
             insert into sandboxes select * from copy"
        );
        service.sql(&copy).await;
    }
    for (id, state) in ["ws-parked", "ws-removing"]
        .iter()
        .zip(["parked", "removing"])
    {
        let add = format!(
            "insert into workspaces (id, tenant, api_key, base, synced, merges, sync, read_only, \
             follows, state, created, updated, expires, node) select '{id}', tenant, api_key, \
             x'{base}', x'{base}', 0, '{{}}', 0, 0, '{state}', created, updated, 1, 2 \
             from sandboxes where id = '{kept}'"
        );
        service.sql(&add).await;
    }
    let session = "insert into nodes (id, name, session, started, expires) \
                   values (2, 'two', 99, 1, 2)";
    service.sql(session).await;
    let request = format!(
        "insert into requests (tenant, name, fingerprint, id, process, keep_until) \
         select tenant, zeroblob(32), zeroblob(32), 'request', 'session-99', \
         created + 86400000000 from sandboxes where id = '{kept}'"
    );
    service.sql(&request).await;
    let own = format!("update sandboxes set expires = 1 where id = '{ends}'");
    service.sql(&own).await;
    let before = rows_of_another_node(&service).await;
    assert_eq!(before.lines().count(), 9, "{before}");

    service.run();
    assert_eq!(rows_of_another_node(&service).await, before);
    let path = format!("/api/v1/sandboxes/{ends}");
    eventually("the own expired sandbox is deleted", async || {
        let request = service.request(Method::GET, &path);
        request.send().await.unwrap().status() == 404
    })
    .await;
    let cleared = service.post("/api/v1/gc", json!({})).await;
    assert_eq!(cleared["cleanedSandboxes"], 0, "{cleared}");
    assert_eq!(rows_of_another_node(&service).await, before);
    let row = service.get(&format!("/api/v1/sandboxes/{kept}")).await;
    assert_eq!(row["state"], "running", "{row}");
}

/// Tests that need a real container engine.
mod on_docker {
    use super::*;
    use crate::harness::docker;

    /// Returns all rules of the machine's firewall.
    fn rules() -> String {
        let output = std::process::Command::new("/usr/sbin/iptables-save").output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    #[tokio::test]
    async fn a_server_that_ends_without_sandboxes_leaves_no_network() {
        let mut service = Service::with_docker().await;
        let wish = json!({"template": "base", "network": "internet"});
        let made = service.post("/api/v1/sandboxes", wish).await;
        let id = made["id"].as_str().unwrap();
        let label = "{{index .Config.Labels \"elevo.server\"}}";
        let server = docker(&["inspect", "--format", label, id]);
        let (filter, mark) = (
            format!("label=elevo.server={}", server.trim()),
            format!("elevo:{}", server.trim()),
        );
        let networks = || docker(&["network", "ls", "--quiet", "--filter", &filter]);
        let network = networks();
        assert_eq!(network.lines().count(), 1, "{network}");
        assert!(rules().contains(&mark));

        service.stop();
        assert_eq!(networks(), network, "the sandbox goes on");
        service.run();
        service.delete(id).await;
        service.stop();
        assert_eq!(networks(), "");
        let rules = rules();
        assert!(
            !rules.contains(&mark) && !rules.contains(network.trim()),
            "{rules}"
        );
    }
}
