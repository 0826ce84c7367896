//! Charts: what must be on them, and that they can be drawn of anything.

use clef_eval::{Chart, Drift, ErrorKind, Evaluation, MeasureOptions, Outcome, Side};
use serde_json::json;

use crate::support::{Record, evaluated, outcomes};

/// The words of an SVG, each on a line.
fn words(svg: &str) -> Vec<&str> {
    svg.lines().filter(|line| !line.starts_with('<') && !line.trim().is_empty()).collect()
}

/// Answers that are right about as often as they are sure.
fn many() -> Evaluation {
    let line = |index: usize| {
        let truth = (index % 97) as f64 / 96.0;
        Record::new().noul("n", json!((index * 31) % 97 < index % 97), truth).line()
    };
    evaluated(&(0..970).map(line).collect::<Vec<_>>())
}

#[track_caller]
fn png_size(chart: Chart<'_>) -> (u32, u32) {
    let bytes = chart.to_png().unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(&pixels[..3], [0xff; 3], "the paper is white");
    let ink = pixels.chunks(3).filter(|pixel| pixel.iter().all(|&level| level < 0x60)).count();
    assert!(ink > 1_000, "letters are drawn");
    (info.width, info.height)
}

#[test]
fn a_reliability_diagram_says_what_it_shows() {
    let evaluation = many();
    let chart = Chart::Reliability { title: "toy on <set> & \u{1b}more", measures: &evaluation.overall };
    let svg = chart.to_svg().unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    let words = words(&svg);
    for expected in [
        "toy on &lt;set&gt; &amp; \u{fffd}more",
        "Reliability: right answers by confidence",
        "share of right answers",
        "confidence (probability of the answer)",
        "answers",
        "970 answers",
        "perfectly calibrated",
    ] {
        assert!(words.contains(&expected), "{expected} is not in {words:?}");
    }
    let ece = format!("ECE {:.4} (15 bins)", evaluation.overall.ece.unwrap());
    assert!(words.contains(&ece.as_str()), "{ece}");
    // The count of each bin that has answers.
    for bin in evaluation.overall.reliability.iter().filter(|bin| bin.count > 0) {
        assert!(words.contains(&bin.count.to_string().as_str()), "{bin:?}");
    }
    assert_eq!(png_size(chart), (1_440, 1_560));
}

#[test]
fn a_latency_histogram_goes_by_powers_of_ten_over_wide_spans() {
    let narrow: Vec<f64> = (0..500).map(|index| 15.0 + f64::from(index % 50) / 10.0).collect();
    let wide: Vec<f64> = (0..500).map(|index| 0.8 * 1.02_f64.powi(index)).collect();
    let svg = |latencies_ms: &[f64]| Chart::Latency { title: "toy", latencies_ms }.to_svg().unwrap();
    let (narrow, wide_svg) = (svg(&narrow), svg(&wide));
    for expected in ["Latency of 500 answers", "milliseconds", "answers", "p50 17.4 ms", "p95 19.7 ms", "16", "18"] {
        assert!(words(&narrow).contains(&expected), "{expected} is not in {:?}", words(&narrow));
    }
    for expected in ["1", "10", "100", "1,000", "10,000"] {
        assert!(words(&wide_svg).contains(&expected), "{expected} is not in {:?}", words(&wide_svg));
    }
    assert_eq!(png_size(Chart::Latency { title: "toy", latencies_ms: &wide }), (1_600, 1_000));
}

fn drift(moves: &[f64]) -> Drift {
    let line = |truth: f64| {
        Record::new()
            .noul("n", json!(true), truth)
            .choice("c", json!("a"), &[("a", truth), ("b", 1.0 - truth)])
            .score("s", json!(0), &[truth / 2.0, 1.0 - truth / 2.0])
            .line()
    };
    let reference = outcomes(&vec![line(0.5); moves.len()]);
    let mut candidate = outcomes(&moves.iter().map(|delta| line(0.5 + delta)).collect::<Vec<_>>());
    candidate.iter_mut().zip(&reference).for_each(|(right, left)| right.digest = left.digest);
    let side = |subject, outcomes: &'static [Outcome]| Side { subject, outcomes };
    Drift::between(side("f32", reference.leak()), side("Q8_0", candidate.leak()), 10).unwrap()
}

#[test]
fn a_drift_chart_has_a_line_for_each_type() {
    let moves: Vec<f64> =
        (0..400).map(|index| if index % 5 == 0 { 0.0 } else { -1e-5 * 1.02_f64.powi(index) }).collect();
    let drift = drift(&moves);
    let svg = Chart::Drift(&drift).to_svg().unwrap();
    let words = words(&svg);
    for expected in [
        "Q8_0 against f32",
        "all (2,000)",
        "noul (400)",
        "choice (800)",
        "score (800)",
        "share of options that moved by at most so much",
    ] {
        assert!(words.contains(&expected), "{expected} is not in {words:?}");
    }
    assert!(words.iter().any(|word| word.starts_with("p99 ")) && words.iter().any(|word| word.starts_with("max ")));
    assert!(svg.len() < 200_000, "a line has no more points than can be seen");
    assert_eq!(png_size(Chart::Drift(&drift)), (1_600, 1_100));
}

#[test]
fn anything_can_be_drawn() {
    let nothing = evaluated(&[]);
    let one = evaluated(&[Record::new().noul("n", json!(true), 1.0).line()]);
    let fine = Evaluation::of("x", &[], &MeasureOptions { bins: 1, ..MeasureOptions::default() });
    let coarse = Evaluation::of("x", &[], &MeasureOptions { bins: 200, ..MeasureOptions::default() });
    for evaluation in [&nothing, &one, &fine, &coarse] {
        let chart = Chart::Reliability { title: "", measures: &evaluation.overall };
        chart.to_svg().unwrap();
        chart.to_png().unwrap();
    }
    let latencies: [&[f64]; 7] =
        [&[], &[0.0], &[5.0], &[0.0, 1e9], &[1e-9, 1e9], &[f64::NAN, f64::INFINITY], &[7.0, 7.0, 7.0]];
    for latencies_ms in latencies {
        let chart = Chart::Latency { title: &"日本語 long ".repeat(40), latencies_ms };
        chart.to_svg().unwrap();
        chart.to_png().unwrap();
    }
    for moves in [&[][..], &[0.0], &[1e-15], &[0.5], &[0.5, -0.5, 1e-8]] {
        let drift = drift(moves);
        let svg = Chart::Drift(&drift).to_svg().unwrap();
        assert_eq!(words(&svg).contains(&"no answers"), moves.is_empty());
        Chart::Drift(&drift).to_png().unwrap();
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_known_before_there_are_charts() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("deep/charts");
    Chart::prepare_folder(&folder).unwrap();
    std::fs::write(folder.join("latency.svg"), "old").unwrap();
    Chart::prepare_folder(&folder).unwrap();
    let names: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["latency.svg"]);
    let file = folder.join("latency.svg");
    for folder in [file.as_path(), &file.join("below")] {
        let error = Chart::prepare_folder(folder).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Chart);
        let expected = format!("charts cannot be written: cannot make the folder {}: ", folder.display());
        assert!(error.message().starts_with(&expected), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_takes_no_files_is_known_before_there_are_charts() {
    // There is such a folder on every Linux, whoever runs the tests.
    let error = Chart::prepare_folder("/proc/self".as_ref()).unwrap_err();
    assert!(error.message().starts_with("charts cannot be written: no file can be written in /proc/self: "), "{error}");
}
