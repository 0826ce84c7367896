//! `POST /v1/systemone`: the one endpoint that everything else is there for.
//!
//! A body becomes a record once, away from the threads that serve connections if it is large; the record goes to the
//! engine; the ticket is awaited here, so a client that goes away takes its work with it.

use bytes::Bytes;
use clef_record::{Record, Rules};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};

use crate::body::{Body, RequestBody};
use crate::context::Context;
use crate::error::Failure;
use crate::model::Model;
use crate::multipart;
use crate::reply::{Facts, JSON, Reply};

/// Bodies up to this size are parsed where they are: it takes less time than handing them over.
const PARSED_IN_PLACE_BYTES: usize = 32 << 10;

pub(crate) async fn decide(
    context: &Context,
    model: &Model,
    headers: &HeaderMap,
    body: &mut RequestBody,
) -> Result<Reply, Failure> {
    let Body { bytes, share } = body.read(context, headers, usize::MAX).await?;
    let record = parse(context, bytes, multipart::boundary(headers)).await?;
    let ticket = model.engine.submit(record).map_err(|error| {
        let wait = context.counters.queue_wait(model.engine.statistics().in_flight);
        Failure::of_engine(&error, wait)
    })?;
    let outcome = ticket.await.map_err(|error| Failure::of_engine(&error, std::time::Duration::ZERO))?;
    // A record is about as large as its body, so the body's share is held as long as the record lives.
    drop(share);
    let facts = Facts {
        timings: outcome.timings,
        input_tokens: outcome.decision.input_tokens,
        cached_tokens: outcome.reused_tokens,
        truncated_tokens: outcome.truncated_tokens,
    };
    let mut reply = Reply::new(StatusCode::OK, JSON, outcome.decision.to_json(&model.card.name))
        .with_header(HeaderName::from_static("x-clef-cached-tokens"), HeaderValue::from(facts.cached_tokens))
        .with_header(HeaderName::from_static("x-clef-computed-tokens"), HeaderValue::from(facts.computed_tokens()))
        .with_header(HeaderName::from_static("x-clef-truncated-tokens"), HeaderValue::from(facts.truncated_tokens));
    reply.facts = Some(facts);
    Ok(reply)
}

/// The body is gone when this returns; what of it is still needed is in the record.
async fn parse(context: &Context, bytes: Bytes, boundary: Option<String>) -> Result<Record, Failure> {
    let rules = context.config.rules;
    if bytes.len() <= PARSED_IN_PLACE_BYTES {
        return parse_now(bytes, boundary, &rules);
    }
    let _permit = context.parsers.acquire().await.map_err(|_| Failure::shutting_down())?;
    let parsed = tokio::task::spawn_blocking(move || parse_now(bytes, boundary, &rules)).await;
    parsed.map_err(|_| Failure::fault("reading the body failed"))?
}

fn parse_now(bytes: Bytes, boundary: Option<String>, rules: &Rules) -> Result<Record, Failure> {
    match boundary {
        Some(boundary) => multipart::parse(bytes, boundary, rules),
        None => Record::parse_with(&bytes, rules).map_err(|error| Failure::of_record(&error)),
    }
}
