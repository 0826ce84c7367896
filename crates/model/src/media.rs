//! A record's pictures and videos, from what the client sent to what the model is shown.
//!
//! In two steps, because limits come before work: [`Gallery::open`] reads headers only and says how many tokens
//! everything takes; only a prompt that fits is [`hung`](Opened::hang) with decoded pixels.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use clef_encoder::MediaShape;
use clef_engine::{Refusal, RefusalKind};
use clef_llama::{FRAMES_PER_STEP, TowerShape};
use clef_media::{
    ASSUMED_FPS, Animation, Frame, ImageFit, Limits, Picture, Sampling, Size, VideoFit, decode_base64, decode_data_url,
    step_times,
};
use clef_record::{Image, LocItem, MediaData, Pixels, Prompt, ShownPixels, Video, VideoContent};

use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Result};
use crate::names::{Content, Names};
use crate::options::ModelOptions;

/// Pixels that may wait for the model over all requests, in bytes, beside the largest request that the context lets in.
const WAITING_BYTES: usize = 512 << 20;

/// The most tokens that an image may be allowed.
const MAX_IMAGE_TOKENS: u32 = 1 << 20;

/// Rates of videos. Slower ones would be days long, and their times as long as numbers get.
const FRAMES_A_SECOND: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// How pictures become tokens, and what is known of those seen so far. Any thread.
#[derive(Debug)]
pub(crate) struct Gallery {
    image_fit: ImageFit,
    video_fit: VideoFit,
    limits: Limits,
    budget: Budget,
    names: Mutex<Names>,
}

impl Gallery {
    pub(crate) fn new(tower: &TowerShape, options: &ModelOptions) -> Result<Self> {
        let side = tower.token_side();
        let pixels = |tokens: u32| u64::from(tokens) * u64::from(side).pow(2);
        let mut image_fit = ImageFit { multiple: side, ..ImageFit::default() };
        for (name, tokens, bound) in [
            ("the least", options.image_min_tokens, &mut image_fit.min_pixels),
            ("the most", options.image_max_tokens, &mut image_fit.max_pixels),
        ] {
            match tokens {
                Some(tokens) if (1..=MAX_IMAGE_TOKENS).contains(&tokens) => *bound = pixels(tokens),
                Some(tokens) => {
                    let message = format!("{name} tokens of an image must be 1 to {MAX_IMAGE_TOKENS}, not {tokens}");
                    return Err(Error::new(ErrorKind::InvalidOption, message));
                }
                None => {}
            }
        }
        if image_fit.min_pixels > image_fit.max_pixels {
            let [least, most] = [image_fit.min_pixels, image_fit.max_pixels].map(|bound| bound / pixels(1));
            let message = format!("an image cannot have at least {least} tokens and at most {most}");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        let video_fit = VideoFit { multiple: side, frames_per_step: FRAMES_PER_STEP, ..VideoFit::default() };
        Ok(Self {
            image_fit,
            video_fit,
            limits: Limits::default(),
            budget: Budget::new(WAITING_BYTES),
            names: Mutex::default(),
        })
    }

    /// Reads the headers of everything that is shown, images first.
    pub(crate) fn open<'r>(
        &'r self,
        images: &'r [Image],
        videos: &'r [Video],
    ) -> std::result::Result<Opened<'r>, Refusal> {
        let mut items = Vec::with_capacity(images.len() + videos.len());
        for image in images {
            let at = |error: clef_media::Error| refused(&image.loc, &error);
            let file = file(&image.data).map_err(at)?;
            let size = Picture::open(&file, &self.limits).map_err(at)?.size();
            let target = self.image_fit.target(size).map_err(at)?;
            items.push(Item { loc: &image.loc, target, times: None, source: Source::Image(file) });
        }
        for video in videos {
            let at = |error: clef_media::Error| refused(&video.loc, &error);
            let (item, size) = match &video.content {
                VideoContent::Frames(frames) => self.open_frames(&video.loc, frames)?,
                VideoContent::Animation(data) => {
                    let file = file(data).map_err(at)?;
                    let animation = Animation::open(&file, &self.limits).map_err(at)?;
                    let (size, fps) = (animation.size(), animation.fps());
                    let indices = (0..animation.durations().len()).collect();
                    (Frames { source: Source::Animation(file, indices), fps }, size)
                }
            };
            let Frames { mut source, fps } = item;
            let fps = video.fps.unwrap_or(fps);
            if !FRAMES_A_SECOND.contains(&fps) {
                let [least, most] = [FRAMES_A_SECOND.start(), FRAMES_A_SECOND.end()];
                let message = format!("video has {fps} frames a second, {least} to {most} are allowed");
                return Err(refusal(&video.loc, RefusalKind::Invalid, message));
            }
            let indices = match video.sample {
                true => Sampling::default().indices(source.frames(), fps).map_err(at)?,
                false => (0..source.frames()).collect(),
            };
            let times = step_times(&indices, fps, FRAMES_PER_STEP as usize).map_err(at)?;
            let target = self.video_fit.target(indices.len(), size).map_err(at)?;
            source.pick(&indices);
            items.push(Item { loc: &video.loc, target, times: Some(times), source });
        }
        Ok(Opened { gallery: self, items })
    }

    /// Reads the headers of frames that come one by one; all must be of one size.
    fn open_frames<'r>(
        &self,
        loc: &[LocItem],
        frames: &'r [MediaData],
    ) -> std::result::Result<(Frames<'r>, Size), Refusal> {
        let mut files = Vec::with_capacity(frames.len());
        let mut first: Option<Size> = None;
        for (index, data) in frames.iter().enumerate() {
            let mut place = loc.to_vec();
            place.extend(["frames".into(), index.into()]);
            let at = |error: clef_media::Error| refused(&place, &error);
            let file = file(data).map_err(at)?;
            let size = Picture::open(&file, &self.limits).map_err(at)?.size();
            match first {
                Some(first) if first != size => {
                    let message = format!("frame is {size}, the first one is {first}; all frames must be of one size");
                    return Err(refusal(&place, RefusalKind::Invalid, message));
                }
                _ => first = Some(size),
            }
            // What was decoded of base64 is decoded again when it is needed: most frames of a long video never are.
            files.push(if matches!(data, MediaData::File(_)) { Encoded::File(file) } else { Encoded::Text(data) });
        }
        let size = first.ok_or_else(|| refusal(loc, RefusalKind::Invalid, "video has no frames".to_owned()))?;
        Ok((Frames { source: Source::Frames(files), fps: ASSUMED_FPS }, size))
    }
}

