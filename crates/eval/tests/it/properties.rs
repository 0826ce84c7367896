//! The measures against a second implementation, written from the definitions and in another way.

use std::collections::{BTreeMap, BTreeSet};

use clef_eval::{Evaluation, MeasureOptions, Measures};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::{Record, assert_close, outcomes};

#[derive(Debug, Clone)]
struct Asked {
    id: &'static str,
    group: &'static str,
    options: Vec<String>,
    p: Vec<f64>,
    y: Option<Vec<f64>>,
}

/// Weights as probabilities; few values, so that ties and ends of bins come up.
fn shares(options: usize) -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(0_u32..5, options).prop_filter_map("some weight", |weights| {
        let sum: u32 = weights.iter().sum();
        (sum > 0).then(|| weights.iter().map(|&weight| f64::from(weight) / f64::from(sum)).collect())
    })
}

fn target(options: usize) -> impl Strategy<Value = Option<Vec<f64>>> {
    let label =
        (0..options).prop_map(move |label| (0..options).map(|index| f64::from(u8::from(index == label))).collect());
    prop_oneof![1 => Just(None), 5 => label.prop_map(Some), 2 => shares(options).prop_map(Some)]
}

fn question(id: &'static str) -> impl Strategy<Value = Asked> {
    let names = |id: &str, count: usize| -> Vec<String> {
        match id {
            "noul" => vec!["true".to_owned(), "false".to_owned()],
            "score" => (0..count).map(|level| level.to_string()).collect(),
            _ => ["a", "b", "c", "d"].iter().take(count).map(|&name| name.to_owned()).collect(),
        }
    };
    let count = if id == "noul" { 2..=2_usize } else { 2..=4 };
    (count, prop_oneof![Just("x"), Just("y")]).prop_flat_map(move |(count, group)| {
        let options = names(id, count);
        (shares(count), target(count)).prop_map(move |(mut p, y)| {
            if id == "noul" {
                // A response says one of the two.
                p[1] = 1.0 - p[0];
            }
            Asked { id, group, options: options.clone(), p, y }
        })
    })
}

fn record() -> impl Strategy<Value = Vec<Asked>> {
    let questions = (question("noul"), question("first"), question("second"), question("score"));
    (questions, proptest::collection::vec(any::<bool>(), 4)).prop_map(|((noul, first, second, score), asked)| {
        let all = [noul, first, second, score];
        let some: Vec<_> = all.iter().zip(&asked).filter(|(_, asked)| **asked).map(|(one, _)| one.clone()).collect();
        if some.is_empty() { all[..1].to_vec() } else { some }
    })
}

fn line(record: &[Asked]) -> String {
    let mut line = Record::new();
    for asked in record {
        let gold = asked.y.as_ref().map_or(Value::Null, |y| {
            Value::Object(asked.options.iter().cloned().zip(y.iter().map(|&y| json!(y))).collect::<Map<_, _>>())
        });
        line = match asked.id {
            "noul" => line.noul(asked.id, gold, asked.p[0]),
            "score" => line.score(asked.id, gold, &asked.p),
            _ => {
                let options: Vec<_> = asked.options.iter().map(String::as_str).zip(asked.p.iter().copied()).collect();
                line.choice(asked.id, gold, &options)
            }
        };
    }
    let families: Vec<_> = record.iter().map(|asked| asked.group).collect();
    line.label("families", json!(families)).line()
}

/// The place of the largest value; the first of equals.
fn largest(values: &[f64]) -> usize {
    (0..values.len()).rev().max_by(|&left, &right| values[left].total_cmp(&values[right])).unwrap()
}

/// What a question whose gold answer is one option comes down to.
struct Decided<'a> {
    record: usize,
    asked: &'a Asked,
    label: &'a str,
    pick: &'a str,
    confidence: f64,
}

