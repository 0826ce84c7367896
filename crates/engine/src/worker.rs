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
                queue.encoded(Some(Ready { record, prompt, reply, since: end, queued, encode }));
            }
            Err(error) => {
                count(&counters.failed);
                reply.send(Err(error));
                queue.encoded(None);
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
        match evaluated {
            Ok(Some(result)) => answer(ready, result, start, counters),
            Ok(None) => {
                count(&counters.failed);
                ready.reply.send(Err(EngineError::new(EngineErrorKind::Fault, "the model returned nothing")));
            }
            Err(panic) => {
                let what = panic
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_default();
                tracing::error!("the engine thread panicked: {what}");
                count(&counters.failed);
                ready.reply.send(Err(EngineError::dead()));
                queue.finished();
                queue.die();
                return;
            }
        }
        queue.finished();
    }
    queue.stopped();
}

fn answer(ready: Ready, result: Result<Evaluation, EvaluateError>, start: Instant, counters: &Counters) {
    let evaluation = match result {
        Ok(evaluation) => evaluation,
        Err(EvaluateError::Cancelled) => {
            count(&counters.cancelled);
            return ready.reply.send(Err(EngineError::cancelled()));
        }
        Err(EvaluateError::Failed(message)) => {
            count(&counters.failed);
            tracing::error!("a request failed: {message}");
            return ready.reply.send(Err(EngineError::new(EngineErrorKind::Fault, message)));
        }
    };
    let decision = match Decision::from_logits(&ready.record, &ready.prompt, &evaluation.logits) {
        Ok(decision) => decision,
        Err(error) => {
            count(&counters.failed);
            tracing::error!("the model's logits cannot be answers: {error}");
            return ready.reply.send(Err(EngineError::new(EngineErrorKind::Fault, error.to_string())));
        }
    };
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
    ready.reply.send(Ok(Outcome { decision, truncated_tokens, reused_tokens, timings }));
}