/// The frames of a video and their rate, unless the client says another.
struct Frames<'r> {
    source: Source<'r>,
    fps: f64,
}

/// A record's media with their headers read.
#[derive(Debug)]
pub(crate) struct Opened<'r> {
    gallery: &'r Gallery,
    items: Vec<Item<'r>>,
}

#[derive(Debug)]
struct Item<'r> {
    loc: &'r [LocItem],
    /// The size that every frame is stretched to.
    target: Size,
    /// Of a video, when its steps are.
    times: Option<Vec<f64>>,
    source: Source<'r>,
}

#[derive(Debug)]
enum Source<'r> {
    Image(Cow<'r, [u8]>),
    Frames(Vec<Encoded<'r>>),
    /// The frames to take of an animation, in order.
    Animation(Cow<'r, [u8]>, Vec<usize>),
}

#[derive(Debug, Clone)]
enum Encoded<'r> {
    File(Cow<'r, [u8]>),
    Text(&'r MediaData),
}

impl Source<'_> {
    fn frames(&self) -> usize {
        match self {
            Self::Image(_) => 1,
            Self::Frames(files) => files.len(),
            Self::Animation(_, indices) => indices.len(),
        }
    }

    /// Keeps the frames at `indices`, which ascend.
    fn pick(&mut self, indices: &[usize]) {
        match self {
            Self::Image(_) => {}
            Self::Frames(files) => *files = indices.iter().map(|&index| files[index].clone()).collect(),
            Self::Animation(_, all) => *all = indices.to_vec(),
        }
    }
}

impl Opened<'_> {
    /// The tokens that each takes, in prompt order.
    pub(crate) fn shapes(&self) -> Vec<MediaShape> {
        let side = self.gallery.image_fit.multiple;
        let shape = |item: &Item<'_>| MediaShape {
            rows: (item.target.height / side) as usize,
            columns: (item.target.width / side) as usize,
            times: item.times.clone(),
        };
        self.items.iter().map(shape).collect()
    }

    /// Decodes everything and hangs it into the slots of the prompt that was laid out for it.
    pub(crate) fn hang(self, prompt: &mut Prompt) -> std::result::Result<(), Refusal> {
        let bytes = |item: &Item<'_>| item.target.pixels() as usize * 3 * item.source.frames();
        let bytes: usize = self.items.iter().map(bytes).sum();
        let budget = &self.gallery.budget;
        let share = budget.take(bytes).ok_or_else(|| {
            let message = format!(
                "images of requests that wait hold most of {} MiB, these need {} more; try again later",
                budget.limit() >> 20,
                bytes.div_ceil(1 << 20)
            );
            refusal(&["body".into()], RefusalKind::Busy, message)
        })?;
        let share = Arc::new(share);
        let mut slot = 0;
        for item in self.items {
            let frames = item.decode()?;
            let step = if item.times.is_some() { FRAMES_PER_STEP as usize } else { 1 };
            let mut frames = frames.into_iter().peekable();
            while frames.peek().is_some() {
                let shown: Vec<Frame> = frames.by_ref().take(step).collect();
                let content = Content { first: shown[0].digest(), second: shown.get(1).map(Frame::digest) };
                let name = self.gallery.names.lock().unwrap_or_else(PoisonError::into_inner).name(content);
                let name = name.ok_or_else(|| {
                    let message = "too many different images were shown since the start".to_owned();
                    refusal(item.loc, RefusalKind::Internal, message)
                })?;
                let pixels = Pixels {
                    width: item.target.width,
                    height: item.target.height,
                    frames: shown.into_iter().map(Frame::into_rgb).collect(),
                    share: Box::new(Arc::clone(&share)),
                };
                prompt.show(slot, name, ShownPixels::new(pixels));
                slot += 1;
            }
        }
        Ok(())
    }
}

