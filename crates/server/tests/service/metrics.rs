//! The metrics of a server, and the dashboards and alerts that use them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::Service;

/// Metrics with the names of their labels.
type Exported = BTreeMap<String, BTreeSet<String>>;

async fn exported(service: &Service) -> Exported {
    let url = format!("{}/metrics", service.metrics);
    let text = service.http.get(url).send().await.unwrap();
    let text = text.text().await.unwrap();
    let mut found = Exported::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, _)) = line.rsplit_once(' ') else {
            continue;
        };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let entry = found.entry(name.to_owned()).or_default();
        for label in labels.split("\",") {
            if let Some((label, _)) = label.split_once('=') {
                entry.insert(label.trim().to_owned());
            }
        }
    }
    found
}

/// Returns the metrics in an expression, with the labels that it uses.
fn used(expression: &str) -> Vec<(String, Vec<String>)> {
    const NOT_METRICS: &[&str] = &[
        "sum",
        "by",
        "rate",
        "increase",
        "histogram_quantile",
        "topk",
        "on",
        "le",
        "label_values",
        "instance",
        "state",
        "status",
        "template",
        "result",
        "endpoint",
        "up",
        "e9",
    ];
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic()) {
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        let mut labels = Vec::new();
        if let Some(inside) = after.strip_prefix('{') {
            let close = inside.find('}').unwrap();
            for label in inside[..close].split(',') {
                let name = label.split(['=', '!']).next().unwrap();
                labels.push(name.trim().to_owned());
            }
            rest = &inside[close + 1..];
        }
        if let Some(range) = rest.strip_prefix('[') {
            rest = &range[range.find(']').unwrap() + 1..];
        }
        if !NOT_METRICS.contains(&word) {
            found.push((word.to_owned(), labels));
        }
    }
    found
}

fn expressions_of_rules(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "));
    lines.map(str::to_owned).collect()
}

fn expressions_of_dashboard(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "expr" || name == "query" => {
                        found.push(text.clone());
                    }
                    value => expressions_of_dashboard(value, found),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                expressions_of_dashboard(item, found);
            }
        }
        _ => {}
    }
}

#[test]
fn metrics_of_expressions_are_distinguished_from_functions() {
    let found = used("sum by (le) (rate(a_bucket{x=~\"$y\", z=\"1\"}[5m])) / rate(b[1m]) > 0.5");
    let expected = [
        ("a_bucket".to_owned(), vec!["x".to_owned(), "z".to_owned()]),
        ("b".to_owned(), vec![]),
    ];
    assert_eq!(found, expected);
}

/// Tests that need a real container engine.
mod on_docker {
    use super::*;

    #[tokio::test]
    async fn rules_and_the_dashboard_use_what_a_server_exports() {
        let service = Service::with_docker_and(&[
            ("WARM_POOL", "base=1"),
            ("WEBHOOK_URL", "http://127.0.0.1:9/"),
            ("WEBHOOK_ALLOW_PRIVATE", "true"),
            ("WEBHOOK_RETRY", "0"),
        ])
        .await;
        service.expect_complaint("cannot fill a warm pool");
        // Makes every measured thing happen once.
        let id = service.sandbox().await;
        service.run_in(&id, "true").await;
        let path = format!("/api/v1/sandboxes/{id}");
        service.post(&format!("{path}/snapshot"), json!({})).await;
        let forked = service.post(&format!("{path}/fork"), json!({})).await;
        assert_eq!(forked["failed"], json!([]), "{forked}");
        let project = service.post("/api/v1/projects", json!({"name": "p"})).await;
        let wish = json!({"project": project["id"]});
        let workspace = service.post("/api/v1/workspaces", wish).await;
        let path = workspace["id"].as_str().unwrap();
        let merged = service
            .post(&format!("/api/v1/workspaces/{path}/merge"), json!({}))
            .await;
        assert!(
            merged["head"].is_string() || merged["version"].is_string(),
            "{merged}"
        );
        crate::harness::eventually(
            "an event was not delivered, and a pool is known",
            async || {
                let all = exported(&service).await;
                all.contains_key("webhook_deliveries_total")
                    && all.contains_key("sandbox_pool_ready")
            },
        )
        .await;

        let all = exported(&service).await;
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        let rules = std::fs::read_to_string(deploy.join("prometheus/elevo.rules.yml")).unwrap();
        let dashboard = std::fs::read_to_string(deploy.join("grafana/elevo.json")).unwrap();
        let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
        let mut expressions = expressions_of_rules(&rules);
        assert_eq!(expressions.len(), rules.matches("- alert:").count());
        let count = expressions.len();
        expressions_of_dashboard(&dashboard, &mut expressions);
        expressions.retain(|expression| expression != "prometheus");
        assert!(expressions.len() > count + 15);
        let mut names = BTreeSet::new();
        for expression in &expressions {
            for (name, labels) in used(expression) {
                let Some(has) = all.get(&name) else {
                    panic!(
                        "no metric `{name}`, which `{expression}` needs: {:?}",
                        all.keys()
                    );
                };
                for label in labels {
                    // Labels that Prometheus adds.
                    let added = matches!(label.as_str(), "instance" | "job");
                    assert!(added || has.contains(&label), "{name} has no `{label}`");
                }
                names.insert(name);
            }
        }
        // Every exported metric is used. Those of the process are the standard set
        // of Prometheus, of which the dashboard shows a part.
        let base = |name: &str| {
            ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end))
                .unwrap_or(name)
                .to_owned()
        };
        let seen: BTreeSet<_> = names.iter().map(|name| base(name)).collect();
        for name in all.keys().filter(|name| !name.starts_with("process_")) {
            assert!(seen.contains(&base(name)), "`{name}` is on no dashboard");
        }
    }
}
