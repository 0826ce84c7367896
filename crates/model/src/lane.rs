//! One prompt at a time on its way through a context.
//!
//! Each lane has a context of its own. So a prompt takes the same cells of the attention cache whatever else is being
//! read, and its answer is the same to the last bit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clef_engine::{Evaluation, Step};
use clef_head::{Head, Reading};
use clef_llama::{Context, SavedPart, SavedSequence, SequenceId, Token};
use clef_record::{Prompt, TokenId};

use crate::cuts::Cuts;
use crate::error::Result;
use crate::states::State;

/// The one sequence of a lane's context.
const WORK: SequenceId = SequenceId(0);

/// Waypoints that an entry takes over from the one it grew from: enough to go back a little, few enough that they cost
/// less than the state itself.
const INHERITED_WAYPOINTS: usize = 2;

/// A context, what it reads, and what it has read.
#[derive(Debug)]
pub(crate) struct Lane {
    context: Context,
    /// Whose keys and values are in the context, if they are sound.
    read: Option<Read>,
    work: Option<Work>,
}

/// A prompt and how much of it the context holds.
#[derive(Debug)]
struct Read {
    prompt: Arc<Prompt>,
    cuts: Cuts,
    tokens: usize,
}

/// The prompt that a lane is reading.
#[derive(Debug)]
struct Work {
    prompt: Arc<Prompt>,
    cuts: Cuts,
    reading: Reading,
    /// Tokens read or taken over so far.
    position: usize,
    /// Of these, tokens taken over.
    reused: usize,
    /// Where recurrent states are to be kept on the way.
    keep: Vec<usize>,
    waypoints: Vec<Arc<SavedSequence>>,
    backbone: Duration,
    head: Duration,
}

/// A state that a lane has read and that is worth keeping.
pub(crate) struct Kept {
    pub(crate) tokens: Arc<[TokenId]>,
    pub(crate) state: State,
}

impl Lane {
    pub(crate) fn new(context: Context) -> Self {
        Self { context, read: None, work: None }
    }

    /// Starts a prompt from a boundary of a state, or from nothing. `branch` is where it parts from another state that is
    /// kept, which is worth a waypoint.
    pub(crate) fn begin(
        &mut self,
        prompt: &Arc<Prompt>,
        cuts: Cuts,
        mut reading: Reading,
        head: &Head,
        from: Option<(&State, usize)>,
        branch: usize,
    ) -> Result<()> {
        let start = Instant::now();
        self.work = None;
        let reused = from.map_or(0, |(_, boundary)| boundary);
        let mut waypoints = Vec::new();
        match from {
            None => {
                self.read = None;
                self.context.clear_sequence(WORK)?;
            }
            Some((state, boundary)) => {
                self.bring_back(state, boundary, prompt, &cuts)?;
                reading.resume(head, state.memory_until(boundary))?;
                let earlier = state.waypoints.iter().filter(|waypoint| waypoint.length() as usize <= boundary);
                waypoints.extend(earlier.cloned());
                let last = cuts.of_state().last().copied().unwrap_or_default();
                if waypoints.last().is_none_or(|last| (last.length() as usize) < boundary)
                    && cuts.of_state().contains(&boundary)
                    && boundary < last
                {
                    waypoints.push(Arc::new(self.context.save(WORK, SavedPart::Recurrent)?));
                }
                waypoints.drain(..waypoints.len().saturating_sub(INHERITED_WAYPOINTS));
            }
        }
        let keep = places_to_keep(&cuts, reused, branch);
        self.work = Some(Work {
            prompt: Arc::clone(prompt),
            cuts,
            reading,
            position: reused,
            reused,
            keep,
            waypoints,
            backbone: start.elapsed(),
            head: Duration::ZERO,
        });
        Ok(())
    }

    /// Makes the context hold the first `boundary` tokens of a prompt. Where it holds them already, from the same cuts,
    /// just the recurrent state is brought back.
    fn bring_back(&mut self, state: &State, boundary: usize, prompt: &Prompt, cuts: &Cuts) -> Result<()> {
        let at = state.at(boundary);
        let read = self.read.take();
        let in_place = read.is_some_and(|read| {
            read.tokens >= boundary
                && read.cuts.agree(cuts, boundary)
                && read.prompt.tokens[..boundary] == prompt.tokens[..boundary]
        });
        if !in_place {
            self.context.restore(WORK, &state.whole)?;
        }
        if in_place || state.whole.length() as usize > boundary {
            self.context.rewind(WORK, at)?;
        }
        Ok(())
    }

