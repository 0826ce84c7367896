//! What the threads that encode do: prompts out of records, and answers that are known already.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use clef_record::Record;

use crate::engine::Shared;
use crate::error::{EngineError, EngineErrorKind};
use crate::queue::{Ready, Waiting};
use crate::statistics::count;
use crate::tasks::answer;
use crate::ticket::{Outcome, Reply, Timings};
use crate::traits::Encode;
use crate::work::Work;

/// Encodes requests until the engine ends. A panic costs the request it happened in, nothing else.
pub(crate) fn run(shared: &Shared, encoder: &dyn Encode) {
    let Shared { queue, counters, .. } = shared;
    while let Some(waiting) = queue.next_waiting() {
        let Waiting { record, reply, since } = waiting;
        if reply.cancel.is_raised() {
            count(&counters.cancelled);
            queue.encoded(None);
            continue;
        }
        let start = Instant::now();
        let encoded = catch_unwind(AssertUnwindSafe(|| encoder.encode(&record).map(Work::new)));
        let encode = start.elapsed();
        let work = match encoded {
            Ok(Ok(work)) => work,
            Ok(Err(refusal)) => {
                fail(shared, reply, EngineError::from(refusal));
                continue;
            }
            Err(_) => {
                fail(shared, reply, EngineError::new(EngineErrorKind::Fault, "encoding the request failed"));
                continue;
            }
        };
        if let Some(outcome) = known(shared, &record, &work, since, encode) {
            queue.encoded(None);
            reply.send(Ok(outcome));
        } else if let Some(refused) = queue.encoded(Some(Ready { record, work, reply, since, encode })) {
            count(&counters.failed);
            refused.send(Err(EngineError::dead()));
        }
    }
}

fn fail(shared: &Shared, reply: Reply, error: EngineError) {
    count(&shared.counters.failed);
    // Its place is free before it is answered: whoever gets the answer may come again at once.
    shared.queue.encoded(None);
    reply.send(Err(error));
}

/// The answer, if the same was asked before.
fn known(shared: &Shared, record: &Record, work: &Work, since: Instant, encode: Duration) -> Option<Outcome> {
    let logits = shared.answers.find(work)?;
    let decision = answer(record, work, &logits).ok()?;
    count(&shared.counters.answer_cache_hits);
    shared.counters.answer(work.tokens(), work.tokens());
    let timings = Timings { queue: since.elapsed().saturating_sub(encode), encode, ..Timings::default() };
    Some(Outcome { decision, truncated_tokens: work.prompt().truncated_tokens, reused_tokens: work.tokens(), timings })
}
