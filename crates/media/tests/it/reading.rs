//! A stranger's bytes all the way, as a server reads them, with what must hold whatever they are.
//!
//! Kept apart from the tests so that the fuzz target `picture` (`fuzz/`) goes the same way as the test that replays its
//! corpus.

use clef_media::{
    Animation, Error, Format, Frame, ImageFit, Limits, Picture, Result, Sampling, VideoFit, decode_base64,
    decode_data_url, step_times,
};

use crate::corruption::repair_png;

/// Small enough that a file takes milliseconds; the code that holds files against them is the same.
const LIMITS: Limits = Limits {
    max_pixels: 1 << 16,
    max_compression_ratio: 100,
    any_ratio_pixels: 1 << 15,
    max_animation_frames: 32,
    max_animation_pixels: 1 << 18,
    max_video_pixels: 1 << 16,
};

/// Larger targets are found, but nothing is stretched to them.
const MAX_TARGET_PIXELS: u64 = 1 << 15;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Whether a picture was read.
    pub(crate) is_picture: bool,
    /// How many frames of an animation were read.
    pub(crate) frames: usize,
}

/// Reads bytes as a data URL if they are one, and what is in it, or they themselves, as a picture and as an animation.
///
/// # Panics
/// If something does not hold that this crate promises.
pub(crate) fn read(bytes: &[u8]) -> Outcome {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let decoded = checked(decode_data_url(text)).or_else(|| checked(decode_base64(text)));
    let mut bytes = decoded.unwrap_or_else(|| bytes.to_vec());
    // A fuzzer does not guess checksums.
    repair_png(&mut bytes);
    let picture = checked(Picture::open(&bytes, &LIMITS)).and_then(still);
    let frames = checked(Animation::open(&bytes, &LIMITS)).map(|animation| moving(&animation, picture.as_ref()));
    Outcome { is_picture: picture.is_some(), frames: frames.unwrap_or_default() }
}

/// The picture at its own size.
fn still(picture: Picture<'_>) -> Option<Frame> {
    let size = picture.size();
    assert!((1..=LIMITS.max_pixels).contains(&size.pixels()), "{size} was let in");
    let target = checked(ImageFit::default().target(size));
    let small = checked(ImageFit { min_pixels: 1 << 10, max_pixels: 1 << 12, ..ImageFit::default() }.target(size));
    assert_eq!(target.is_some(), small.is_some(), "{size} has a shape or has none");
    let frame = checked(picture.decode())?;
    assert_eq!((frame.size(), frame.rgb().len() as u64), (size, 3 * size.pixels()));
    for target in [target, small].into_iter().flatten() {
        assert!(target.width.is_multiple_of(32) && target.height.is_multiple_of(32) && target.pixels() > 0, "{target}");
        if target.pixels() <= MAX_TARGET_PIXELS {
            let stretched = frame.clone().resized(target).expect("a target that was found can be stretched to");
            assert_eq!((stretched.size(), stretched.rgb().len() as u64), (target, 3 * target.pixels()));
        }
    }
    Some(frame)
}

/// How many frames of an animation could be read.
fn moving(animation: &Animation<'_>, picture: Option<&Frame>) -> usize {
    let (size, count) = (animation.size(), animation.durations().len());
    assert!((1..=LIMITS.max_pixels).contains(&size.pixels()), "{size} was let in");
    assert!((1..=LIMITS.max_animation_frames).contains(&count), "{count} frames were let in");
    assert!(animation.fps() > 0.0 && animation.fps() <= 100.0, "{} frames a second", animation.fps());
    let indices = Sampling::default().indices(count, animation.fps()).expect("a frame rate");
    assert!(!indices.is_empty() && indices.is_sorted() && indices.iter().all(|&index| index < count), "{indices:?}");
    let times = step_times(&indices, animation.fps(), 2).expect("a frame rate");
    assert!(times.iter().all(|time| time.is_finite()) && times.is_sorted(), "{times:?}");
    let fit = VideoFit { min_pixels: 1 << 10, max_pixels: 1 << 13, ..VideoFit::default() };
    let Some(target) = checked(fit.target(indices.len(), size)) else {
        return first(animation, picture);
    };
    if target.pixels() > MAX_TARGET_PIXELS {
        return first(animation, picture);
    }
    let Some(frames) = checked(animation.frames(&indices, target)) else {
        return 0;
    };
    assert_eq!(frames.len(), indices.len());
    assert!(frames.iter().all(|frame| frame.size() == target));
    first(animation, picture);
    frames.len()
}

/// Reads the first frame, which is what the file is as a picture.
fn first(animation: &Animation<'_>, picture: Option<&Frame>) -> usize {
    let Some(frames) = checked(animation.frames(&[0], animation.size())) else {
        return 0;
    };
    assert_eq!(frames.len(), 1);
    if let (Format::Gif, Some(picture)) = (animation.format(), picture) {
        assert_eq!(&frames[0], picture, "the first frame as a picture and as a frame");
    }
    1
}

/// The value; of an error, that its message can be shown to anyone.
fn checked<T>(result: Result<T>) -> Option<T> {
    let check = |error: &Error| {
        let message = error.message();
        assert!(!message.is_empty() && message.len() <= 1_024, "{} bytes of message", message.len());
        assert!(!message.contains(char::is_control), "{message:?}");
    };
    result.inspect_err(check).ok()
}
