//! Target sizes, sampled frames and their times, against the reference's own functions.

use clef_media::{ErrorKind, ImageFit, Sampling, VideoFit, step_times};

use crate::support::size;

/// The rows of a kind in `fixtures/sizes.tsv`: arguments and results; none where the reference refuses.
fn rows(kind: &str) -> Vec<(Vec<f64>, Option<Vec<f64>>)> {
    let numbers = |text: &str| text.split_whitespace().map(|number| number.parse().unwrap()).collect::<Vec<f64>>();
    let table = include_str!("../fixtures/sizes.tsv").lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let rows = table.filter(|columns| columns[0] == kind);
    rows.map(|columns| (numbers(columns[1]), (columns[2] != "refused").then(|| numbers(columns[2])))).collect()
}

#[test]
fn pictures_get_the_references_size() {
    let rows = rows("image");
    assert!(rows.len() > 300 && rows.iter().any(|row| row.1.is_none()));
    for (given, expected) in rows {
        let fit = ImageFit { min_pixels: given[2] as u64, max_pixels: given[3] as u64, ..ImageFit::default() };
        let found = fit.target(size(given[0] as u32, given[1] as u32));
        let expected = expected.map(|target| size(target[0] as u32, target[1] as u32));
        assert_eq!(found.as_ref().ok().copied(), expected, "{given:?}: {found:?}");
    }
}

#[test]
fn videos_get_the_references_size() {
    let rows = rows("video");
    assert!(rows.len() > 250 && rows.iter().any(|row| row.1.is_none()));
    for (given, expected) in rows {
        let fit = VideoFit { min_pixels: given[3] as u64, max_pixels: given[4] as u64, ..VideoFit::default() };
        let found = fit.target(given[0] as usize, size(given[1] as u32, given[2] as u32));
        let expected = expected.map(|target| size(target[0] as u32, target[1] as u32));
        assert_eq!(found.as_ref().ok().copied(), expected, "{given:?}: {found:?}");
    }
}

#[test]
fn frames_are_sampled_as_the_reference_samples_them() {
    let rows = rows("sample");
    assert!(rows.len() > 80);
    for (given, expected) in rows {
        let sampling = Sampling { fps: given[2], min_frames: given[3] as usize, max_frames: given[4] as usize };
        let found = sampling.indices(given[0] as usize, given[1]).unwrap();
        let expected: Vec<usize> = expected.unwrap().into_iter().map(|index| index as usize).collect();
        assert_eq!(found, expected, "{given:?}");
    }
}

#[test]
fn steps_have_the_references_times() {
    let rows = rows("times");
    assert!(rows.len() > 3);
    for (given, expected) in rows {
        let indices: Vec<usize> = given[1..].iter().map(|&index| index as usize).collect();
        assert_eq!(step_times(&indices, given[0], 2).unwrap(), expected.unwrap(), "{given:?}");
    }
}

#[test]
fn a_shape_that_the_reference_refuses_is_refused_with_both_numbers() {
    let error = ImageFit::default().target(size(2_010, 10)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert_eq!(error.message(), "longer side is 201.0 times the shorter one (2010x10), the limit is 200");
    let error = VideoFit::default().target(1, size(64, 64)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert_eq!(error.message(), "video has 1 frame, it needs at least 2");
}

#[test]
fn arguments_out_of_this_world_are_errors() {
    let fault = |result: clef_media::Result<_>| assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
    fault(ImageFit::default().target(size(0, 5)));
    fault(ImageFit { multiple: 0, ..ImageFit::default() }.target(size(5, 5)));
    fault(ImageFit { min_pixels: u64::MAX, ..ImageFit::default() }.target(size(5, 5)));
    fault(VideoFit::default().target(2, size(5, 0)));
    fault(VideoFit { frames_per_step: 0, ..VideoFit::default() }.target(2, size(5, 5)));
    for fps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(Sampling::default().indices(5, fps).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(step_times(&[0], fps, 2).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(step_times(&[0], 1.0, 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(Sampling::default().indices(usize::MAX, f64::MIN_POSITIVE).unwrap().len(), 768);
}