    /// Reads the next chunk; answers if it was the last. A state that is complete now comes back to be kept, if
    /// `would_keep` says so of its bytes.
    pub(crate) fn step(&mut self, head: &mut Head, would_keep: impl Fn(usize) -> bool) -> Result<(Step, Option<Kept>)> {
        let work = self.work.as_mut().expect("the engine steps busy lanes only");
        let end = work.cuts.ends()[work.cuts.ends().len() - work.cuts.chunks_after(work.position)];
        let tokens: Vec<Token> = work.prompt.tokens[work.position..end].iter().map(|token| Token(token.0)).collect();
        let start = Instant::now();
        let hidden = self.context.decode(WORK, &tokens)?;
        let decoded = Instant::now();
        work.reading.push(head, hidden.values)?;
        work.backbone += decoded - start;
        work.head += decoded.elapsed();
        work.position = end;

        let start = Instant::now();
        let mut kept = None;
        if work.keep.contains(&end) {
            if work.keep.last() == Some(&end) {
                kept = keep(work, &mut self.context, head, would_keep).unwrap_or_else(|error| {
                    tracing::warn!("a state cannot be kept: {error}");
                    None
                });
            } else {
                work.waypoints.push(Arc::new(self.context.save(WORK, SavedPart::Recurrent)?));
            }
        }
        work.backbone += start.elapsed();
        let steps = work.cuts.chunks_after(end);
        if steps > 0 {
            return Ok((Step::Reading { steps }, kept));
        }
        let start = Instant::now();
        let ids: Vec<i32> = work.prompt.tokens.iter().map(|token| token.0).collect();
        let logits = work.reading.finish(head, &ids)?;
        let evaluation =
            Evaluation { logits, media: Duration::ZERO, backbone: work.backbone, head: work.head + start.elapsed() };
        self.leave();
        Ok((Step::Answered(evaluation), kept))
    }

    /// Steps that are left of what it reads; 0 if nothing.
    pub(crate) fn steps(&self) -> usize {
        self.work.as_ref().map_or(0, |work| work.cuts.chunks_after(work.position))
    }

    /// Gives up what it reads. What was read of the state comes back to be kept: whoever gave up may well ask again.
    pub(crate) fn abandon(&mut self, head: &Head, would_keep: impl Fn(usize) -> bool) -> Result<Option<Kept>> {
        let Some(work) = self.work.as_mut() else { return Ok(None) };
        let new = work.position > work.reused && work.cuts.of_state().contains(&work.position);
        let kept = match work.keep.last() {
            Some(&last) if new && work.position < last => {
                work.waypoints.retain(|waypoint| (waypoint.length() as usize) < work.position);
                keep(work, &mut self.context, head, would_keep)
            }
            _ => Ok(None),
        };
        self.leave();
        kept
    }

    /// Forgets everything: after an error the context may hold anything.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.work = None;
        self.read = None;
        Ok(self.context.clear_sequence(WORK)?)
    }

    fn leave(&mut self) {
        self.read = self.work.take().map(|work| Read { prompt: work.prompt, cuts: work.cuts, tokens: work.position });
    }
}

/// Where to keep states of a prompt that goes on from `reused`, ascending: whole at its state's last cut; on the way at
/// the cut before that, from which a state goes on that grew out of this one, and where it branches off another.
fn places_to_keep(cuts: &Cuts, reused: usize, branch: usize) -> Vec<usize> {
    let places = cuts.of_state();
    let count = places.len();
    let branch = places.iter().rposition(|&place| place <= branch);
    let mut wanted: Vec<usize> =
        [branch, count.checked_sub(2), count.checked_sub(1)].into_iter().flatten().map(|index| places[index]).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted.retain(|&place| place > reused);
    wanted
}

/// Takes the state that `work` has read so far out of the context.
fn keep(
    work: &mut Work,
    context: &mut Context,
    head: &Head,
    would_keep: impl Fn(usize) -> bool,
) -> Result<Option<Kept>> {
    let position = work.position;
    let bytes = context.saved_size(WORK, SavedPart::Whole)? + position * head.layout().width * size_of::<f32>();
    let waypoints: usize = work.waypoints.iter().map(|waypoint| waypoint.bytes()).sum();
    if !would_keep(bytes + waypoints) {
        return Ok(None);
    }
    let state = State {
        whole: context.save(WORK, SavedPart::Whole)?,
        waypoints: std::mem::take(&mut work.waypoints),
        memory: work.reading.memory(head, 0..position)?,
    };
    Ok(Some(Kept { tokens: work.prompt.tokens[..position].into(), state }))
}