#[derive(Debug)]
struct Naive {
    accuracy: Option<f64>,
    macro_f1: Option<f64>,
    exact_match: Option<f64>,
    score_error: Option<f64>,
    brier: Option<f64>,
    ece: Option<f64>,
    bins: Vec<u64>,
}

fn average(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn naive(records: &[Vec<Asked>], bins: usize, is_in: &dyn Fn(&Asked) -> bool) -> Naive {
    let all: Vec<(usize, &Asked)> = records
        .iter()
        .enumerate()
        .flat_map(|(record, asked)| asked.iter().map(move |asked| (record, asked)))
        .filter(|(_, asked)| is_in(asked) && asked.y.is_some())
        .collect();
    let y = |asked: &Asked| asked.y.clone().unwrap();
    let decided: Vec<Decided<'_>> = all
        .iter()
        .filter(|(_, asked)| {
            let y = y(asked);
            y.iter().filter(|&&value| value == y[largest(&y)]).count() == 1
        })
        .map(|&(record, asked)| Decided {
            record,
            asked,
            label: &asked.options[largest(&y(asked))],
            pick: &asked.options[largest(&asked.p)],
            confidence: asked.p[largest(&asked.p)],
        })
        .collect();
    let share = |some: &[&Decided<'_>]| {
        average(&some.iter().map(|one| f64::from(u8::from(one.label == one.pick))).collect::<Vec<_>>())
    };
    let everything: Vec<&Decided<'_>> = decided.iter().collect();

    let mut ids = BTreeMap::<&str, Vec<&Decided<'_>>>::new();
    for one in decided.iter().filter(|one| one.asked.id != "score") {
        ids.entry(one.asked.id).or_default().push(one);
    }
    let of_id = |some: &Vec<&Decided<'_>>| {
        let classes: BTreeSet<&str> = some.iter().flat_map(|one| [one.label, one.pick]).collect();
        let f1 = |class: &str| {
            let hits = some.iter().filter(|one| one.label == class && one.pick == class).count() as f64;
            let picked = some.iter().filter(|one| one.pick == class).count() as f64;
            let labelled = some.iter().filter(|one| one.label == class).count() as f64;
            let (precision, recall) = (hits / picked.max(1.0), hits / labelled.max(1.0));
            if hits == 0.0 { 0.0 } else { 2.0 * precision * recall / (precision + recall) }
        };
        average(&classes.into_iter().map(f1).collect::<Vec<_>>()).unwrap()
    };

    let records_seen: BTreeSet<usize> = decided.iter().map(|one| one.record).collect();
    let is_exact = |record: usize| decided.iter().filter(|one| one.record == record).all(|one| one.label == one.pick);
    let exact: Vec<f64> = records_seen.into_iter().map(|record| f64::from(u8::from(is_exact(record)))).collect();

    let expected = |values: &[f64]| values.iter().enumerate().map(|(level, value)| level as f64 * value).sum::<f64>();
    let scores = all.iter().filter(|(_, asked)| asked.id == "score");
    let score_errors: Vec<f64> = scores.map(|(_, asked)| (expected(&asked.p) - expected(&y(asked))).abs()).collect();
    let briers = all.iter().map(|(_, asked)| asked.p.iter().zip(y(asked)).map(|(p, y)| (p - y).powi(2)).sum());

    let mut ece = 0.0;
    let mut counts = Vec::new();
    for bin in 1..=bins {
        let (low, high) = ((bin - 1) as f64 / bins as f64, bin as f64 / bins as f64);
        let inside = |one: &&Decided<'_>| one.confidence <= high && (one.confidence > low || bin == 1);
        let inside: Vec<&Decided<'_>> = decided.iter().filter(inside).collect();
        counts.push(inside.len() as u64);
        if let Some(accuracy) = share(&inside) {
            let confidence = average(&inside.iter().map(|one| one.confidence).collect::<Vec<_>>()).unwrap();
            ece += (accuracy - confidence).abs() * inside.len() as f64 / decided.len() as f64;
        }
    }
    Naive {
        accuracy: share(&everything),
        macro_f1: average(&ids.values().map(of_id).collect::<Vec<_>>()),
        exact_match: average(&exact),
        score_error: average(&score_errors),
        brier: average(&briers.collect::<Vec<_>>()),
        ece: (!decided.is_empty()).then_some(ece),
        bins: counts,
    }
}

