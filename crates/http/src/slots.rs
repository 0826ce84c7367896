//! `GET /slots`: how many requests can be evaluated at once, and how many are.

use std::time::Duration;

use hyper::StatusCode;
use serde::Serialize;

use crate::context::Context;
use crate::error::{Failure, FailureKind};
use crate::model::Model;
use crate::reply::Reply;

#[derive(Serialize)]
struct Slot {
    id: u64,
    n_ctx: u64,
    speculative: bool,
    is_processing: bool,
    n_prompt_tokens: u64,
}

pub(crate) fn slots(context: &Context, model: &Model, query: Option<&str>) -> Result<Reply, Failure> {
    if !context.config.slots {
        return Err(Failure::not_supported("the slots endpoint is switched off; start the server with --slots"));
    }
    let statistics = model.engine.statistics();
    let count = (model.card.slots.max(1) as u64).max(statistics.running);
    let must_be_free = query.is_some_and(|query| {
        query.split('&').any(|pair| pair.strip_prefix("fail_on_no_slot").is_some_and(|value| value != "=0"))
    });
    if must_be_free && statistics.running >= count {
        return Err(Failure::new(FailureKind::Unavailable { wait: Duration::from_secs(1) }, "no slot available"));
    }
    let slots: Vec<Slot> = (0..count)
        .map(|id| Slot {
            id,
            n_ctx: model.card.meta.n_ctx,
            speculative: false,
            is_processing: id < statistics.running,
            // The engine tells the tokens of all that runs; they are shown on the first.
            n_prompt_tokens: if id == 0 { statistics.running_tokens } else { 0 },
        })
        .collect();
    Ok(Reply::json(StatusCode::OK, &slots))
}
