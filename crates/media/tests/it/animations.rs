//! Animations as frames of a video.

use std::time::Duration;

use clef_media::{Animation, ErrorKind, Format, Limits, Sampling, VideoFit};
use image::ImageFormat;

use crate::support::{decode, difference, encoded, fixture, photo, size};

fn open(bytes: &[u8]) -> Animation<'_> {
    Animation::open(bytes, &Limits::default()).unwrap()
}

fn milliseconds(animation: &Animation<'_>) -> Vec<u128> {
    animation.durations().iter().map(Duration::as_millis).collect()
}

#[test]
fn every_frame_is_the_whole_canvas_as_pillow_composes_it() {
    // The decoder of animated WebP rounds opaque pixels down where it lays one frame over another.
    let exact = ["disposal-0.gif", "disposal-1.gif", "disposal-2.gif", "disposal-3.gif", "delays.gif", "opaque.webp"];
    for (name, largest) in exact.map(|name| (name, 0)).into_iter().chain([("moving.webp", 1)]) {
        let bytes = fixture(name);
        let animation = open(&bytes);
        assert_eq!(animation.size(), size(41, 25), "{name}");
        let all: Vec<usize> = (0..animation.durations().len()).collect();
        let frames = animation.frames(&all, animation.size()).unwrap();
        for (index, frame) in frames.iter().enumerate() {
            let expected = decode(&fixture(&format!("{name}.{index}.expected.png"))).unwrap();
            let found = difference(frame.rgb(), expected.rgb());
            assert!(found.0 <= largest, "{name} frame {index}: {found:?}");
        }
    }
}

#[test]
fn frames_are_picked_by_position_and_stretched() {
    let bytes = fixture("disposal-1.gif");
    let animation = open(&bytes);
    let all = animation.frames(&[0, 1, 2, 3, 4], size(64, 32)).unwrap();
    let some = animation.frames(&[1, 1, 4], size(64, 32)).unwrap();
    assert_eq!(some, [all[1].clone(), all[1].clone(), all[4].clone()]);
    assert_eq!(animation.frames(&[], size(64, 32)).unwrap(), []);
    for wrong in [&[5][..], &[2, 1]] {
        assert_eq!(animation.frames(wrong, size(64, 32)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn durations_give_the_frame_rate() {
    let bytes = fixture("moving.webp");
    let animation = open(&bytes);
    assert_eq!(animation.format(), Format::WebP);
    assert_eq!(milliseconds(&animation), [100, 50, 200, 40, 60]);
    assert!((animation.fps() - 5.0 / 0.45).abs() < 1e-9);
    // A frame without a delay, or with the shortest, is shown for a tenth of a second.
    let bytes = fixture("delays.gif");
    let animation = open(&bytes);
    assert_eq!(milliseconds(&animation), [200, 100, 30, 100]);
    assert_eq!(animation.format(), Format::Gif);
}

#[test]
fn a_video_goes_from_bytes_to_frames_of_the_references_size() {
    let bytes = fixture("disposal-2.gif");
    let animation = open(&bytes);
    let indices = Sampling::default().indices(animation.durations().len(), animation.fps()).unwrap();
    assert_eq!(indices, [0, 1, 3, 4], "at least four, evenly spread");
    let target = VideoFit::default().target(indices.len(), animation.size()).unwrap();
    let frames = animation.frames(&indices, target).unwrap();
    assert!(frames.len() == 4 && frames.iter().all(|frame| frame.size() == size(64, 32)), "{target}");
}

#[test]
fn what_is_no_animation_is_refused_by_name() {
    for (bytes, kind, part) in [
        (fixture("rgb.png"), ErrorKind::UnsupportedFormat, "video is a PNG; GIF and WebP animations are read"),
        (fixture("lossy.webp"), ErrorKind::Shape, "one still picture"),
        (b"\0\0\0\x18ftypmp42".to_vec(), ErrorKind::UnsupportedFormat, "an MP4 or QuickTime video"),
    ] {
        let error = Animation::open(&bytes, &Limits::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(part), "{error}");
    }
    let still = encoded(&photo(8, 8), ImageFormat::Gif);
    assert_eq!(open(&still).durations().len(), 1, "a still GIF is an animation of one frame");
}

#[test]
fn frames_and_their_pixels_are_bounded() {
    let bytes = fixture("disposal-0.gif");
    let limits = Limits { max_animation_frames: 4, ..Limits::default() };
    let error = Animation::open(&bytes, &limits).unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::TooLarge, "animation has over 4 frames, that is the limit")
    );
    let limits = Limits { max_animation_pixels: 41 * 25 * 3, ..Limits::default() };
    let animation = Animation::open(&bytes, &limits).unwrap();
    assert!(animation.frames(&[0, 2], size(8, 8)).is_ok());
    let error = animation.frames(&[3], size(8, 8)).unwrap_err();
    assert_eq!(error.message(), "animation of 41x25 has 4 frames to decode, 4,100 pixels, the limit is 3,075");
    let limits = Limits { max_video_pixels: 128, ..Limits::default() };
    let error = Animation::open(&bytes, &limits).unwrap().frames(&[0, 1, 2], size(8, 8)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(error.message(), "animation of 41x25 has 3 frames of 8x8 to keep, 192 pixels, the limit is 128");
}

#[test]
fn an_animation_that_is_cut_off_is_refused() {
    for name in ["disposal-1.gif", "moving.webp"] {
        let bytes = fixture(name);
        for length in [bytes.len() / 4, bytes.len() / 2, bytes.len() - 20] {
            let error = Animation::open(&bytes[..length], &Limits::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{name}: {error}");
            assert!(error.message().contains("cut off"), "{error}");
        }
    }
    let bytes = fixture("disposal-1.gif");
    assert_eq!(open(&bytes[..bytes.len() - 1]).durations().len(), 5, "only the trailer is missing");
}
