//! What is kept of pictures makes later requests cheaper and never changes an answer; and pictures of every shape, alone
//! and together, are read as the reference reads them.
//!
//! Equal means equal to the last bit, as in `reuse.rs`.

use std::sync::Arc;
use std::time::Duration;

use clef_api::{Clef, Image, MediaData, ModelOptions, Options, Outcome, Record, Repack, Video, VideoContent};
use clef_engine::{Evaluate, LaneId, Step};
use clef_model::Bundle;
use clef_testkit::{Tiny, assert_close, bitmap, fixture, tiny, tiny_projector};
use serde_json::json;

const KINDS: [Tiny; 2] = [Tiny::F32, Tiny::Q4_K_M];

fn options(change: impl FnOnce(&mut ModelOptions)) -> ModelOptions {
    let mut options = ModelOptions {
        threads: Some(1),
        repack: Repack::Off,
        projector: Some(tiny_projector()),
        ..ModelOptions::default()
    };
    change(&mut options);
    options
}

fn open(kind: Tiny, change: impl FnOnce(&mut ModelOptions)) -> Clef {
    let options = Options { model: options(change), ..Options::default() };
    Clef::open_with(tiny(kind), &options, &mut |_, _| true).unwrap()
}

/// Nothing is remembered but the fixed prefix.
fn cold(kind: Tiny) -> Clef {
    open(kind, |options| options.cache_bytes = Some(0))
}

fn record(images: &[Vec<u8>], state: &str, question: &str) -> Record {
    let request = json!({"state": state, "questions": {
        "team": {"type": "choice", "instructions": question, "criteria": {"billing": "money", "shipping": null}},
        "table": {"type": "noul", "instructions": "Does the image contain a table?"},
    }});
    let mut record = Record::parse(request.to_string().as_bytes()).unwrap();
    let image = |(index, file): (usize, &Vec<u8>)| Image {
        data: MediaData::File(file.as_slice().into()),
        loc: vec!["body".into(), "images".into(), index.into()],
    };
    record.images = images.iter().enumerate().map(image).collect();
    record
}

fn picture(name: &str) -> Vec<u8> {
    std::fs::read(fixture(&format!("images/{name}"))).unwrap()
}

fn plain(width: u32, height: u32, color: [u8; 3]) -> Vec<u8> {
    bitmap(width, height, |_, _| color)
}

/// The bits of all probabilities.
fn bits(outcome: &Outcome) -> Vec<u64> {
    probabilities(outcome).into_iter().map(f64::to_bits).collect()
}

fn probabilities(outcome: &Outcome) -> Vec<f64> {
    outcome.decision.answers.iter().flat_map(|answer| answer.probabilities()).collect()
}

const TEXT: &str = "The document was received this morning and nobody has looked at it since.";

#[test]
fn a_picture_asked_about_again_is_seen_and_read_once() {
    for kind in KINDS {
        // 192 tokens, and 768: more than are computed at once.
        for file in ["shapes-512x384.png", "shapes-1024x768.png"] {
            let shown = [picture(file)];
            let expected = ["which?", "who?", "what next?"]
                .map(|question| bits(&cold(kind).decide(record(&shown, TEXT, question)).unwrap()));
            let clef = open(kind, |_| ());
            for (round, index) in [0, 1, 0, 2, 0].into_iter().enumerate() {
                let question = ["which?", "who?", "what next?"][index];
                let outcome = clef.decide(record(&shown, TEXT, question)).unwrap();
                assert_eq!(bits(&outcome), expected[index], "{kind:?} {file}: {question}");
                if round == 0 {
                    assert_eq!(outcome.reused_tokens, 37, "the fixed prefix");
                    assert!(outcome.timings.media > Duration::ZERO);
                } else {
                    // What is left is the text, which is too short to be kept by itself, and the questions.
                    let computed = outcome.decision.input_tokens - outcome.reused_tokens;
                    assert!(computed < 250, "{computed} of {}", outcome.decision.input_tokens);
                    assert_eq!(outcome.timings.media, Duration::ZERO);
                }
            }
        }
    }
}

#[test]
fn a_picture_with_another_text_is_not_read_again() {
    let long = TEXT.repeat(20);
    for kind in KINDS {
        let shown = [picture("shapes-512x384.png")];
        let clef = open(kind, |_| ());
        clef.decide(record(&shown, &long, "which?")).unwrap();
        let outcome = clef.decide(record(&shown, "Something else.", "which?")).unwrap();
        assert_eq!(outcome.reused_tokens, 37 + 1 + 192 + 1, "{kind:?}: prefix and picture");
        let expected = cold(kind).decide(record(&shown, "Something else.", "which?")).unwrap();
        assert_eq!(bits(&outcome), bits(&expected));
        // The same picture behind another one is read again, but not seen again.
        let both = [picture("gradient-256x256.png"), picture("shapes-512x384.png")];
        clef.decide(record(&both[..1], TEXT, "which?")).unwrap();
        let outcome = clef.decide(record(&both, TEXT, "which?")).unwrap();
        assert_eq!(outcome.reused_tokens, 37 + 1 + 64 + 1, "{kind:?}: the first picture");
        assert_eq!(outcome.timings.media, Duration::ZERO);
        assert_eq!(bits(&outcome), bits(&cold(kind).decide(record(&both, TEXT, "which?")).unwrap()));
    }
}

