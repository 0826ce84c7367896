//! What the threads do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use clef_record::Decision;

use crate::error::{EngineError, EngineErrorKind};
use crate::queue::{Queue, Ready, Waiting};
use crate::statistics::{Counters, count};
use crate::ticket::{Outcome, Timings};
use crate::traits::{Encode, Evaluate, EvaluateError, Evaluation, Job};

/// Encodes requests until the engine ends. A panic costs the request it happened in, nothing else.
pub(crate) fn encode_loop(queue: &Queue, counters: &Counters, encoder: &dyn Encode) {
    while let Some(waiting) = queue.next_waiting() {
        let Waiting { record, reply, since } = waiting;
        if reply.cancel.is_raised() {
            count(&counters.cancelled);
            queue.encoded(None);
            continue;
        }
        let start = Instant::now();
        let encoded = catch_unwind(AssertUnwindSafe(|| encoder.encode(&record)));
        let end = Instant::now();
        let result = match encoded {
            Ok(Ok(prompt)) => Ok(prompt),
            Ok(Err(refusal)) => Err(EngineError::from(refusal)),
            Err(_) => Err(EngineError::new(EngineErrorKind::Fault, "encoding the request failed")),
        };
        match result {
            Ok(prompt) => {
                let (queued, encode) = (start - since, end - start);
                let ready = Ready { record, prompt, reply, since: end, queued, encode };
                if let Some(refused) = queue.encoded(Some(ready)) {
                    count(&counters.failed);
                    refused.send(Err(EngineError::dead()));
                }
            }
            Err(error) => {
                count(&counters.failed);
                // Its place is free before it is answered: whoever gets the answer may come again at once.
                queue.encoded(None);
                reply.send(Err(error));
            }
        }
    }
}

/// Evaluates requests until the engine ends. A panic is the end: the model's state is unknown after it.
pub(crate) fn evaluate_loop(queue: &Arc<Queue>, counters: &Counters, model: &mut dyn Evaluate) {
    while let Some(ready) = queue.next_ready() {
        if ready.reply.cancel.is_raised() {
            count(&counters.cancelled);
            queue.finished();
            continue;
        }
        let start = Instant::now();
        let keep = [ready.prompt.prefix_end, ready.prompt.state_end];
        let job = Job { prompt: &ready.prompt, keep: &keep, cancel: &ready.reply.cancel };
        let evaluated = catch_unwind(AssertUnwindSafe(|| model.evaluate(&[job]).pop()));
        let result = match evaluated {
            Ok(result) => outcome(&ready, result, start, counters),
            Err(panic) => {
                let what = panic
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_default();
                tracing::error!("the engine thread panicked: {what}");
                count(&counters.failed);
                queue.finished();
                let pending = queue.die();
                counters.failed.fetch_add(pending.len() as u64, Ordering::Relaxed);
                for reply in std::iter::once(ready.reply).chain(pending) {
                    reply.send(Err(EngineError::dead()));
                }
                return;
            }
        };
        // Its place is free before it is answered: whoever gets the answer may come again at once.
        queue.finished();
        ready.reply.send(result);
    }
    queue.stopped();
}

fn outcome(
    ready: &Ready,
    result: Option<Result<Evaluation, EvaluateError>>,
    start: Instant,
    counters: &Counters,
) -> Result<Outcome, EngineError> {
    let fault = |message: String| {
        count(&counters.failed);
        tracing::error!("a request failed: {message}");
        EngineError::new(EngineErrorKind::Fault, message)
    };
    let evaluation = match result {
        Some(Ok(evaluation)) => evaluation,
        Some(Err(EvaluateError::Cancelled)) => {
            count(&counters.cancelled);
            return Err(EngineError::cancelled());
        }
        Some(Err(EvaluateError::Failed(message))) => return Err(fault(message)),
        None => return Err(fault("the model returned nothing".to_owned())),
    };
    let decision = Decision::from_logits(&ready.record, &ready.prompt, &evaluation.logits)
        .map_err(|error| fault(format!("the model's logits cannot be answers: {error}")))?;
    count(&counters.answered);
    counters.prompt_tokens.fetch_add(ready.prompt.tokens.len() as u64, Ordering::Relaxed);
    counters.reused_tokens.fetch_add(evaluation.reused_tokens as u64, Ordering::Relaxed);
    let timings = Timings {
        queue: ready.queued + (start - ready.since),
        encode: ready.encode,
        media: evaluation.media,
        backbone: evaluation.backbone,
        head: evaluation.head,
    };
    let (truncated_tokens, reused_tokens) = (ready.prompt.truncated_tokens, evaluation.reused_tokens);
    Ok(Outcome { decision, truncated_tokens, reused_tokens, timings })
}
