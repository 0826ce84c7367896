//! Products by which kernels are chosen.

use std::time::Duration;

use clef_llama::ErrorKind;
use clef_llama::gguf::Gguf;
use clef_llama::kernels::{Layout, Matrices, Setting, cpu_features};
use clef_testkit::{Tiny, tiny};

use crate::support::{Random, distance};

const PLAIN: Setting = Setting { layout: Layout::Plain, threads: 1 };
const REPACKED: Setting = Setting { layout: Layout::Repacked, threads: 1 };

#[test]
fn every_setting_gets_a_time() {
    let gguf = Gguf::open(&tiny(Tiny::Q4_K_M)).unwrap();
    let matrices = Matrices::of(&gguf, 4).unwrap();
    assert!(matrices.describe().starts_with("Q"), "{}", matrices.describe());
    let mut bench = matrices.load(64, 2).unwrap();
    let settings = [PLAIN, REPACKED, Setting { threads: 2, ..PLAIN }, PLAIN];
    let seconds = bench.seconds(&settings, Duration::ZERO).unwrap();
    assert!(seconds.iter().all(|seconds| seconds.is_finite() && *seconds > 0.0), "{seconds:?}");
    assert_eq!((seconds.len(), seconds[0]), (4, seconds[3]));
}

#[test]
fn repacked_weights_multiply_as_plain_ones() {
    let mut repacked_types = 0;
    for kind in [Tiny::Q4_K_M, Tiny::Q4_0, Tiny::IQ4_XS, Tiny::Q8_0, Tiny::Q2_K, Tiny::BF16] {
        let gguf = Gguf::open(&tiny(kind)).unwrap();
        let matrices = Matrices::of(&gguf, 4).unwrap();
        repacked_types += usize::from(matrices.can_repack());
        let mut bench = matrices.load(37, 1).unwrap();
        let (plain, repacked) = (bench.products(PLAIN).unwrap(), bench.products(REPACKED).unwrap());
        for (plain, repacked) in plain.iter().zip(&repacked) {
            let largest = plain.iter().map(|value| value.abs()).fold(0.0, f32::max);
            let apart = distance(plain, repacked);
            assert!(largest > 0.0 && apart <= 1e-2 * largest, "{kind:?}: {apart} apart of {largest}");
        }
    }
    // ggml has other layouts for some types on every CPU that tests run on; else they compare nothing.
    assert!(repacked_types > 0 || !cpu_features().contains("REPACK"), "{}", cpu_features());
}

#[test]
fn only_matrices_of_layers_that_are_computed_count() {
    let gguf = Gguf::open(&tiny(Tiny::Q4_K_M)).unwrap();
    let (one, all) = (Matrices::of(&gguf, 1).unwrap(), Matrices::of(&gguf, 4).unwrap());
    assert_ne!(one.describe(), all.describe());
    let none = Matrices::of(&gguf, 0).unwrap();
    assert!(none.describe().is_empty() && !none.can_repack());
    assert!(none.load(64, 1).unwrap().seconds(&[PLAIN], Duration::from_secs(60)).unwrap() == [0.0]);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let gguf = Gguf::open(&tiny(Tiny::Q4_K_M)).unwrap();
    let matrices = Matrices::of(&gguf, 4).unwrap();
    for (tokens, threads) in [(0, 1), (65_537, 1), (64, 0), (64, 513)] {
        assert_eq!(matrices.load(tokens, threads).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let mut bench = matrices.load(64, 1).unwrap();
    for threads in [0, 513] {
        let error = bench.seconds(&[Setting { threads, ..PLAIN }], Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

/// Like real files in nothing: whatever a header claims, it is left alone or multiplied with.
#[test]
fn headers_that_nobody_checked_do_no_harm() {
    let mut random = Random::new(9);
    for _ in 0..40 {
        let mut sketch = crate::support::Sketch::new();
        for index in 0..sketch.tensors.len() {
            let tensor = &mut sketch.tensors[index];
            let block = tensor.kind.block_elements();
            tensor.shape = [block * (1 + random.below(3) as u64), 1 + random.below(70) as u64, 1, 1];
            tensor.bytes = tensor.kind.row_bytes(tensor.shape[0]).unwrap() * tensor.shape[1];
        }
        let file = sketch.write_hollow();
        let gguf = Gguf::open(file.path()).unwrap();
        let matrices = Matrices::of(&gguf, 4).unwrap();
        let seconds = matrices.load(3, 1).unwrap().seconds(&[PLAIN, REPACKED], Duration::ZERO).unwrap();
        assert_eq!(seconds.len(), 2);
    }
}
