//! A server that may open few files: connections cannot take those that the
//! store needs.

use reqwest::Method;
use serde_json::json;
use tokio::net::TcpStream;

use crate::harness::Service;
use crate::shared::file;

async fn land(service: &Service, project: &str, name: &str) {
    let path = format!("/api/v1/projects/{project}/apply");
    let change = json!({"files": [{"path": name, "content": name}]});
    service.expect(Method::POST, &path, Some(change), 200).await;
}

#[tokio::test]
async fn silent_connections_leave_the_store_its_descriptors() {
    let mut service = Service::new_without_engine(&[]);
    service.run_under(&["prlimit", "--nofile=256"]);
    let made = json!({"name": "steps"});
    let made = service.post("/api/v1/projects", made).await;
    let project = made["id"].as_str().unwrap().to_owned();
    // This connection stays. As many come as there are descriptors; more would
    // wait for the kernel's queue.
    land(&service, &project, "before").await;
    let address = service.url.trim_start_matches("http://").to_owned();
    let mut silent = Vec::new();
    for _ in 0..240 {
        if let Ok(connection) = TcpStream::connect(&address).await {
            silent.push(connection);
        }
    }
    for n in 0..100 {
        land(&service, &project, &format!("beside/{n}")).await;
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", service.pid())).unwrap();
    assert!(open.count() < 256, "some descriptors are left");
    drop(silent);
    service.kill();
    service.run();
    for n in 0..100 {
        let name = format!("beside/{n}");
        assert_eq!(file(&service, &project, &name).await, Some(name));
    }
}

#[test]
fn a_server_that_may_open_too_few_files_says_so() {
    let mut service = Service::new_without_engine(&[]);
    let refused = service.try_run_under(&["prlimit", "--nofile=100"], &[]);
    let said = refused.unwrap_err();
    assert!(said.contains("100 open files are too few"), "{said}");
    assert!(said.contains("LimitNOFILE"), "{said}");
}
