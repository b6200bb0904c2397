//! A watch under load.

use elevo_testkit::long;
use reqwest::Method;
use serde_json::json;

use crate::harness::{Events, Service};

/// Directories of the watched tree, and changes in a second.
const WATCHED: usize = 1000;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_keeps_up_sees_a_thousand_changes_a_second() {
    let seconds = long::rounds(60, 5);
    let service = Service::with_docker().await;
    let id = service.sandbox().await;
    let directories = format!("i=0; while [ $i -lt {WATCHED} ]; do mkdir d$i; i=$((i+1)); done");
    service.output_of(&id, &directories).await;
    let path = format!("/api/v1/sandboxes/{id}/files/watch");
    let request = service.request(Method::GET, &path);
    let mut events = Events::new(request.send().await.unwrap());
    assert_eq!(events.next().await.unwrap().1["kind"], "watching");
    let count = seconds as usize * WATCHED;
    let write = format!(
        "n=0; while [ $n -lt {count} ]; do : > d$((n % {WATCHED}))/f$n; n=$((n+1)); \
         [ $((n % 50)) != 0 ] || sleep 0.03; done"
    );
    let wish = json!({"command": write, "background": true});
    let run = format!("/api/v1/sandboxes/{id}/process/run");
    service.expect(Method::POST, &run, Some(wish), 202).await;
    let began = std::time::Instant::now();
    let mut created = std::collections::HashSet::new();
    while created.len() < count {
        let (_, event) = events.next().await.expect("a stream");
        assert_ne!(event["kind"], "gap");
        if event["kind"] == "created" {
            created.insert(event["path"].as_str().unwrap().to_owned());
        }
    }
    for n in 0..count {
        assert!(created.contains(&format!("d{}/f{n}", n % WATCHED)), "{n}");
    }
    let rate = count as f64 / began.elapsed().as_secs_f64();
    long::note(format_args!(
        "{count} changes, {rate:.0} a second, all seen"
    ));
}
