//! The measures against figures computed by hand, and by scikit-learn.

use clef_eval::{Evaluation, MeasureOptions, Measures};
use serde_json::json;

use crate::support::{Record, assert_close, assert_figure, evaluated, outcomes};

fn slice<'a>(slices: &'a [clef_eval::Slice], name: &str) -> &'a Measures {
    &slices.iter().find(|slice| slice.name == name).expect(name).measures
}

#[test]
fn by_hand() {
    let route = |gold: &str, billing: f64, shipping: f64, technical: f64| {
        let options = [("billing", billing), ("shipping", shipping), ("technical", technical)];
        Record::new().choice("route", json!(gold), &options)
    };
    let lines = [
        route("billing", 0.8, 0.1, 0.1).noul("angry", json!(true), 0.9).label("group", json!("a")).line(),
        route("shipping", 0.5, 0.3, 0.2).noul("angry", json!(false), 0.25).label("group", json!("a")).line(),
        route("shipping", 0.0, 1.0, 0.0)
            .score("urgency", json!(1), &[0.0, 0.5, 0.25, 0.25])
            .label("group", json!("b"))
            .line(),
        route("billing", 0.2, 0.7, 0.1)
            .score("urgency", json!(2.5), &[0.0, 0.0, 0.5, 0.5])
            .label("group", json!(["a", "b"]))
            .line(),
    ];
    let evaluation = evaluated(&lines);

    let all = &evaluation.overall;
    assert_eq!((all.records, all.errors, all.questions, all.decided), (4, 0, 8, 7));
    // Right: billing, shipping; true, false; level 1. A level of 2.5 decides nothing.
    assert_figure(all.accuracy, 5.0 / 7.0);
    // Records 1 and 3; of record 4 only the route is decided, and it is wrong.
    assert_figure(all.exact_match, 2.0 / 4.0);
    // abs(0.5 + 0.5 + 0.75 - 1) and abs(1 + 1.5 - 2.5).
    assert_figure(all.score_error, (0.75 + 0.0) / 2.0);
    let route = [0.04 + 0.01 + 0.01, 0.25 + 0.49 + 0.04, 0.0, 0.64 + 0.49 + 0.01];
    let angry = [2.0 * 0.01, 2.0 * 0.0625];
    let urgency = [0.25 + 0.0625 + 0.0625, 0.0];
    let briers = route.iter().chain(&angry).chain(&urgency).sum::<f64>();
    assert_figure(all.brier, briers / 8.0);
    // route: billing TP 1 FP 1 FN 1 -> 1/2; shipping TP 1 FP 1 FN 1 -> 1/2; technical never. angry: both right.
    assert_figure(all.macro_f1, (0.5 + 1.0) / 2.0);
    assert_figure(slice(&evaluation.questions, "route").macro_f1, 0.5);
    // Bins of 1/15, by confidence: 0.8 right, 0.9 right; 0.5 wrong, 0.75 right; 1.0 right, 0.5 right; 0.7 wrong.
    // 0.5 is in (7/15, 8/15]: one of two right. 0.7 in (10/15, 11/15], 0.75 and 0.8 in (11/15, 12/15].
    let gaps = [(1.0 - 2.0 * 0.5_f64).abs(), 0.7, (2.0 - 1.55_f64).abs(), (1.0 - 0.9_f64).abs(), 0.0];
    assert_figure(all.ece, gaps.iter().sum::<f64>() / 7.0);
    let counts: Vec<u64> = all.reliability.iter().map(|bin| bin.count).collect();
    assert_eq!(counts, [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1, 2, 0, 1, 1]);
    assert_eq!(all.reliability[7].accuracy, Some(0.5));
    assert_eq!(all.reliability[0].accuracy, None);

    // Group a holds records 1, 2 and 4.
    let a = slice(&evaluation.groups, "a");
    assert_eq!((a.records, a.questions, a.decided), (3, 6, 5));
    assert_figure(a.accuracy, 3.0 / 5.0);
    assert_figure(a.exact_match, 1.0 / 3.0);
    let names: Vec<&str> = evaluation.types.iter().map(|slice| slice.name.as_str()).collect();
    assert_eq!(names, ["noul", "choice", "score"]);
    let choice = slice(&evaluation.types, "choice");
    assert_eq!((choice.records, choice.accuracy, choice.score_error), (4, Some(0.5), None));
    let score = slice(&evaluation.types, "score");
    assert_eq!((score.records, score.decided, score.macro_f1), (2, 1, None));
}