impl Item<'_> {
    /// The frames at their target size.
    fn decode(&self) -> std::result::Result<Vec<Frame>, Refusal> {
        // A decoder of somebody else's that panics on a file costs that file.
        let decoded = catch_unwind(AssertUnwindSafe(|| self.decoded()));
        match decoded {
            Ok(frames) => frames.map_err(|error| refused(self.loc, &error)),
            Err(_) => {
                Err(refusal(self.loc, RefusalKind::Invalid, "picture is damaged: its decoder gave up".to_owned()))
            }
        }
    }

    fn decoded(&self) -> clef_media::Result<Vec<Frame>> {
        // What these held the file to was checked when it was opened.
        let limits = Limits::default();
        let picture = |file: &[u8]| Picture::open(file, &limits)?.decode()?.resized(self.target);
        match &self.source {
            Source::Image(file) => Ok(vec![picture(file)?]),
            Source::Frames(files) => files
                .iter()
                .map(|encoded| match encoded {
                    Encoded::File(bytes) => picture(bytes),
                    Encoded::Text(data) => picture(&file(data)?),
                })
                .collect(),
            Source::Animation(file, indices) => Animation::open(file, &limits)?.frames(indices, self.target),
        }
    }
}

/// The bytes of a file, out of their wrapping.
fn file(data: &MediaData) -> clef_media::Result<Cow<'_, [u8]>> {
    match data {
        MediaData::DataUrl(text) => decode_data_url(text).map(Cow::Owned),
        MediaData::Base64(text) => decode_base64(text).map(Cow::Owned),
        MediaData::File(bytes) => Ok(Cow::Borrowed(bytes)),
    }
}

fn refused(loc: &[LocItem], error: &clef_media::Error) -> Refusal {
    let kind = match error.kind() {
        clef_media::ErrorKind::InvalidArgument => RefusalKind::Internal,
        _ => RefusalKind::Invalid,
    };
    refusal(loc, kind, error.message().to_owned())
}

/// A refusal that begins with the place, as all of them do.
fn refusal(loc: &[LocItem], kind: RefusalKind, message: String) -> Refusal {
    let place: Vec<String> = loc.iter().skip(1).map(ToString::to_string).collect();
    let message = if place.is_empty() { message } else { format!("{}: {message}", place.join(".")) };
    Refusal { kind, message, loc: loc.to_vec() }
}
