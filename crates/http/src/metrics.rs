//! `GET /metrics`: counts and times in the Prometheus text format, version 0.0.4, as llama-server prints it.
//!
//! Printed by hand: the format is a dozen lines of code, and the libraries for it print OpenMetrics, whose counters are
//! declared under other names.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hyper::StatusCode;
use hyper::header::HeaderValue;

use crate::context::Context;
use crate::counters::{BOUNDS, Histogram};
use crate::error::Failure;
use crate::model::Model;
use crate::reply::Reply;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

pub(crate) fn metrics(context: &Context, model: &Model) -> Result<Reply, Failure> {
    if !context.config.metrics {
        return Err(Failure::not_supported("the metrics endpoint is switched off; start the server with --metrics"));
    }
    let mut page = Page::default();
    llama_server(&mut page, context, model);
    ours(&mut page, context, model);
    Ok(Reply::new(StatusCode::OK, TEXT, page.0))
}

/// llama-server's own, for dashboards made for it. Nothing is generated here, so those about generation stay 0.
fn llama_server(page: &mut Page, context: &Context, model: &Model) {
    let counters = &context.counters;
    let statistics = model.engine.statistics();
    let prompt_tokens = read(&counters.prompt_tokens).saturating_sub(read(&counters.cached_tokens));
    let seconds = counters.model_seconds();
    let rate = if seconds > 0.0 { prompt_tokens as f64 / seconds } else { 0.0 };
    let deferred = statistics.in_flight.saturating_sub(statistics.running);
    page.counter("llamacpp:prompt_tokens_total", "Number of prompt tokens processed.", prompt_tokens as f64);
    page.counter("llamacpp:prompt_seconds_total", "Prompt process time in seconds.", seconds);
    page.counter("llamacpp:tokens_predicted_total", "Number of generation tokens processed.", 0.0);
    page.counter("llamacpp:tokens_predicted_seconds_total", "Predict process time in seconds.", 0.0);
    page.counter(
        "llamacpp:n_tokens_max",
        "High watermark of the context size observed.",
        read(&counters.longest_prompt) as f64,
    );
    page.gauge("llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s.", rate);
    page.gauge("llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s.", 0.0);
    page.gauge("llamacpp:requests_processing", "Number of requests processing.", statistics.running as f64);
    page.gauge("llamacpp:requests_deferred", "Number of requests deferred.", deferred as f64);
}

fn ours(page: &mut Page, context: &Context, model: &Model) {
    let counters = &context.counters;
    let statistics = model.engine.statistics();
    page.declare(
        "clef:requests_total",
        "Requests answered, by endpoint and status (499: the client went away).",
        "counter",
    );
    for (route, status, count) in counters.requests() {
        page.line(
            "clef:requests_total",
            &format!("{{endpoint=\"{}\",status=\"{status}\"}}", route.name()),
            count as f64,
        );
    }
    page.gauge("clef:requests_running", "HTTP requests being answered.", read(&counters.running) as f64);
    page.counter("clef:panics_total", "Requests that failed in the server.", read(&counters.panics) as f64);
    page.counter("clef:connections_total", "Connections accepted.", read(&counters.connections) as f64);
    page.gauge("clef:connections", "Connections open.", read(&counters.connections_open) as f64);
    page.gauge("clef:body_bytes", "Bytes of large bodies in memory.", context.budget.used() as f64);
    page.counter(
        "clef:prompt_tokens_total",
        "Prompt tokens of answered requests.",
        read(&counters.prompt_tokens) as f64,
    );
    page.counter(
        "clef:cached_tokens_total",
        "Of these, tokens not computed for the request: from held states, or from another request's work.",
        read(&counters.cached_tokens) as f64,
    );
    page.counter(
        "clef:computed_tokens_total",
        "Prompt tokens that the model computed, once however many requests asked.",
        statistics.computed_tokens as f64,
    );
    page.counter(
        "clef:truncated_tokens_total",
        "State tokens cut off on request.",
        read(&counters.truncated_tokens) as f64,
    );
    page.counter(
        "clef:queue_refused_total",
        "Requests refused because the queue was full.",
        statistics.rejected as f64,
    );
    page.counter(
        "clef:merged_total",
        "Requests that joined another one that asked for the same.",
        statistics.merged as f64,
    );
    page.counter(
        "clef:answer_cache_hits_total",
        "Requests that an earlier answer was found for.",
        statistics.answer_cache_hits as f64,
    );
    page.gauge("clef:held_states", "States held for later prompts.", statistics.held_states as f64);
    page.gauge("clef:held_bytes", "Memory of the states held.", statistics.held_bytes as f64);
    page.counter("clef:cancelled_total", "Requests whose clients went away.", statistics.cancelled as f64);
    page.counter("clef:failed_total", "Requests refused or failed in the engine.", statistics.failed as f64);
    page.gauge("clef:queue_length", "Requests admitted and not answered.", statistics.in_flight as f64);
    let is_up = !context.engine_is_dead();
    page.gauge("clef:engine_up", "Whether the engine thread lives.", f64::from(u8::from(is_up)));
    let times = &counters.times;
    page.histogram("clef:request_seconds", "Time of an answered decision, from its head to its answer.", &times.total);
    page.histogram("clef:queue_seconds", "Time waiting for a thread.", &times.queue);
    page.histogram("clef:encode_seconds", "Time making tokens of text.", &times.encode);
    page.histogram("clef:media_seconds", "Time in the vision tower.", &times.media);
    page.histogram("clef:backbone_seconds", "Time in the backbone.", &times.backbone);
    page.histogram("clef:head_seconds", "Time in the head.", &times.head);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

/// A page in the making.
#[derive(Default)]
struct Page(String);

impl Page {
    fn declare(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.declare(name, help, "counter");
        self.line(name, "", value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.declare(name, help, "gauge");
        self.line(name, "", value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.declare(name, help, "histogram");
        let bounds = BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (bound, cumulative) in bounds.zip(histogram.cumulative()) {
            count = cumulative;
            let _ = writeln!(self.0, "{name}_bucket{{le=\"{bound}\"}} {cumulative}");
        }
        let _ = writeln!(self.0, "{name}_sum {}\n{name}_count {count}", histogram.seconds());
    }
}