#[test]
fn exact_match_of_a_slice_is_over_its_own_questions() {
    let line = Record::new()
        .noul("a", json!(true), 0.9)
        .noul("b", json!(true), 0.1)
        .label("families", json!(["easy", "hard"]))
        .line();
    let evaluation = evaluated(&[line]);
    assert_eq!(evaluation.overall.exact_match, Some(0.0));
    assert_eq!(slice(&evaluation.groups, "easy").exact_match, Some(1.0));
    assert_eq!(slice(&evaluation.groups, "hard").exact_match, Some(0.0));
}

#[test]
fn a_class_that_is_only_picked_counts_and_one_that_never_occurs_does_not() {
    let line = |gold: &str, p: [f64; 4]| {
        Record::new().choice("q", json!(gold), &[("a", p[0]), ("b", p[1]), ("c", p[2]), ("never", p[3])]).line()
    };
    let only_picked = [line("a", [1.0, 0.0, 0.0, 0.0]), line("a", [0.0, 1.0, 0.0, 0.0])];
    // a: 2 TP 1 / (2 + 0 + 1) = 2/3; b: 0.
    assert_figure(evaluated(&only_picked).overall.macro_f1, (2.0 / 3.0 + 0.0) / 2.0);
    // Never picked and labelled once: a 2/3, b 0 with a false negative.
    let never_picked = [line("a", [1.0, 0.0, 0.0, 0.0]), line("b", [1.0, 0.0, 0.0, 0.0])];
    assert_figure(evaluated(&never_picked).overall.macro_f1, (2.0 / 3.0 + 0.0) / 2.0);
    // One class alone.
    assert_figure(evaluated(&only_picked[..1]).overall.macro_f1, 1.0);
}

#[test]
fn question_ids_weigh_the_same_in_macro_f1_however_often_they_are_asked() {
    let noul = |id: &str, gold: bool, truth: f64| Record::new().noul(id, json!(gold), truth).line();
    let mut lines = vec![noul("rare", true, 0.1)];
    lines.extend((0..9).flat_map(|_| [noul("often", true, 0.9), noul("often", false, 0.1)]));
    let evaluation = evaluated(&lines);
    assert_figure(evaluation.overall.macro_f1, 0.5);
    assert_figure(evaluation.overall.accuracy, 18.0 / 19.0);
}

#[test]
fn a_noul_of_one_half_is_true_and_a_tie_is_its_first_option() {
    let lines = [
        Record::new().noul("n", json!(true), 0.5).line(),
        Record::new().choice("c", json!("b"), &[("a", 0.25), ("b", 0.375), ("c", 0.375)]).line(),
    ];
    assert_figure(evaluated(&lines).overall.accuracy, 1.0);
}

#[test]
fn a_split_panel_counts_for_the_brier_score_only() {
    let line =
        Record::new().noul("n", json!(0.5), 0.8).choice("c", json!({"a": 0.9, "b": 0.1}), &[("a", 0.6), ("b", 0.4)]);
    let outcomes = outcomes(&[line.line()]);
    let strict = MeasureOptions { min_certainty: 0.95, ..MeasureOptions::default() };
    let by_default = Evaluation::of("echo", &outcomes, &MeasureOptions::default()).overall;
    let strict = Evaluation::of("echo", &outcomes, &strict).overall;
    let brier = (2.0 * 0.09 + 2.0 * 0.09) / 2.0;
    assert_figure(by_default.brier, brier);
    assert_figure(strict.brier, brier);
    assert_eq!((by_default.questions, by_default.decided, by_default.exact_match), (2, 1, Some(1.0)));
    assert_eq!(
        (strict.questions, strict.decided, strict.accuracy, strict.exact_match, strict.ece),
        (2, 0, None, None, None)
    );
}

#[test]
fn errors_are_counted_and_measured_by_nothing() {
    let record = || Record::new().noul("n", json!(true), 0.9).label("group", json!("g"));
    let lines = [record().line(), record().failing("refused"), "{}".to_owned()];
    let evaluation = evaluated(&lines);
    let all = &evaluation.overall;
    assert_eq!(
        (all.records, all.errors, all.questions, all.accuracy, all.exact_match),
        (3, 2, 1, Some(1.0), Some(1.0))
    );
    let group = slice(&evaluation.groups, "g");
    assert_eq!((group.records, group.errors), (2, 1));
    assert_eq!(evaluation.latencies_ms.len(), 1);
    let kinds: Vec<_> = evaluation.failures.iter().map(|failure| (failure.line, failure.kind)).collect();
    assert_eq!(kinds, [(2, "refused"), (3, "line")]);
}

