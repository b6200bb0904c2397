//! Files of a running sandbox outside of its workspace and its home, which the
//! agent in the container reads and changes.

/// Tests that need a real container engine.
mod on_docker {
    use reqwest::{Method, StatusCode};
    use serde_json::{Value, json};

    use crate::harness::Service;

    async fn status(service: &Service, method: Method, path: &str) -> StatusCode {
        let sent = service.request(method, path).send().await;
        sent.expect("the server answers").status()
    }

    /// Expects an error with this code.
    async fn fails(service: &Service, method: Method, path: &str, code: &str) {
        let sent = service.request(method, path).body("x").send().await;
        let body: Value = sent.expect("the server answers").json().await.unwrap();
        assert_eq!(body["error"]["name"], code, "{path}: {body}");
    }

    #[tokio::test]
    async fn files_elsewhere_in_a_container_are_read_and_changed() {
        let service = Service::with_docker().await;
        let wish = json!({"template": "base", "network": "none"});
        let created = service.post("/api/v1/sandboxes", wish).await;
        let id = created["id"].as_str().unwrap().to_owned();
        let at = |path: &str| format!("/api/v1/sandboxes/{id}/files?path={path}");
        let content: Vec<u8> = (0..2_000_000_u32).map(|i| (i / 3) as u8).collect();
        let url = at("/tmp/one/two/file") + "&mode=0640";
        let sent = service.request(Method::PUT, &url).body(content.clone());
        let sent = sent.send().await.unwrap();
        assert_eq!(sent.status(), 201);
        let tag = sent.headers()["etag"].to_str().unwrap().to_owned();
        let put: Value = sent.json().await.unwrap();
        assert_eq!(
            (&put["mode"], &put["size"]),
            (&json!("0640"), &json!(2_000_000))
        );
        let owner = service
            .output_of(&id, "stat -c %u /tmp/one/two/file; id -u")
            .await;
        let owners: Vec<_> = owner.lines().collect();
        assert_eq!(owners[0], owners[1]);
        let url = at("/tmp/one/two/file");
        let got = service.request(Method::GET, &url).send().await.unwrap();
        assert_eq!(got.headers()["etag"].to_str().unwrap(), tag);
        assert!(got.bytes().await.unwrap()[..] == content[..]);
        let part = service.request(Method::GET, &url);
        let part = part.header("range", "bytes=1000000-1999998").send().await;
        let part = part.unwrap();
        assert_eq!(part.status(), 206);
        assert!(part.bytes().await.unwrap()[..] == content[1_000_000..1_999_999]);
        let same = service
            .request(Method::GET, &url)
            .header("if-none-match", &tag);
        assert_eq!(same.send().await.unwrap().status(), 304);
        let other = service
            .request(Method::PUT, &url)
            .header("if-match", "\"other\"");
        let other = other.body("x").send().await.unwrap();
        assert_eq!(other.status(), 412);
        let again = service.request(Method::PUT, &url).header("if-match", &tag);
        let again = again.body("shorter").send().await.unwrap();
        assert_eq!(again.status(), 200);
        let made = json!({"path": "/tmp/one/three"});
        let files = format!("/api/v1/sandboxes/{id}/files");
        let mkdir = format!("{files}/mkdir");
        service.expect(Method::POST, &mkdir, Some(made), 201).await;
        let moving = json!({"from": "/tmp/one/two/file", "to": "/tmp/one/three/moved"});
        let url = format!("{files}/move");
        let renamed = service.expect(Method::POST, &url, Some(moving), 200);
        assert_eq!(renamed.await["path"], "/tmp/one/three/moved");
        let page = service
            .get(&format!("{files}/list?path=/tmp/one&limit=1"))
            .await;
        assert_eq!(page["items"][0]["path"], "/tmp/one/three");
        let next = page["next"].as_str().unwrap();
        let page = format!("{files}/list?path=/tmp/one&limit=1&cursor={next}");
        let page = service.get(&page).await;
        assert_eq!(page["items"][0]["name"], "two");
        fails(
            &service,
            Method::DELETE,
            &at("/tmp/one"),
            "DIRECTORY_NOT_EMPTY",
        )
        .await;
        let url = at("/tmp/one") + "&recursive=true";
        assert_eq!(status(&service, Method::DELETE, &url).await, 204);
        fails(&service, Method::GET, &at("/tmp/one/two"), "PATH_NOT_FOUND").await;
        refusals(&service, &id).await;
    }

    /// Checks the errors of a running and of a stopped sandbox.
    async fn refusals(service: &Service, id: &str) {
        let at = |path: &str| format!("/api/v1/sandboxes/{id}/files?path={path}");
        assert_eq!(status(service, Method::GET, &at("/etc/hosts")).await, 200);
        assert_eq!(
            status(service, Method::GET, &at("/proc/meminfo")).await,
            200
        );
        for (method, path, code) in [
            (Method::GET, "/etc", "IS_A_DIRECTORY"),
            (Method::GET, "/etc/hosts/x", "NOT_A_DIRECTORY"),
            (Method::GET, "/dev/null", "NOT_A_FILE"),
            (Method::PUT, "/etc/new", "FORBIDDEN"),
            (Method::DELETE, "/etc/hosts", "FORBIDDEN"),
        ] {
            fails(service, method, &at(path), code).await;
        }
        let sandbox = service.get(&format!("/api/v1/sandboxes/{id}")).await;
        let workspace = sandbox["workspace"].as_str().unwrap();
        let stop = format!("/api/v1/sandboxes/{id}/stop");
        service.post(&stop, json!({})).await;
        fails(
            service,
            Method::GET,
            &at("/etc/hosts"),
            "SANDBOX_WRONG_STATE",
        )
        .await;
        let of_workspace = format!("/api/v1/workspaces/{workspace}/files?path=/etc/hosts");
        let sent = service.request(Method::GET, &of_workspace).send().await;
        assert!(sent.unwrap().status().is_client_error());
    }
}