#[track_caller]
fn assert_same(found: &Measures, expected: &Naive) {
    for (name, found, expected) in [
        ("accuracy", found.accuracy, expected.accuracy),
        ("macro-F1", found.macro_f1, expected.macro_f1),
        ("exact match", found.exact_match, expected.exact_match),
        ("score error", found.score_error, expected.score_error),
        ("Brier", found.brier, expected.brier),
        ("ECE", found.ece, expected.ece),
    ] {
        match (found, expected) {
            (Some(found), Some(expected)) => assert_close(found, expected, 1e-9),
            _ => assert_eq!(found, expected, "{name}"),
        }
    }
    assert_eq!(found.reliability.iter().map(|bin| bin.count).collect::<Vec<_>>(), expected.bins);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn two_implementations_agree(records in proptest::collection::vec(record(), 1..12), bins in 1_usize..20) {
        // A line without any gold answer is at fault, which is another test's matter.
        let records: Vec<_> = records.into_iter().filter(|record| record.iter().any(|asked| asked.y.is_some())).collect();
        let outcomes = outcomes(&records.iter().map(|record| line(record)).collect::<Vec<_>>());
        let options = MeasureOptions { bins, ..MeasureOptions::default() };
        let evaluation = Evaluation::of("echo", &outcomes, &options);
        assert_same(&evaluation.overall, &naive(&records, bins, &|_| true));
        for slice in &evaluation.groups {
            assert_same(&slice.measures, &naive(&records, bins, &|asked| asked.group == slice.name));
        }
        for slice in &evaluation.questions {
            assert_same(&slice.measures, &naive(&records, bins, &|asked| asked.id == slice.name));
        }
        for slice in &evaluation.types {
            let kind = |asked: &Asked| match asked.id { "noul" | "score" => asked.id, _ => "choice" };
            assert_same(&slice.measures, &naive(&records, bins, &|asked| kind(asked) == slice.name));
        }
    }

    #[test]
    fn figures_stay_in_their_ranges(records in proptest::collection::vec(record(), 1..12)) {
        let outcomes = outcomes(&records.iter().map(|record| line(record)).collect::<Vec<_>>());
        let all = Evaluation::of("echo", &outcomes, &MeasureOptions::default()).overall;
        for share in [all.accuracy, all.macro_f1, all.exact_match, all.ece] {
            prop_assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)));
        }
        prop_assert!(all.brier.is_none_or(|brier| (0.0..=2.0 + 1e-12).contains(&brier)));
        prop_assert!(all.score_error.is_none_or(|error| (0.0..=3.0).contains(&error)));
    }

    #[test]
    fn no_bytes_make_a_line_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = clef_eval::Case::parse(1, &line, true);
    }

    #[test]
    fn no_json_makes_a_line_or_a_response_panic(
        gold in json_value(), criteria in json_value(), families in json_value(), answers in json_value(),
        kind in prop_oneof![Just("noul"), Just("choice"), Just("score")],
    ) {
        let question = json!({"type": kind, "criteria": criteria});
        let line = json!({"gold": {"a": gold}, "families": families, "state": 1, "questions": {"a": question}});
        if let Ok(case) = clef_eval::Case::parse(1, line.to_string().as_bytes(), false) {
            let response = json!({"answers": {"a": answers}}).to_string();
            let _ = clef_eval::read_answers(response.as_bytes(), &case.questions);
        }
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let word =
        prop_oneof![Just("a"), Just("b"), Just("true"), Just("0"), Just("type"), Just("noul"), Just("probabilities")];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u32..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..4)
                .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}