#[test]
fn nothing_to_measure_is_no_figure() {
    let evaluation = evaluated(&[]);
    let all = evaluation.overall;
    assert_eq!((all.records, all.questions), (0, 0));
    for figure in [all.accuracy, all.macro_f1, all.exact_match, all.score_error, all.brier, all.ece, all.latency_p50_ms]
    {
        assert_eq!(figure, None);
    }
    assert!(evaluation.types.is_empty() && evaluation.groups.is_empty() && evaluation.questions.is_empty());
}

#[test]
fn latencies_are_nearest_ranks_of_answered_records() {
    let record = |index: usize| {
        Record::new().noul("n", json!(true), 0.5).label("group", json!(if index < 4 { "a" } else { "b" })).line()
    };
    let mut outcomes = outcomes(&(0..20).map(record).collect::<Vec<_>>());
    for (index, outcome) in outcomes.iter_mut().enumerate() {
        // 20, 19, ..., 1
        outcome.reply.as_mut().unwrap().latency_ms = (20 - index) as f64;
    }
    let evaluation = Evaluation::of("echo", &outcomes, &MeasureOptions::default());
    assert_eq!((evaluation.overall.latency_p50_ms, evaluation.overall.latency_p95_ms), (Some(10.0), Some(19.0)));
    let a = slice(&evaluation.groups, "a");
    assert_eq!((a.latency_p50_ms, a.latency_p95_ms), (Some(18.0), Some(20.0)));
    assert!(evaluation.latencies_ms.is_sorted());
}

/// Drawn by numpy's generator 7: probabilities of billing, shipping, technical and sales, and the label. Sales is picked
/// and never right.
#[expect(clippy::approx_constant, reason = "drawn at random, not meant as one")]
const TEAM: [([f64; 4], usize); 24] = [
    ([0.329, 0.58, 0.091, 0.0], 0),
    ([0.024, 0.019, 0.055, 0.902], 2),
    ([0.101, 0.562, 0.008, 0.329], 1),
    ([0.152, 0.001, 0.309, 0.538], 2),
    ([0.272, 0.437, 0.021, 0.27], 1),
    ([0.006, 0.492, 0.218, 0.284], 1),
    ([0.581, 0.123, 0.287, 0.009], 1),
    ([0.445, 0.013, 0.523, 0.019], 2),
    ([0.07, 0.504, 0.136, 0.29], 0),
    ([0.035, 0.504, 0.31, 0.151], 1),
    ([0.152, 0.361, 0.02, 0.467], 1),
    ([0.426, 0.119, 0.236, 0.219], 0),
    ([0.053, 0.113, 0.147, 0.687], 1),
    ([0.283, 0.049, 0.467, 0.201], 0),
    ([0.596, 0.043, 0.002, 0.359], 0),
    ([0.184, 0.356, 0.318, 0.142], 1),
    ([0.19, 0.447, 0.362, 0.001], 1),
    ([0.502, 0.053, 0.422, 0.023], 2),
    ([0.354, 0.164, 0.144, 0.338], 1),
    ([0.013, 0.185, 0.619, 0.183], 0),
    ([0.575, 0.051, 0.355, 0.019], 2),
    ([0.305, 0.22, 0.473, 0.002], 2),
    ([0.717, 0.035, 0.183, 0.065], 2),
    ([0.208, 0.392, 0.112, 0.288], 0),
];

/// Probabilities of true, and whether it is.
const ANGRY: [(f64, bool); 24] = [
    (0.695, false),
    (0.054, false),
    (0.495, true),
    (0.644, false),
    (0.817, false),
    (0.31, false),
    (0.074, false),
    (0.679, true),
    (0.068, false),
    (0.849, true),
    (0.294, true),
    (0.383, false),
    (0.826, true),
    (0.467, true),
    (0.017, false),
    (0.604, true),
    (0.106, true),
    (0.925, true),
    (0.373, true),
    (0.579, true),
    (0.847, true),
    (0.954, true),
    (0.966, true),
    (0.502, false),
];

