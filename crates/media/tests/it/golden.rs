//! The reference's own pictures: sizes of every golden record, and the pixels that its vision tower was given.

use clef_media::{ErrorKind, Frame, ImageFit, Size, VideoFit};
use serde_json::Value;

use crate::support::{decode, difference, shared_fixture, size};

/// The side of a patch in pixels, and how many patches a token has in each direction.
const PATCH: usize = 16;
const MERGE: usize = 2;

fn records() -> Vec<Value> {
    let text = String::from_utf8(shared_fixture("golden.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The first frame of each picture or video of a record.
fn first_frames(list: &Value) -> Vec<(usize, Frame)> {
    let read = |name: &Value| decode(&shared_fixture(name.as_str().unwrap())).unwrap();
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .map(|item| item.as_array().map_or_else(|| (1, read(item)), |list| (list.len(), read(&list[0]))))
        .collect()
}

/// Size in patches, as the reference's `grid_thw` has it, to pixels.
fn grids(record: &Value, name: &str) -> Vec<(u64, Size)> {
    let number = |value: &Value| value.as_u64().unwrap();
    let grids = record["media"][name].as_array().map(Vec::as_slice).unwrap_or_default();
    let side = |value: &Value| number(value) as u32 * PATCH as u32;
    grids.iter().map(|grid| (number(&grid[0]), size(side(&grid[2]), side(&grid[1])))).collect()
}

#[test]
fn every_golden_record_has_the_references_grid() {
    let (mut pictures, mut videos, mut refused) = (0, 0, 0);
    for record in records() {
        let name = &record["name"];
        let targets: Vec<_> =
            first_frames(&record["images"]).iter().map(|(_, frame)| ImageFit::default().target(frame.size())).collect();
        if record["error"].as_str().is_some_and(|error| error.contains("aspect ratio")) {
            assert_eq!(targets[0].as_ref().unwrap_err().kind(), ErrorKind::Shape, "{name}");
            refused += 1;
            continue;
        }
        let targets: Vec<_> = targets.into_iter().map(|target| (1, target.unwrap())).collect();
        assert_eq!(targets, grids(&record, "image_grid_thw"), "{name}");
        pictures += targets.len();
        let targets: Vec<_> = first_frames(&record["videos"])
            .iter()
            .map(|(count, frame)| (count.div_ceil(2) as u64, VideoFit::default().target(*count, frame.size()).unwrap()))
            .collect();
        assert_eq!(targets, grids(&record, "video_grid_thw"), "{name}");
        videos += targets.len();
    }
    assert_eq!((pictures, videos, refused), (13, 2, 1), "records were looked at");
}

#[test]
fn pixels_are_those_that_the_references_vision_tower_was_given() {
    let picture = decode(&shared_fixture("images/shapes-300x200.png")).unwrap();
    let target = ImageFit::default().target(picture.size()).unwrap();
    assert_eq!(target, size(320, 224));
    let ours = picture.resized(target).unwrap();
    let theirs = from_patches(&shared_fixture("debug/image-300x200-shapes.pixel_values.npy"), target);
    assert_eq!(difference(ours.rgb(), &theirs), (0, 0.0), "levels, largest and mean");
}

/// Puts the patches of a NumPy file of `f32` back into a picture.
///
/// A row is a patch: channel, two equal moments, then rows of pixels; rows of one token stand together. Values are
/// `(level / 255 - 0.5) / 0.5`.
fn from_patches(npy: &[u8], size: Size) -> Vec<u8> {
    let header = usize::from(u16::from_le_bytes([npy[8], npy[9]])) + 10;
    assert!(npy.starts_with(b"\x93NUMPY\x01") && String::from_utf8_lossy(&npy[..header]).contains("'<f4'"));
    let values = npy[header..].chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
    let values: Vec<f32> = values.collect();
    let (width, height) = (size.width as usize, size.height as usize);
    assert_eq!(values.len(), width * height * 3 * 2, "patches of two moments");
    let patches_a_row = width / PATCH;
    let mut rgb = vec![0; width * height * 3];
    for (index, patch) in values.chunks_exact(3 * 2 * PATCH * PATCH).enumerate() {
        let (token, part) = (index / (MERGE * MERGE), index % (MERGE * MERGE));
        let tokens_a_row = patches_a_row / MERGE;
        let top = (token / tokens_a_row * MERGE + part / MERGE) * PATCH;
        let left = (token % tokens_a_row * MERGE + part % MERGE) * PATCH;
        for (channel, moments) in patch.chunks_exact(2 * PATCH * PATCH).enumerate() {
            let (first, second) = moments.split_at(PATCH * PATCH);
            assert_eq!(first, second, "a still picture is the same at both moments");
            for (at, value) in first.iter().enumerate() {
                let level = (value * 0.5 + 0.5) * 255.0;
                assert!((level - level.round()).abs() < 1e-4, "{level} is a level");
                rgb[((top + at / PATCH) * width + left + at % PATCH) * 3 + channel] = level.round() as u8;
            }
        }
    }
    rgb
}
