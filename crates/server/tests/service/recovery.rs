//! Recovery from operations that an earlier server has left unfinished.

use reqwest::Method;
use serde_json::json;

use crate::harness::Service;

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
