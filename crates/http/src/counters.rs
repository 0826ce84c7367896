//! Counts and times since the start, without locks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::reply::Facts;
use crate::router::Route;

/// Every status that is answered, and 499 for a client that went away.
pub(crate) const STATUSES: [u16; 15] = [200, 400, 401, 403, 404, 408, 413, 415, 422, 429, 499, 500, 501, 503, 0];

/// Upper bounds of histogram buckets, in seconds.
pub(crate) const BOUNDS: [f64; 18] =
    [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 120.0, 300.0];

/// All counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: [[AtomicU64; STATUSES.len()]; Route::ALL.len()],
    pub(crate) panics: AtomicU64,
    pub(crate) running: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) connections_open: AtomicU64,
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) cached_tokens: AtomicU64,
    pub(crate) truncated_tokens: AtomicU64,
    pub(crate) longest_prompt: AtomicU64,
    pub(crate) times: Times,
}

/// Where the time of answered decisions went.
#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(crate) total: Histogram,
    pub(crate) queue: Histogram,
    pub(crate) encode: Histogram,
    pub(crate) media: Histogram,
    pub(crate) backbone: Histogram,
    pub(crate) head: Histogram,
}

impl Counters {
    /// Counts a request that is over.
    pub(crate) fn request(&self, route: Route, status: u16) {
        let column = STATUSES.iter().position(|&known| known == status).unwrap_or(STATUSES.len() - 1);
        add(&self.requests[route as usize][column], 1);
    }

    /// Requests by route and status, those that happened.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (Route, u16, u64)> {
        Route::ALL.into_iter().flat_map(move |route| {
            let row = STATUSES.iter().zip(&self.requests[route as usize]);
            row.map(move |(&status, count)| (route, status, count.load(Relaxed))).filter(|&(.., count)| count > 0)
        })
    }

    /// Counts an answered decision.
    pub(crate) fn decision(&self, facts: &Facts, total: Duration) {
        add(&self.prompt_tokens, facts.input_tokens as u64);
        add(&self.cached_tokens, facts.cached_tokens as u64);
        add(&self.truncated_tokens, facts.truncated_tokens as u64);
        self.longest_prompt.fetch_max(facts.input_tokens as u64, Relaxed);
        let (times, spent) = (&self.times, &facts.timings);
        times.total.record(total);
        times.queue.record(spent.queue);
        times.encode.record(spent.encode);
        times.media.record(spent.media);
        times.backbone.record(spent.backbone);
        times.head.record(spent.head);
    }

    /// Seconds in the model, of all answered decisions.
    pub(crate) fn model_seconds(&self) -> f64 {
        self.times.media.seconds() + self.times.backbone.seconds() + self.times.head.seconds()
    }

    /// How long a full queue may take to have room: a quarter of what waits, within reason.
    pub(crate) fn queue_wait(&self, in_flight: u64) -> Duration {
        let answered = self.times.total.count().max(1);
        let seconds = self.model_seconds() / answered as f64 * in_flight as f64 / 4.0;
        Duration::from_secs_f64(seconds.clamp(0.1, 10.0))
    }
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}

/// Counts something while it lasts.
#[derive(Debug)]
pub(crate) struct Gauge<'c>(&'c AtomicU64);

impl<'c> Gauge<'c> {
    pub(crate) fn enter(counter: &'c AtomicU64) -> Self {
        add(counter, 1);
        Self(counter)
    }
}

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Times by size.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// Not cumulative; times over the last bound are in the last one.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    microseconds: AtomicU64,
}

impl Histogram {
    pub(crate) fn record(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = BOUNDS.iter().position(|&bound| seconds <= bound).unwrap_or(BOUNDS.len());
        add(&self.buckets[bucket], 1);
        add(&self.microseconds, u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts of times up to each bound; the last one is all.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().scan(0, |sum, bucket| {
            *sum += bucket.load(Relaxed);
            Some(*sum)
        })
    }

    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.microseconds.load(Relaxed) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_up_to_their_bound() {
        let histogram = Histogram::default();
        for milliseconds in [0, 1, 2, 400_000] {
            histogram.record(Duration::from_millis(milliseconds));
        }
        let counts: Vec<u64> = histogram.cumulative().collect();
        assert_eq!((counts[0], counts[1], counts[2]), (1, 2, 3));
        assert_eq!(counts[BOUNDS.len()..], [4]);
        assert_eq!(histogram.count(), 4);
        assert!((histogram.seconds() - 400.003).abs() < 1e-9);
    }
}