#[test]
fn pictures_are_told_apart_by_their_pixels() {
    for kind in KINDS {
        let (red, blue) = (plain(64, 64, [255, 0, 0]), plain(64, 64, [0, 0, 255]));
        let almost = bitmap(64, 64, |x, y| if (x, y) == (40, 20) { [255, 3, 0] } else { [255, 0, 0] });
        let wide = plain(128, 32, [255, 0, 0]);
        let clef = open(kind, |_| ());
        let mut seen: Vec<Vec<u64>> = Vec::new();
        for file in [&red, &blue, &almost, &wide] {
            let outcome = clef.decide(record(std::slice::from_ref(file), TEXT, "which?")).unwrap();
            let expected = cold(kind).decide(record(std::slice::from_ref(file), TEXT, "which?")).unwrap();
            assert_eq!(bits(&outcome), bits(&expected), "{kind:?}");
            assert!(!seen.contains(&bits(&outcome)), "{kind:?}: two pictures, one answer");
            seen.push(bits(&outcome));
        }
        // Another file of the same pixels is the same picture.
        let mut renamed = red.clone();
        renamed[38] = 19;
        let outcome = clef.decide(record(&[renamed], TEXT, "which?")).unwrap();
        assert_eq!((bits(&outcome), outcome.timings.media), (seen[0].clone(), Duration::ZERO));
        // Order matters.
        let one = clef.decide(record(&[red.clone(), blue.clone()], TEXT, "which?")).unwrap();
        let other = clef.decide(record(&[blue, red], TEXT, "which?")).unwrap();
        assert_ne!(bits(&one), bits(&other));
    }
}

#[test]
fn the_same_picture_fifty_times_is_answered_alike() {
    for kind in KINDS {
        let shown = [picture("shapes-300x200.png")];
        let clef = open(kind, |_| ());
        let first = bits(&clef.decide(record(&shown, TEXT, "which?")).unwrap());
        for round in 0..50 {
            if round % 10 == 0 {
                clef.decide(record(&[], &TEXT.repeat(30), "which?")).unwrap();
            }
            assert_eq!(bits(&clef.decide(record(&shown, TEXT, "which?")).unwrap()), first, "{kind:?}: round {round}");
        }
    }
}

#[test]
fn answers_under_load_and_little_memory_are_the_answers_alone() {
    let files = ["gradient-256x256.png", "shapes-300x200.png", "shapes-512x384.png", "shapes-48x900.png"];
    for kind in KINDS {
        let requests: Vec<Record> = (0..8)
            .map(|index| {
                let shown: Vec<Vec<u8>> = files[index % 4..].iter().take(index % 3).map(|file| picture(file)).collect();
                record(&shown, &TEXT.repeat(1 + index % 4), ["which?", "who?"][index % 2])
            })
            .collect();
        let alone: Vec<_> = requests.iter().map(|request| bits(&cold(kind).decide(request.clone()).unwrap())).collect();
        for cache_bytes in [None, Some(3 << 20)] {
            let clef = open(kind, |options| options.cache_bytes = cache_bytes);
            std::thread::scope(|scope| {
                for client in 0..4 {
                    let (clef, requests, alone) = (&clef, &requests, &alone);
                    scope.spawn(move || {
                        for round in 0..8 {
                            let index = (round * (client + 1) + client) % 8;
                            let outcome = clef.decide(requests[index].clone()).unwrap();
                            assert_eq!(bits(&outcome), alone[index], "{kind:?}: client {client}, request {index}");
                        }
                    });
                }
            });
        }
    }
}

#[test]
fn how_much_is_computed_at_once_does_not_matter() {
    // 768 tokens of a picture, which is cut in different places each time.
    let shown = [picture("shapes-1024x768.png"), picture("gradient-256x256.png")];
    let expected = cold(Tiny::F32).decide(record(&shown, TEXT, "which?")).unwrap();
    for chunk in [64, 100, 128, 333, 2048] {
        let clef = open(Tiny::F32, |options| options.chunk_tokens = Some(chunk));
        let outcome = clef.decide(record(&shown, TEXT, "which?")).unwrap();
        assert_close(&format!("{chunk} at once"), &probabilities(&outcome), &probabilities(&expected), 1e-3);
        let again = clef.decide(record(&shown, TEXT, "which?")).unwrap();
        assert_eq!(bits(&again), bits(&outcome), "{chunk} at once");
    }
}