/// Probabilities of five levels, and the right one.
#[expect(clippy::approx_constant, reason = "drawn at random, not meant as one")]
const URGENCY: [([f64; 5], usize); 24] = [
    ([0.117, 0.552, 0.235, 0.044, 0.052], 2),
    ([0.016, 0.151, 0.669, 0.159, 0.005], 2),
    ([0.199, 0.561, 0.152, 0.008, 0.08], 1),
    ([0.082, 0.043, 0.076, 0.506, 0.293], 4),
    ([0.101, 0.318, 0.348, 0.089, 0.144], 2),
    ([0.181, 0.106, 0.336, 0.031, 0.346], 4),
    ([0.03, 0.154, 0.229, 0.134, 0.453], 1),
    ([0.126, 0.131, 0.036, 0.19, 0.517], 4),
    ([0.296, 0.015, 0.241, 0.184, 0.264], 2),
    ([0.313, 0.143, 0.112, 0.252, 0.18], 2),
    ([0.102, 0.323, 0.105, 0.306, 0.164], 1),
    ([0.106, 0.126, 0.003, 0.578, 0.187], 3),
    ([0.111, 0.18, 0.374, 0.216, 0.119], 3),
    ([0.203, 0.17, 0.434, 0.017, 0.176], 4),
    ([0.318, 0.47, 0.02, 0.131, 0.061], 1),
    ([0.08, 0.334, 0.035, 0.188, 0.363], 4),
    ([0.14, 0.13, 0.379, 0.25, 0.101], 2),
    ([0.328, 0.117, 0.088, 0.186, 0.281], 1),
    ([0.101, 0.239, 0.16, 0.13, 0.37], 3),
    ([0.031, 0.015, 0.168, 0.116, 0.67], 2),
    ([0.197, 0.447, 0.132, 0.009, 0.215], 1),
    ([0.047, 0.1, 0.622, 0.113, 0.118], 2),
    ([0.143, 0.61, 0.036, 0.144, 0.067], 2),
    ([0.08, 0.208, 0.106, 0.378, 0.228], 0),
];

/// scikit-learn 1.9.1: `accuracy_score`, `f1_score(average="macro", zero_division=0)`,
/// `brier_score_loss(scale_by_half=False)`, `mean_absolute_error` of `P @ arange(5)`; numpy 2.4 for the calibration error:
/// `sum(m.mean() * abs(hit[m].mean() - conf[m].mean()))` over `m = (conf > lo) & (conf <= hi)`.
#[test]
fn as_scikit_learn_computes_them() {
    const TEAMS: [&str; 4] = ["billing", "shipping", "technical", "sales"];
    let line = |index: usize| {
        let (team, label) = TEAM[index];
        let options: Vec<(&str, f64)> = TEAMS.into_iter().zip(team).collect();
        let (truth, is_angry) = ANGRY[index];
        let (levels, level) = URGENCY[index];
        Record::new()
            .choice("team", json!(TEAMS[label]), &options)
            .noul("angry", json!(is_angry), truth)
            .score("urgency", json!(level), &levels)
            .line()
    };
    let outcomes = outcomes(&(0..24).map(line).collect::<Vec<_>>());
    let of = |bins| Evaluation::of("echo", &outcomes, &MeasureOptions { bins, ..MeasureOptions::default() });
    let (fifteen, ten) = (of(15), of(10));
    for (id, accuracy, macro_f1, brier, ece, ece_of_ten) in [
        ("team", 0.4166666666666667, 0.3202323991797676, 0.7647634999999999, 0.2590416666666666, 0.26179166666666664),
        ("angry", 0.625, 0.6190476190476191, 0.40214533333333335, 0.18291666666666667, 0.1659166666666667),
        ("urgency", 0.5, f64::NAN, 0.6895554166666668, 0.14262499999999997, 0.11779166666666666),
    ] {
        let found = slice(&fifteen.questions, id);
        assert_figure(found.accuracy, accuracy);
        assert_figure(found.brier, brier);
        assert_figure(found.ece, ece);
        assert_figure(slice(&ten.questions, id).ece, ece_of_ten);
        match found.macro_f1 {
            Some(found) => assert_close(found, macro_f1, 1e-12),
            None => assert_eq!(id, "urgency", "levels are no classes"),
        }
    }
    let all = &fifteen.overall;
    assert_figure(all.score_error, 0.8454166666666666);
    assert_figure(all.exact_match, 0.25);
    assert_figure(all.accuracy, 0.5138888888888888);
    assert_figure(all.ece, 0.14650000000000002);
    assert_figure(all.macro_f1, (0.3202323991797676 + 0.6190476190476191) / 2.0);
}
