//! One prompt at a time on its way through a context.
//!
//! Each lane has a context of its own. So a prompt takes the same cells of the attention cache whatever else is being
//! read, and its answer is the same to the last bit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clef_engine::Evaluation;
use clef_head::{Head, Reading};
use clef_llama::{Context, HiddenStates, SavedPart, SavedSequence, SequenceId, Token};
use clef_record::{Prompt, TokenId};

use crate::cuts::Cuts;
use crate::error::{Error, ErrorKind, Result};
use crate::evaluate::unseen;
use crate::positions::place;
use crate::states::State;
use crate::vision::Eye;

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
    /// Embeddings of the slots that were seen and not read yet, by slot.
    seen: BTreeMap<usize, Arc<[f32]>>,
    media: Duration,
    backbone: Duration,
    head: Duration,
}

/// What came of reading a chunk.
pub(crate) struct ReadChunk {
    /// There, if it was the last.
    pub(crate) answer: Option<Evaluation>,
    /// A state that is complete now.
    pub(crate) kept: Option<Kept>,
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
            seen: BTreeMap::new(),
            media: Duration::ZERO,
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

    /// Has the next thing seen that the next chunk shows, if there is one that was not seen yet: whether time was spent
    /// on that. What was seen for another prompt costs none.
    pub(crate) fn look(&mut self, eye: &mut Eye) -> Result<bool> {
        let work = self.work.as_mut().expect("the engine steps busy lanes only");
        let end = work.next_end();
        for (index, slot) in work.prompt.media.iter().enumerate() {
            let is_shown = slot.span.start < end && slot.span.end > work.position;
            if !is_shown || work.seen.contains_key(&index) {
                continue;
            }
            let name = work.prompt.tokens[slot.span.start];
            if let Some(rows) = eye.recall(name) {
                work.seen.insert(index, rows);
                continue;
            }
            let (rows, time) = eye.look(slot, name)?;
            work.seen.insert(index, rows);
            work.media += time;
            return Ok(true);
        }
        Ok(false)
    }

    /// Reads the next chunk, of which everything was seen; answers if it was the last. A state that is complete now comes
    /// back to be kept, if `would_keep` says so of its bytes.
    pub(crate) fn step(
        &mut self,
        head: &mut Head,
        eye: Option<&Eye>,
        would_keep: impl Fn(usize) -> bool,
    ) -> Result<ReadChunk> {
        let work = self.work.as_mut().expect("the engine steps busy lanes only");
        let end = work.next_end();
        let start = Instant::now();
        let hidden = decode(&mut self.context, work, end, eye)?;
        let decoded = Instant::now();
        work.reading.push(head, hidden.values)?;
        work.backbone += decoded - start;
        work.head += decoded.elapsed();
        work.position = end;
        work.seen.retain(|&index, _| work.prompt.media[index].span.end > end);

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
        if work.cuts.chunks_after(end) > 0 {
            return Ok(ReadChunk { answer: None, kept });
        }
        let start = Instant::now();
        // The head looks tokens of options up, which are never pictures.
        let ids: Vec<i32> = work.prompt.tokens.iter().map(|token| token.0.max(0)).collect();
        let logits = work.reading.finish(head, &ids)?;
        let (media, backbone) = (work.media, work.backbone);
        let answer = Evaluation { logits, media, backbone, head: work.head + start.elapsed() };
        self.leave();
        Ok(ReadChunk { answer: Some(answer), kept })
    }

    /// Steps that are left of what it reads, given what the vision tower knows already; 0 if nothing.
    pub(crate) fn steps(&self, knows: impl Fn(TokenId) -> bool) -> usize {
        let Some(work) = &self.work else { return 0 };
        let is_seen = |name: TokenId| {
            let names = work.seen.keys().map(|&index| work.prompt.tokens[work.prompt.media[index].span.start]);
            knows(name) || names.into_iter().any(|seen| seen == name)
        };
        work.cuts.chunks_after(work.position) + unseen(&work.prompt, work.position, is_seen)
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
        self.leave();
        self.read = None;
        Ok(self.context.clear_sequence(WORK)?)
    }

    /// Is done with what it reads, which nobody will look at again.
    fn leave(&mut self) {
        let work = self.work.take().inspect(|work| work.prompt.drop_pixels());
        self.read = work.map(|work| Read { prompt: work.prompt, cuts: work.cuts, tokens: work.position });
    }
}

impl Work {
    /// Where the next chunk ends.
    fn next_end(&self) -> usize {
        self.cuts.ends()[self.cuts.ends().len() - self.cuts.chunks_after(self.position)]
    }
}

/// Reads the next chunk. Text is read as tokens, whatever shows something as rows of embeddings.
fn decode<'c>(context: &'c mut Context, work: &Work, end: usize, eye: Option<&Eye>) -> Result<HiddenStates<'c>> {
    let (prompt, start) = (&work.prompt, work.position);
    let shows = prompt.media.iter().any(|slot| slot.span.start < end && slot.span.end > start);
    if !shows {
        let tokens: Vec<Token> = prompt.tokens[start..end].iter().map(|token| Token(token.0)).collect();
        return Ok(context.decode(WORK, &tokens)?);
    }
    let blind = || Error::new(ErrorKind::Upstream, "a prompt shows something to a model without a projector");
    let rows = eye.ok_or_else(blind)?.rows(prompt, start, end, |slot| work.seen.get(&slot).cloned())?;
    let placed = place(prompt, start, end);
    Ok(context.decode_rows(WORK, &rows, &placed.positions, placed.next)?)
}

/// Where to keep states of a prompt that goes on from `reused`, ascending: whole at its state's last cut; on the way at
/// the cut before that, from which a state goes on that grew out of this one; behind the pictures, which may come with
/// another text; and where it branches off another.
fn places_to_keep(cuts: &Cuts, reused: usize, branch: usize) -> Vec<usize> {
    let places = cuts.of_state();
    let count = places.len();
    let branch = places.iter().rposition(|&place| place <= branch);
    let wanted = [branch, count.checked_sub(2), count.checked_sub(1)].into_iter().flatten().map(|index| places[index]);
    let mut wanted: Vec<usize> = wanted.chain(cuts.after_media()).collect();
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
