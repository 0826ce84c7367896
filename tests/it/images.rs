//! Pictures and videos as the reference sees them: tokens, positions, embeddings, probabilities.

use std::path::Path;
use std::sync::Arc;

use clef_api::{Decision, FlashAttention, ModelOptions, Record, Repack, Truncate};
use clef_engine::RefusalKind;
use clef_model::Bundle;
use clef_record::{Image, MediaData, Prompt, TokenId, Video, VideoContent};
use clef_testkit::{
    GoldenRecord, Tiny, assert_close, fixture, golden, largest_difference, project_dir, tiny, tiny_projector,
};

/// The vocabulary's placeholders for a token of a picture, and of a video.
const IMAGE_PAD: i32 = 4012;
const VIDEO_PAD: i32 = 4013;

fn options() -> ModelOptions {
    ModelOptions { threads: Some(1), repack: Repack::Off, projector: Some(tiny_projector()), ..ModelOptions::default() }
}

fn open(options: &ModelOptions) -> Bundle {
    Bundle::open(&tiny(Tiny::F32), options, &mut |_, _| true).unwrap()
}

fn file(name: &str) -> MediaData {
    MediaData::File(std::fs::read(fixture(name)).unwrap().into())
}

fn parse(golden: &GoldenRecord) -> Record {
    let mut record = Record::parse(golden.body.as_bytes()).unwrap();
    record.max_length = golden.max_length;
    record.max_state_tokens = golden.max_state_tokens;
    if golden.max_length.is_some() {
        // The reference always cuts.
        record.truncate = Truncate::End;
    }
    let image = |name: &String| Image { data: file(name), loc: vec!["body".into(), "images".into()] };
    record.images = golden.media.images.iter().map(image).collect();
    let video = |names: &Vec<String>| Video {
        content: VideoContent::Frames(names.iter().map(|name| file(name)).collect()),
        fps: None,
        sample: golden.media.sample,
        loc: vec!["body".into(), "videos".into()],
    };
    record.videos = golden.media.videos.iter().map(video).collect();
    record
}

/// A prompt's tokens with placeholders for what is shown, as the reference counts them.
fn input_ids(golden: &GoldenRecord, prompt: &Prompt) -> Vec<i32> {
    let pad = |index: usize| {
        let slot = prompt.media.iter().position(|slot| slot.span.contains(&index)).unwrap();
        if slot < golden.media.images.len() { IMAGE_PAD } else { VIDEO_PAD }
    };
    let id = |(index, token): (usize, &TokenId)| if token.0 < 0 { pad(index) } else { token.0 };
    prompt.tokens.iter().enumerate().map(id).collect()
}

fn probabilities(bundle: &mut Bundle, record: &Record, prompt: &Arc<Prompt>) -> Vec<Vec<f64>> {
    let logits = bundle.evaluator().logits(prompt).unwrap();
    let decision = Decision::from_logits(record, prompt, &logits).unwrap();
    let in_prompt_order = decision.answers.iter().zip(&prompt.questions).map(|(answer, question)| {
        let all: Vec<f64> = answer.probabilities().collect();
        question.options.iter().map(|option| all[option.request_index]).collect()
    });
    in_prompt_order.collect()
}

fn shown_by_the_reference() -> Vec<GoldenRecord> {
    golden().into_iter().filter(|record| !record.media.is_empty() && record.error.is_none()).collect()
}

fn compare(options: &ModelOptions, tolerance: f64) {
    let mut bundle = open(options);
    let mut worst = 0.0_f64;
    let records = shown_by_the_reference();
    assert_eq!(records.len(), 14, "records that show something");
    for golden in records {
        let record = parse(&golden);
        let prompt = Arc::new(bundle.encoder().prompt(&record).unwrap());
        assert_eq!(input_ids(&golden, &prompt), golden.input_ids, "{}: tokens", golden.name);
        let answers = probabilities(&mut bundle, &record, &prompt);
        let patches = prompt.media.iter().map(|slot| 4 * slot.span.len()).sum::<usize>();
        let grids = golden.media.grids.iter().map(|grid| grid.iter().product::<usize>()).sum::<usize>();
        assert_eq!(patches, grids, "{}: patches", golden.name);
        assert_eq!(answers.len(), golden.probabilities.len(), "{}: answers", golden.name);
        for (ours, theirs) in answers.iter().zip(&golden.probabilities) {
            assert_close(&golden.name, ours, theirs, tolerance);
            worst = worst.max(largest_difference(ours, theirs));
        }
    }
    println!("largest difference to the reference: {worst:.2e}");
}

#[test]
fn records_that_show_something_equal_the_reference_within_2e_3_without_flash_attention() {
    compare(&ModelOptions { flash_attention: FlashAttention::Off, ..options() }, 2e-3);
}

#[test]
fn records_that_show_something_equal_the_reference_within_2e_3_by_default() {
    compare(&options(), 2e-3);
}

#[test]
fn what_the_reference_refuses_to_be_shown_is_refused_here() {
    let bundle = open(&options());
    let refused: Vec<GoldenRecord> =
        golden().into_iter().filter(|record| !record.media.is_empty() && record.error.is_some()).collect();
    assert_eq!(refused.len(), 1, "records that the reference refuses for what they show");
    for golden in refused {
        let refusal = bundle.encoder().prompt(&parse(&golden)).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Invalid);
        assert_eq!(
            refusal.message, "images: longer side is 201.0 times the shorter one (2010x10), the limit is 200",
            "{}",
            golden.name
        );
    }
}

#[test]
fn a_photo_is_answered_within_6e_3_of_the_pixels_that_the_references_decoder_makes() {
    let mut bundle = open(&options());
    let mut record = parse(&golden().into_iter().find(|golden| golden.name == "image-512x384-exact").unwrap());
    let mut ask = |path: &Path| {
        record.images[0].data = MediaData::File(std::fs::read(path).unwrap().into());
        let prompt = Arc::new(bundle.encoder().prompt(&record).unwrap());
        probabilities(&mut bundle, &record, &prompt)
    };
    // Its color is stored at half the resolution, where decoders differ most. (On a picture of few pixels, enlarged, they
    // move answers of this random model by up to 2e-2.)
    let folder = project_dir().join("crates/media/tests/fixtures");
    let (photo, pixels) = (folder.join("photo-512x384.jpg"), folder.join("photo-512x384.jpg.expected.png"));
    let mut worst = 0.0_f64;
    for (ours, theirs) in ask(&photo).iter().zip(&ask(&pixels)) {
        assert_close("photo", ours, theirs, 6e-3);
        worst = worst.max(largest_difference(ours, theirs));
    }
    assert!(worst > 0.0, "the decoders are the same");
    println!("largest difference that a JPEG decoder makes: {worst:.2e}");
}
