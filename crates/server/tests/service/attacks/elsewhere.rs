//! The agent reads files for the API. It has more rights on itself than other
//! processes have on it.

use reqwest::Method;

use super::{Arena, Runtime, in_each_runtime};

in_each_runtime!(the_agent_hands_out_no_file_about_processes);

async fn the_agent_hands_out_no_file_about_processes(runtime: Runtime) {
    let arena = Arena::new(runtime).await;
    let links = "ln -s /proc/self/mem /tmp/memory; ln -s /proc/1 /tmp/first; mkfifo /tmp/pipe";
    arena.attack(links).await;
    let url = |path: &str| format!("/api/v1/sandboxes/{}/files?path={path}", arena.attacker);
    // A file that is allowed can be read, so that the others are denied.
    let sent = arena
        .service
        .request(Method::GET, &url("/etc/hosts"))
        .send();
    assert_eq!(sent.await.expect("the server answers").status(), 200);
    for path in [
        "/proc/1/mem",
        "/proc/1/environ",
        "/proc/self/mem",
        "/proc/self/task/1/mem",
        "/proc/self/root/proc/1/mem",
        "/proc/self/fd/0",
        "/dev/fd/3",
        "/tmp/memory",
        "/tmp/first/environ",
        "/tmp/pipe",
    ] {
        for method in [Method::GET, Method::PUT] {
            // A put replaces a link, and does not follow it.
            if method == Method::PUT && ["/tmp/memory", "/tmp/pipe"].contains(&path) {
                continue;
            }
            let sent = arena.service.request(method.clone(), &url(path));
            let sent = sent.body("x");
            let status = sent.send().await.expect("the server answers").status();
            assert!(status.is_client_error(), "{method} {path}: {status}");
        }
    }
    arena.unharmed().await;
}
