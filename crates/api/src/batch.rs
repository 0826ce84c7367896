//! Many records, some of them in flight at a time.

use std::collections::VecDeque;
use std::iter::Fuse;
use std::num::NonZeroUsize;

use clef_engine::{EngineErrorKind, Outcome, Ticket};
use clef_record::Record;

use crate::{Clef, Error};

/// The answers to records, in their order; see [`Clef::decide_each`].
#[derive(Debug)]
pub struct Decisions<'a, I, E> {
    clef: &'a Clef,
    records: Fuse<I>,
    in_flight: usize,
    waiting: VecDeque<Waiting<E>>,
}

#[derive(Debug)]
enum Waiting<E> {
    /// The record stays with its ticket, for when it has to be handed in again.
    Asked(Record, Ticket),
    /// There was no room in the queue.
    Held(Record),
    Failed(E),
}

impl<'a, I: Iterator, E> Decisions<'a, I, E> {
    pub(crate) fn new(clef: &'a Clef, records: I, in_flight: NonZeroUsize) -> Self {
        Self { clef, records: records.fuse(), in_flight: in_flight.get(), waiting: VecDeque::new() }
    }
}

impl<I: Iterator<Item = Result<Record, E>>, E: From<Error>> Iterator for Decisions<'_, I, E> {
    type Item = Result<Outcome, E>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.waiting.len() < self.in_flight
            && let Some(record) = self.records.next()
        {
            let waiting = match record.map(|record| (self.clef.submit(record.clone()), record)) {
                Ok((Ok(ticket), record)) => Waiting::Asked(record, ticket),
                Ok((Err(error), record)) if error.kind() == EngineErrorKind::QueueFull => Waiting::Held(record),
                Ok((Err(error), _)) => Waiting::Failed(Error::from(error).into()),
                Err(error) => Waiting::Failed(error),
            };
            self.waiting.push_back(waiting);
        }
        let outcome = match self.waiting.pop_front()? {
            Waiting::Asked(record, ticket) => match ticket.wait() {
                // Without room for its pictures beside those of the others.
                Err(error) if error.kind() == EngineErrorKind::QueueFull => self.clef.decide(record),
                outcome => outcome.map_err(Error::from),
            },
            Waiting::Held(record) => self.clef.decide(record),
            Waiting::Failed(error) => return Some(Err(error)),
        };
        Some(outcome.map_err(E::from))
    }
}
