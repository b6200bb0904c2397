//! Traces of requests from HTTP to the agent, exported by OTLP.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use async_trait::async_trait;
use axum::http::HeaderMap;
use elevo_agent_link::AgentCall;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{Span as _, SpanKind, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue, global};
use opentelemetry_http::{Bytes, HeaderExtractor, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tokio::runtime::Handle;
use tracing::level_filters::LevelFilter;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use crate::config::TracesConfig;

/// The tracing target of exported spans, which are not logged.
pub const TRACE_TARGET: &str = "elevo::trace";

/// Maximum time for a response of the collector.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time that the shutdown waits for the last export.
const LAST: Duration = Duration::from_secs(3);

/// Exports spans to a collector. Spans that the collector does not accept in
/// time are dropped: no request waits for the collector, and at most 2,048
/// spans are held in memory.
pub struct Traces(SdkTracerProvider);

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Traces")
    }
}

impl Traces {
    /// Starts the export, if it is configured.
    pub fn begin(config: Option<&TracesConfig>, runtime: &Handle) -> anyhow::Result<Option<Self>> {
        let Some(config) = config else {
            return Ok(None);
        };
        crate::platform::outgoing::choose_cryptography();
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!(
                "{}/v1/traces",
                config.endpoint.trim_end_matches('/')
            ))
            .with_timeout(TIMEOUT)
            .with_http_client(Client {
                http,
                runtime: runtime.clone(),
            })
            .build()
            .context("OTEL_EXPORTER_OTLP_ENDPOINT cannot be used")?;
        let resource = Resource::builder()
            .with_service_name("elevo")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let sampler = Sampler::TraceIdRatioBased(config.sample);
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(sampler)))
            .with_resource(resource)
            .build();
        global::set_tracer_provider(provider.clone());
        Ok(Some(Self(provider)))
    }

    /// Returns the layer that passes spans from a `tracing` subscriber to the
    /// exporter.
    pub fn layer<S>(&self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let tracer = self.0.tracer("elevo");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        let layer = layer.with_location(false).with_threads(false);
        let only_spans = Targets::new().with_target(TRACE_TARGET, LevelFilter::INFO);
        layer.with_filter(only_spans).boxed()
    }

    /// Exports the remaining spans. Blocks for at most a few seconds.
    pub fn end(&self) {
        // If the collector is gone, the remaining spans are lost.
        let _ = self.0.shutdown_with_timeout(LAST);
    }
}

/// Sends the requests of the exporter in the server's runtime, because the
/// exporter's thread does not belong to a runtime.
#[derive(Debug)]
struct Client {
    http: reqwest::Client,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let http = self.http.clone();
        let sending = self.runtime.spawn(async move {
            let answer = http.execute(request.try_into()?).await?;
            let mut response = Response::builder().status(answer.status());
            if let Some(headers) = response.headers_mut() {
                headers.clone_from(answer.headers());
            }
            let body = answer.bytes().await?;
            Ok::<_, HttpError>(response.body(body)?)
        });
        sending.await?
    }
}

/// Creates the span of a request. If the client sent a trace context, the span
/// becomes a part of that trace.
pub(crate) fn request(method: &str, route: &str, headers: &HeaderMap, id: &str) -> Span {
    let span = tracing::info_span!(
        target: TRACE_TARGET,
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        http.request.method = method,
        http.route = route,
        http.response.status_code = tracing::field::Empty,
        otel.status_code = tracing::field::Empty,
        elevo.request_id = id,
    );
    if !span.is_disabled() {
        let parent = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
        // Setting the parent fails only for a span that has already started.
        let _ = span.set_parent(parent);
    }
    span
}

/// Records the status of a response.
pub(crate) fn answered(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

/// Creates the span of a part of a request.
macro_rules! step {
    ($name:literal) => {
        tracing::info_span!(target: crate::platform::trace::TRACE_TARGET, $name)
    };
}
pub(crate) use step;

/// Returns the trace context for a command, so that it can continue the trace.
pub(crate) fn traceparent() -> Option<String> {
    let context = Span::current().context();
    let is_told = context.span().span_context().is_sampled();
    let mut headers = HashMap::new();
    TraceContextPropagator::new().inject_context(&context, &mut headers);
    is_told.then(|| headers.remove("traceparent")).flatten()
}

/// Maximum age of a time that is accepted from an agent.
const LONGEST: Duration = Duration::from_secs(60);

/// Adds a span for the work of an agent in a call. The times of the agent's
/// clock are limited to the last minute.
pub(crate) fn agent_did(call: &AgentCall) {
    let context: Context = Span::current().context();
    if !context.span().span_context().is_sampled() {
        return;
    }
    let now = crate::platform::clock::system();
    let earliest = now.checked_sub(LONGEST).unwrap_or(now);
    let time = |micros: i64| {
        let since = Duration::from_micros(micros.try_into().unwrap_or_default());
        SystemTime::UNIX_EPOCH
            .checked_add(since)
            .unwrap_or(SystemTime::UNIX_EPOCH)
            .clamp(earliest, now)
    };
    let (received, done) = (time(call.received_us), time(call.done_us));
    let tracer = global::tracer("workspace-agent");
    let mut span = tracer
        .span_builder(format!("agent {}", call.method))
        .with_kind(SpanKind::Server)
        .with_start_time(received)
        .with_attributes([KeyValue::new("elevo.sandbox_id", call.sandbox.clone())])
        .start_with_context(&tracer, &context);
    span.end_with_timestamp(done.max(received));
}
