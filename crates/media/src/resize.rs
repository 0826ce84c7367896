//! The reference's resampling.
//!
//! The reference resizes 8-bit tensors with torchvision's antialiased bicubic: Keys' cubic with a = -0.5, widened when
//! it shrinks, weights rounded to as many bits as fit 16, and 8-bit values between the pass along rows, always the
//! first, and the pass along columns (`aten/src/ATen/native/cpu/UpSampleKernel.cpp` and
//! `UpSampleKernelAVXAntialias.h`). torch took that from Pillow-SIMD, and so did `fast_image_resize`, whose name for
//! the filter is Catmull-Rom. Only the order differs: left to itself it takes columns first, which moves a few pixels
//! by up to five levels. (Pillow 13 chooses the cheaper order.) So it is called once for each direction, and is equal
//! to the reference in every pixel that was compared.

use fast_image_resize::images::Image;
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

use crate::frame::Size;

/// Stretches RGB pixels from one size to another; neither has a zero in it, and `rgb` has three bytes a pixel.
pub(crate) fn bicubic(from: Size, rgb: Vec<u8>, to: Size) -> Vec<u8> {
    let between = Size::new(to.width, from.height);
    let rows_done = pass(from, rgb, between);
    pass(between, rows_done, to)
}

fn pass(from: Size, rgb: Vec<u8>, to: Size) -> Vec<u8> {
    if from == to {
        return rgb;
    }
    let source = Image::from_vec_u8(from.width, from.height, rgb, PixelType::U8x3).expect("three bytes a pixel");
    let mut target = Image::new(to.width, to.height, PixelType::U8x3);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom)).use_alpha(false);
    Resizer::new().resize(&source, &mut target, &options).expect("both have pixels of the same type");
    target.into_vec()
}
