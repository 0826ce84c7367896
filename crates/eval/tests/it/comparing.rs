//! Two runs over the same requests: by how much they are apart.

use clef_eval::{Drift, ErrorKind, Outcome, Side};
use serde_json::json;

use crate::support::{Record, assert_figure, outcomes};

/// Three records that both sides answered, a line at fault, and one that nobody answered.
fn runs() -> (Vec<Outcome>, Vec<Outcome>) {
    let record = |noul: f64, choice: [f64; 3], score: [f64; 2]| {
        let options = [("a", choice[0]), ("b", choice[1]), ("c", choice[2])];
        [
            Record::new().noul("n", json!(true), noul).label("id", json!("first")).line(),
            Record::new().choice("c", json!("a"), &options).line(),
            Record::new().score("s", json!(1), &score).noul("m", json!(true), 0.5).line(),
            "{}".to_owned(),
            Record::new().noul("n", json!(true), 0.5).failing("refused"),
        ]
    };
    let mut reference = outcomes(&record(0.75, [0.5, 0.25, 0.25], [0.5, 0.5]));
    let mut candidate = outcomes(&record(0.5, [0.25, 0.5, 0.25], [0.5, 0.5]));
    // The requests of these tests hold their answers, so those of two sides differ.
    reference.iter_mut().zip(&mut candidate).for_each(|(left, right)| left.digest = right.digest);
    (reference, candidate)
}

fn side<'a>(subject: &'a str, outcomes: &'a [Outcome]) -> Side<'a> {
    Side { subject, outcomes }
}

#[test]
fn by_hand() {
    let (reference, candidate) = runs();
    let drift = Drift::between(side("f32", &reference), side("Q8_0", &candidate), 10).unwrap();
    assert_eq!((drift.records, drift.unanswered), (3, 2));
    let all = &drift.overall;
    // A noul counts once: 0.25; the choice 0.25, 0.25, 0; the score 0, 0; the other noul 0.
    assert_eq!((all.questions, all.options, all.flips), (4, 7, 1));
    assert_figure(all.mean, 0.75 / 7.0);
    assert_eq!((all.p50, all.p99, all.max), (Some(0.0), Some(0.25), Some(0.25)));
    assert_figure(all.flip_rate, 0.25);
    let types: Vec<_> =
        drift.types.iter().map(|slice| (slice.name.as_str(), slice.shift.options, slice.shift.flips)).collect();
    // From 0.75 to 0.5, true stays the pick.
    assert_eq!(types, [("noul", 2, 0), ("choice", 3, 1), ("score", 2, 0)]);
    let worst: Vec<_> = drift.worst.iter().map(|moved| (moved.line, moved.option.as_str(), moved.is_flip())).collect();
    assert_eq!(worst, [(1, "true", false), (2, "a", true)]);
    let moved = &drift.worst[1];
    assert_eq!((moved.reference, moved.candidate, moved.delta), (0.5, 0.25, 0.25));
    assert_eq!((moved.reference_pick.as_str(), moved.candidate_pick.as_str()), ("a", "b"));
    assert_eq!(drift.deltas.values().map(Vec::len).sum::<usize>(), 7);
}

#[test]
fn a_run_does_not_drift_from_itself() {
    let (reference, _) = runs();
    let drift = Drift::between(side("a", &reference), side("a", &reference), 10).unwrap();
    assert_eq!((drift.overall.max, drift.overall.flips, drift.worst.len()), (Some(0.0), 0, 0));
    let nothing = Drift::between(side("a", &[]), side("b", &[]), 10).unwrap();
    assert_eq!((nothing.overall.mean, nothing.overall.flip_rate), (None, None));
}

#[test]
fn the_furthest_come_first_and_no_more_than_asked() {
    let line = |truth: f64| Record::new().noul("n", json!(true), truth).line();
    let reference = outcomes(&[0.5, 0.5, 0.5, 0.5].map(line));
    let mut candidate = outcomes(&[0.6, 0.1, 0.5, 0.7].map(line));
    candidate.iter_mut().zip(&reference).for_each(|(right, left)| right.digest = left.digest);
    let drift = Drift::between(side("a", &reference), side("b", &candidate), 2).unwrap();
    assert_eq!(drift.worst.iter().map(|moved| moved.line).collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn runs_over_other_requests_are_not_compared() {
    let (reference, candidate) = runs();
    let between = |right: &[Outcome]| Drift::between(side("a", &reference), side("b", right), 1).unwrap_err();
    let error = between(&candidate[..3]);
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(error.message().ends_with("one run has 5 records, the other 3"), "{error}");
    let mut other = candidate;
    other[1].digest = other[0].digest;
    assert!(between(&other).message().ends_with("line 2 of one run is not line 2 of the other"));
}