#[test]
fn pictures_and_videos_are_shown_together() {
    let frames =
        |names: [&str; 4]| VideoContent::Frames(names.map(|name| MediaData::File(picture(name).into())).into());
    let video = |content| Video { content, fps: Some(2.0), sample: false, loc: vec!["body".into(), "videos".into()] };
    let names = ["video-b-0.png", "video-b-1.png", "video-b-2.png", "video-b-3.png"];
    let mut both = record(&[picture("gradient-256x256.png")], TEXT, "which?");
    both.videos = vec![video(frames(names))];
    let mut swapped = both.clone();
    swapped.videos = vec![video(frames([names[1], names[0], names[2], names[3]]))];
    for kind in KINDS {
        let clef = open(kind, |_| ());
        let outcome = clef.decide(both.clone()).unwrap();
        assert_eq!(bits(&outcome), bits(&cold(kind).decide(both.clone()).unwrap()), "{kind:?}");
        assert_eq!(bits(&outcome), bits(&clef.decide(both.clone()).unwrap()));
        assert_ne!(bits(&outcome), bits(&clef.decide(swapped.clone()).unwrap()), "frames have an order");
        let alone = clef.decide(record(&[picture("gradient-256x256.png")], TEXT, "which?")).unwrap();
        // Two steps of twenty tokens, with their times and what stands around them.
        assert!(outcome.decision.input_tokens > alone.decision.input_tokens + 40);
    }
}

#[test]
fn one_step_sees_one_picture_or_reads_one_chunk() {
    let mut bundle = Bundle::open(&tiny(Tiny::F32), &options(|_| ()), &mut |_, _| true).unwrap();
    let shown = [picture("shapes-512x384.png"), picture("gradient-256x256.png"), picture("shapes-512x384.png")];
    let prompt = Arc::new(bundle.encoder().prompt(&record(&shown, TEXT, "which?")).unwrap());
    let model = bundle.evaluator();
    let expected = model.steps(&prompt);
    let begun = model.begin(LaneId(0), &prompt).unwrap();
    assert_eq!(begun.steps, expected);
    let mut left = begun.steps;
    loop {
        match model.step(&[LaneId(0)]).remove(0).unwrap() {
            // The third picture was seen already, which is known only then.
            Step::Reading { steps } => {
                assert!(steps < left && steps + 2 >= left, "{left} steps, then {steps}");
                left = steps;
            }
            Step::Answered(evaluation) => {
                assert!(left <= 2 && evaluation.media > Duration::ZERO);
                break;
            }
        }
    }
    assert!(prompt.media.iter().all(|slot| slot.shown.get().is_none()), "pixels are let go of");
}

#[test]
fn pixels_of_work_that_is_given_up_are_let_go_of() {
    let mut bundle = Bundle::open(&tiny(Tiny::F32), &options(|_| ()), &mut |_, _| true).unwrap();
    let shown = [picture("shapes-512x384.png"), picture("gradient-256x256.png")];
    let prompt = Arc::new(bundle.encoder().prompt(&record(&shown, TEXT, "which?")).unwrap());
    assert!(prompt.media.iter().all(|slot| slot.shown.get().is_some()));
    let model = bundle.evaluator();
    model.begin(LaneId(0), &prompt).unwrap();
    model.step(&[LaneId(0)]).remove(0).unwrap();
    model.abandon(LaneId(0));
    assert!(prompt.media.iter().all(|slot| slot.shown.get().is_none()));
    // Equal pixels have equal names.
    let again = Arc::new(bundle.encoder().prompt(&record(&shown, TEXT, "which?")).unwrap());
    assert_eq!(again.tokens, prompt.tokens);
}

#[test]
fn records_with_and_without_pictures_are_answered_in_one_batch() {
    let clef = open(Tiny::F32, |_| ());
    let damaged = vec![b"\x89PNG\r\n\x1a\n".to_vec()];
    let batch: Vec<Record> = (0..20)
        .map(|index| match index % 4 {
            0 => record(&[], TEXT, "which?"),
            1 => record(&[picture("gradient-256x256.png")], TEXT, "which?"),
            2 => record(&damaged, TEXT, "which?"),
            _ => record(&[], &TEXT.repeat(1 + index), "who?"),
        })
        .collect();
    let outcomes = clef.decide_all(batch.clone());
    assert_eq!(outcomes.len(), batch.len());
    for (index, (outcome, record)) in outcomes.into_iter().zip(batch).enumerate() {
        match (index % 4, outcome) {
            (2, outcome) => assert!(outcome.is_err_and(|error| error.is_request_fault()), "{index}"),
            (_, outcome) => assert_eq!(bits(&outcome.unwrap()), bits(&clef.decide(record).unwrap()), "{index}"),
        }
    }
}
