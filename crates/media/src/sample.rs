//! Which frames of a video a model sees, and when they are.
//!
//! The reference's `sample_frames` and `_calculate_timestamps` (`transformers` 5.24,
//! `models/qwen3_vl/video_processing_qwen3_vl.py` and `processing_qwen3_vl.py`), in their own double-precision steps.

use crate::error::{Error, ErrorKind, Result};

/// The frame rate of a video that does not say, in frames a second, as the reference assumes it.
pub const ASSUMED_FPS: f64 = 24.0;

/// How frames are picked. The defaults are the reference's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Frames picked for each second of video. 2 by default.
    pub fps: f64,
    /// At least so many are picked, if there are as many. 4 by default.
    pub min_frames: usize,
    /// At most so many are picked. 768 by default.
    pub max_frames: usize,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { fps: 2.0, min_frames: 4, max_frames: 768 }
    }
}

impl Sampling {
    /// The frames to take of a video of `frames` frames at `fps` frames a second: positions from 0, ascending, evenly
    /// spread from the first to the last. Empty for a video without frames.
    ///
    /// # Errors
    /// If a rate is not a positive, finite number.
    pub fn indices(&self, frames: usize, fps: f64) -> Result<Vec<usize>> {
        check_fps(fps)?;
        check_fps(self.fps)?;
        let wanted = (frames as f64 / fps * self.fps) as usize;
        let count = wanted.max(self.min_frames).min(self.max_frames).min(frames);
        let step = frames.saturating_sub(1) as f64 / count.saturating_sub(1).max(1) as f64;
        Ok((0..count).map(|index| (index as f64 * step).round_ties_even() as usize).collect())
    }
}

/// The time of each step of a video, in seconds: the middle between its first and its last frame.
///
/// `indices` are the frames that were taken, positions in a video of `fps` frames a second. A step is `frames_per_step`
/// of them, the last frame being repeated to fill up.
///
/// # Errors
/// If the rate is not a positive, finite number, or a step has no frames.
pub fn step_times(indices: &[usize], fps: f64, frames_per_step: usize) -> Result<Vec<f64>> {
    check_fps(fps)?;
    if frames_per_step == 0 {
        return Err(Error::new(ErrorKind::InvalidArgument, "a step of a video has no frames"));
    }
    let time = |index: usize| index as f64 / fps;
    let middle = |step: &[usize]| (time(step[0]) + time(step[step.len() - 1])) / 2.0;
    Ok(indices.chunks(frames_per_step).map(middle).collect())
}

fn check_fps(fps: f64) -> Result<()> {
    if fps.is_finite() && fps > 0.0 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidArgument, format_args!("frame rate is {fps}, it must be a positive number")))
}
