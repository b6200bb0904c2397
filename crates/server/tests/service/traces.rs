//! Traces of requests, as a collector receives them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use reqwest::Method;
use serde_json::json;

use crate::harness::{Service, eventually};

/// A collector that keeps the received spans.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

impl Collector {
    async fn start() -> (Self, String) {
        let this = Self::default();
        let told = this.clone();
        let take = async move |body: Bytes| {
            let request = ExportTraceServiceRequest::decode(body).unwrap();
            let spans = request.resource_spans.into_iter();
            let spans = spans.flat_map(|resource| resource.scope_spans);
            let mut all = told.0.lock().unwrap();
            all.extend(spans.flat_map(|scope| scope.spans));
        };
        let router = Router::new().route("/v1/traces", post(take));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (this, url)
    }

    fn of(&self, trace: &str) -> Vec<Span> {
        let all = self.0.lock().unwrap();
        let is_it = |span: &&Span| hex(&span.trace_id) == trace;
        all.iter().filter(is_it).cloned().collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found = spans.iter().find(|span| span.name == name);
    found.unwrap_or_else(|| {
        let names: Vec<_> = spans.iter().map(|span| &span.name).collect();
        panic!("no span `{name}` in {names:?}")
    })
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

#[tokio::test]
async fn a_trace_goes_from_the_caller_to_the_agent_and_the_command() {
    let (collector, url) = Collector::start().await;
    let service = Service::start_with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]).await;
    let id = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let answer = service
        .request(Method::POST, &path)
        .header("traceparent", format!("00-{TRACE}-{CALLER}-01"))
        .json(&service.inside(&id, json!({"command": "echo $TRACEPARENT"})))
        .send()
        .await
        .unwrap();
    let answer: serde_json::Value = answer.json().await.unwrap();
    eventually("the spans are exported", async || {
        collector.of(TRACE).len() >= 3
    })
    .await;
    let spans = collector.of(TRACE);
    let request = named(&spans, "POST /api/v1/sandboxes/{id}/process/run");
    let call = named(&spans, "run_command");
    let agent = named(&spans, "agent run_command");
    assert_eq!(hex(&request.parent_span_id), CALLER);
    assert_eq!(call.parent_span_id, request.span_id);
    assert_eq!(agent.parent_span_id, call.span_id);
    for (inner, outer) in [(agent, call), (call, request)] {
        assert!(outer.start_time_unix_nano <= inner.start_time_unix_nano + 1_000_000);
        assert!(inner.end_time_unix_nano <= outer.end_time_unix_nano + 1_000_000);
    }
    // A command can continue the trace.
    let given = format!("00-{TRACE}-{}-01\n", hex(&request.span_id));
    assert_eq!(answer["stdout"], given, "{answer}");

    // A request without a trace starts its own, with the spans it waited for.
    eventually("the span of the create is exported", async || {
        let all = collector.0.lock().unwrap().clone();
        let create = all
            .iter()
            .find(|span| span.name == "POST /api/v1/sandboxes");
        let Some(create) = create else { return false };
        let parts: Vec<_> = all
            .iter()
            .filter(|span| span.parent_span_id == create.span_id)
            .map(|span| span.name.as_str())
            .collect();
        ["workspace.make", "container.make", "container.start"]
            .iter()
            .all(|name| parts.contains(name))
    })
    .await;
}

#[tokio::test]
async fn a_request_that_opts_out_is_not_traced() {
    let (collector, url) = Collector::start().await;
    let mut service =
        Service::start_with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &url), ("TRACE_SAMPLE", "0")]).await;
    let id = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let run = async |flags: &str| {
        let answer = service
            .request(Method::POST, &path)
            .header("traceparent", format!("00-{TRACE}-{CALLER}-{flags}"))
            .json(&service.inside(&id, json!({"command": "echo $TRACEPARENT"})))
            .send();
        let answer: serde_json::Value = answer.await.unwrap().json().await.unwrap();
        answer["stdout"].as_str().unwrap().to_owned()
    };
    assert_eq!(run("00").await, "\n");
    assert!(run("01").await.starts_with("00-"));
    // A server that stops exports the remaining spans first.
    service.terminate();
    service.ends().await;
    // The server has exported only the spans of the request with the flag.
    let all = collector.0.lock().unwrap().clone();
    assert!(all.iter().all(|span| hex(&span.trace_id) == TRACE));
    let requests = all.iter().filter(|span| span.name.starts_with("POST "));
    assert_eq!(requests.count(), 1);
}

#[tokio::test]
async fn a_collector_that_is_gone_holds_up_nothing() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", gone.local_addr().unwrap());
    let mut service = Service::start_with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]).await;
    let began = std::time::Instant::now();
    for _ in 0..3000 {
        service.get("/api/v1/templates").await;
    }
    assert!(began.elapsed() < Duration::from_secs(60));
    service.stop();
}

#[tokio::test]
async fn a_trace_has_no_ticket() {
    let (collector, url) = Collector::start().await;
    let mut service = Service::start_without_engine(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]);
    let wish = json!({"path": "/api/v1/events"});
    let made = service.post("/api/v1/tickets", wish).await;
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let answer = service.http.get(text("url")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    service.terminate();
    service.ends().await;
    let all = collector.0.lock().unwrap().clone();
    let all = format!("{all:?}");
    assert!(all.contains("GET /api/v1/events") && all.contains("POST /api/v1/tickets"));
    assert!(!all.contains(&text("ticket")), "a span has a ticket");
}
