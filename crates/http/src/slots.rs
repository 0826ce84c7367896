//! `GET /slots`: what is read in each of the model's lanes, and which states are held for later prompts.
//!
//! An array with one object per lane, as llama-server has one per slot, with its names. Held states belong to no lane;
//! they are told in the first object under a name that llama-server does not use, so the array stays what it is.

use std::time::Duration;

use clef_engine::{HeldState, LaneView};
use hyper::StatusCode;
use serde::Serialize;

use crate::context::Context;
use crate::error::{Failure, FailureKind};
use crate::model::Model;
use crate::reply::Reply;

#[derive(Serialize)]
struct Slot {
    id: usize,
    n_ctx: u64,
    speculative: bool,
    is_processing: bool,
    n_prompt_tokens: usize,
    n_prompt_tokens_processed: usize,
    n_prompt_tokens_cache: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_states: Option<Vec<Held>>,
}

#[derive(Serialize)]
struct Held {
    n_tokens: usize,
    boundaries: Vec<usize>,
    bytes: usize,
    uses: u64,
}

pub(crate) fn slots(context: &Context, model: &Model, query: Option<&str>) -> Result<Reply, Failure> {
    if !context.config.slots {
        return Err(Failure::not_supported("the slots endpoint is switched off; start the server with --slots"));
    }
    let lanes = model.engine.lanes();
    let must_be_free = query.is_some_and(|query| {
        query.split('&').any(|pair| pair.strip_prefix("fail_on_no_slot").is_some_and(|value| value != "=0"))
    });
    if must_be_free && lanes.iter().all(|lane| lane.work.is_some()) {
        return Err(Failure::new(FailureKind::Unavailable { wait: Duration::from_secs(1) }, "no slot available"));
    }
    let slots: Vec<Slot> = lanes
        .into_iter()
        .enumerate()
        .map(|(id, lane)| slot(id, lane, model.card.meta.n_ctx, (id == 0).then(|| model.engine.held())))
        .collect();
    Ok(Reply::json(StatusCode::OK, &slots))
}

fn slot(id: usize, lane: LaneView, context_tokens: u64, held: Option<Vec<HeldState>>) -> Slot {
    let work = lane.work;
    let state = |state: HeldState| {
        let HeldState { tokens, boundaries, bytes, uses } = state;
        Held { n_tokens: tokens, boundaries, bytes, uses }
    };
    Slot {
        id,
        // A lane may have room for more than a request is allowed.
        n_ctx: context_tokens.min(lane.max_tokens as u64),
        speculative: false,
        is_processing: work.is_some(),
        n_prompt_tokens: work.map_or(0, |work| work.prompt_tokens),
        n_prompt_tokens_processed: work.map_or(0, |work| work.computed_tokens),
        n_prompt_tokens_cache: work.map_or(0, |work| work.reused_tokens),
        held_states: held.map(|held| held.into_iter().map(state).collect()),
    }
}
