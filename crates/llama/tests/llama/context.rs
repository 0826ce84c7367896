//! Decoding: cuts, copies, aborts, and the reference's numbers.

use std::sync::mpsc;

use clef_llama::gguf::Gguf;
use clef_llama::{CacheType, Context, ContextParams, ErrorKind, FlashAttention, Model, ModelParams, SequenceId, Token};
use clef_testkit::{Tiny, fixture, tiny};

use crate::support::{DOC_EXAMPLE, EXACT, F32_MODEL, Q4_MODEL, USUAL, decode, distance, load};

fn context(model: &Model, params: &ContextParams) -> Context {
    Context::new(model, params).unwrap()
}

/// A little-endian float array of two dimensions, as NumPy writes it.
fn npy(name: &str) -> (Vec<usize>, Vec<f32>) {
    let bytes = std::fs::read(fixture(name)).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let data = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..data]).unwrap();
    assert!(header.contains("'descr': '<f4'") && header.contains("'fortran_order': False"), "{header}");
    let shape = header.split_once("'shape': (").unwrap().1.split_once(')').unwrap().0;
    let shape = shape.split(',').filter_map(|length| length.trim().parse().ok()).collect();
    (shape, bytes[data..].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

#[test]
fn hidden_states_are_the_references() {
    let (shape, reference) = npy("debug/doc-example.last_hidden_state.npy");
    assert_eq!(shape[shape.len() - 2..], [DOC_EXAMPLE.len(), 256]);
    for (params, tolerance) in [(EXACT, 1e-5), (USUAL, 5e-4)] {
        let hidden = decode(&mut context(&F32_MODEL, &params), 0, &DOC_EXAMPLE, 512);
        let distance = distance(&hidden, &reference);
        assert!(distance < tolerance, "{distance:e} with flash attention {:?}", params.flash_attention);
    }
}

#[test]
fn chunks_of_any_size_give_the_same_hidden_states() {
    let whole = decode(&mut context(&F32_MODEL, &EXACT), 0, &DOC_EXAMPLE, 512);
    for chunk in [1, 2, 7, 63, 64, 65, 200, 320] {
        let parts = decode(&mut context(&F32_MODEL, &EXACT), 0, &DOC_EXAMPLE, chunk);
        let distance = distance(&parts, &whole);
        assert!(distance < 1e-4, "chunks of {chunk}: {distance:e}");
    }
}

#[test]
fn a_copied_sequence_continues_bit_for_bit_like_the_original() {
    let (prefix, suffix) = DOC_EXAMPLE.split_at(200);
    for (model, params) in [(&*F32_MODEL, EXACT), (&*F32_MODEL, USUAL), (&*Q4_MODEL, USUAL)] {
        let mut whole = context(model, &params);
        let first = decode(&mut whole, 0, prefix, 512);
        let rest = decode(&mut whole, 0, suffix, 512);

        let mut context = context(model, &params);
        assert!(decode(&mut context, 2, prefix, 512) == first, "the same work twice");
        for copy in [0, 1, 0].map(SequenceId) {
            context.copy_sequence(SequenceId(2), copy).unwrap();
            assert_eq!(context.sequence_length(copy).unwrap().map(|length| length.tokens), Some(200));
            assert!(decode(&mut context, copy.0, suffix, 512) == rest);
            context.clear_sequence(copy).unwrap();
        }
        // A copy outlives its source, and the source is untouched by what its copies read.
        context.copy_sequence(SequenceId(2), SequenceId(3)).unwrap();
        context.clear_sequence(SequenceId(2)).unwrap();
        context.copy_sequence(SequenceId(3), SequenceId(0)).unwrap();
        assert!(decode(&mut context, 3, suffix, 512) == rest);
        context.clear_sequence(SequenceId(3)).unwrap();
        assert!(decode(&mut context, 0, suffix, 512) == rest);
    }
}

#[test]
fn copies_that_live_side_by_side_agree_but_for_rounding() {
    let (prefix, suffix) = DOC_EXAMPLE.split_at(200);
    for (model, params, tolerance) in [(&*F32_MODEL, EXACT, 1e-5), (&*F32_MODEL, USUAL, 5e-3), (&*Q4_MODEL, USUAL, 0.5)]
    {
        let mut context = context(model, &params);
        decode(&mut context, 3, prefix, 512);
        let copies = [0, 1].map(|copy| {
            context.copy_sequence(SequenceId(3), SequenceId(copy)).unwrap();
            decode(&mut context, copy, suffix, 512)
        });
        let distance = distance(&copies[0], &copies[1]);
        assert!(distance < tolerance, "{distance:e}");
    }
}

#[test]
fn copying_a_sequence_onto_itself_changes_nothing() {
    let (prefix, suffix) = DOC_EXAMPLE.split_at(100);
    let mut plain = context(&F32_MODEL, &EXACT);
    decode(&mut plain, 1, prefix, 512);
    let expected = decode(&mut plain, 1, suffix, 512);
    let mut context = context(&F32_MODEL, &EXACT);
    decode(&mut context, 1, prefix, 512);
    context.copy_sequence(SequenceId(1), SequenceId(1)).unwrap();
    assert_eq!(context.sequence_length(SequenceId(1)).unwrap().map(|length| length.tokens), Some(100));
    assert!(decode(&mut context, 1, suffix, 512) == expected);
}

#[test]
fn copying_an_empty_sequence_empties_the_target() {
    let mut context = context(&F32_MODEL, &EXACT);
    let expected = decode(&mut context, 0, &DOC_EXAMPLE[..90], 512);
    decode(&mut context, 1, &DOC_EXAMPLE[90..120], 512);
    context.copy_sequence(SequenceId(2), SequenceId(1)).unwrap();
    assert_eq!(context.sequence_length(SequenceId(1)).unwrap().map(|length| length.tokens), Some(0));
    let hidden = decode(&mut context, 1, &DOC_EXAMPLE[..90], 512);
    assert!(distance(&hidden, &expected) < 1e-5, "{:e}", distance(&hidden, &expected));
}

#[test]
fn sequences_decoded_in_turns_do_not_disturb_each_other() {
    for model in [&*F32_MODEL, &*Q4_MODEL] {
        let texts = [&DOC_EXAMPLE[..192], &DOC_EXAMPLE[120..312]];
        let solo = texts.map(|text| decode(&mut context(model, &USUAL), 0, text, 64));
        let mut context = context(model, &USUAL);
        let mut mixed = [Vec::new(), Vec::new()];
        for start in (0..192).step_by(64) {
            for (sequence, text) in texts.iter().enumerate() {
                mixed[sequence].extend(decode(&mut context, sequence as u32, &text[start..start + 64], 64));
            }
        }
        for sequence in 0..2 {
            // Cells of the other lie between, so attention adds up in another order.
            let distance = distance(&mixed[sequence], &solo[sequence]);
            assert!(distance < 5e-3, "sequence {sequence}: {distance:e}");
        }
    }
}

#[test]
fn an_aborted_sequence_is_unusable_until_cleared_and_others_live_on() {
    let (prefix, suffix) = DOC_EXAMPLE.split_at(150);
    let mut context = context(&F32_MODEL, &ContextParams { cells: 1024, ..EXACT });
    let work = SequenceId(0);
    let expected_first = decode(&mut context, 1, prefix, 512);
    context.copy_sequence(SequenceId(1), SequenceId(2)).unwrap();
    let expected_rest = decode(&mut context, 2, suffix, 512);

    let handle = context.abort_handle();
    for tokens_before in [0, 40] {
        context.clear_sequence(work).unwrap();
        decode(&mut context, 0, &prefix[..tokens_before], 512);
        handle.abort();
        assert_eq!(context.decode(work, suffix).unwrap_err().kind(), ErrorKind::Aborted);
        handle.reset();
        assert_eq!(context.sequence_length(work).unwrap(), None);
        assert_eq!(context.decode(work, suffix).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(context.copy_sequence(work, SequenceId(3)).unwrap_err().kind(), ErrorKind::InvalidArgument);

        context.clear_sequence(work).unwrap();
        assert_eq!(context.sequence_length(work).unwrap().map(|length| length.tokens), Some(0));
        let distance_after = distance(&decode(&mut context, 0, prefix, 512), &expected_first);
        assert!(distance_after < 1e-5, "{distance_after:e}");
        context.copy_sequence(SequenceId(1), SequenceId(3)).unwrap();
        let distance_beside = distance(&decode(&mut context, 3, suffix, 512), &expected_rest);
        assert!(distance_beside < 1e-5, "{distance_beside:e}");
    }
}

#[test]
fn an_abort_from_another_thread_stops_a_decode() {
    let mut context = context(&F32_MODEL, &ContextParams { cells: 4096, chunk: 4096, ..EXACT });
    let tokens: Vec<Token> = DOC_EXAMPLE.iter().copied().cycle().take(4000).collect();
    let handle = context.abort_handle();
    let (started, starts) = mpsc::channel();
    let aborter = std::thread::spawn(move || {
        starts.recv().unwrap();
        handle.abort();
    });
    started.send(()).unwrap();
    // The flag stays up: sooner or later a decode meets it.
    let error = loop {
        match context.decode(SequenceId(0), &tokens).map(|_| ()) {
            Ok(()) => context.clear_sequence(SequenceId(0)).unwrap(),
            Err(error) => break error,
        }
    };
    aborter.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Aborted);
}

#[test]
fn arguments_outside_the_limits_are_refused_and_change_nothing() {
    let mut context = context(&F32_MODEL, &ContextParams { chunk: 128, ..EXACT });
    let expected = decode(&mut context, 1, &DOC_EXAMPLE[..100], 100);
    decode(&mut context, 0, &DOC_EXAMPLE[..50], 50);
    let too_many = &DOC_EXAMPLE[..129];
    for (sequence, tokens) in [
        (0, &[][..]),
        (0, too_many),
        (0, &[Token(-1)]),
        (0, &[Token(4096)]),
        (0, &[Token(0), Token(i32::MAX)]),
        (4, &[Token(0)]),
        (u32::MAX, &[Token(0)]),
    ] {
        let error = context.decode(SequenceId(sequence), tokens).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert!(context.sequence_length(SequenceId(4)).is_err());
    assert!(context.clear_sequence(SequenceId(4)).is_err());
    assert!(context.copy_sequence(SequenceId(0), SequenceId(4)).is_err());
    assert!(context.copy_sequence(SequenceId(4), SequenceId(0)).is_err());
    assert_eq!(context.sequence_length(SequenceId(0)).unwrap().map(|length| length.tokens), Some(50));
    context.clear_sequence(SequenceId(1)).unwrap();
    let again = decode(&mut context, 1, &DOC_EXAMPLE[..100], 100);
    assert!(distance(&again, &expected) < 1e-5);
}

#[test]
fn a_full_context_refuses_more_tokens() {
    let mut context = context(&F32_MODEL, &ContextParams { cells: 256, ..EXACT });
    decode(&mut context, 0, &DOC_EXAMPLE[..256], 512);
    let error = context.decode(SequenceId(0), &DOC_EXAMPLE[..1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("256"), "{error}");
    let length = context.sequence_length(SequenceId(0)).unwrap().map(|length| length.tokens);
    assert_eq!(length, Some(256), "nothing was touched");

    // Cells are shared: another sequence finds none.
    let error = context.decode(SequenceId(1), &DOC_EXAMPLE[..100]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    context.clear_sequence(SequenceId(0)).unwrap();
    context.clear_sequence(SequenceId(1)).unwrap();
    let hidden = decode(&mut context, 1, &DOC_EXAMPLE[..100], 512);
    let expected = decode(&mut crate::context::context(&F32_MODEL, &EXACT), 0, &DOC_EXAMPLE[..100], 512);
    assert!(distance(&hidden, &expected) < 1e-5);
}

#[test]
fn contexts_of_impossible_sizes_are_refused() {
    for params in [
        ContextParams { cells: 0, ..EXACT },
        ContextParams { cells: u32::MAX, ..EXACT },
        ContextParams { chunk: 0, ..EXACT },
        ContextParams { chunk: 1 << 20, ..EXACT },
        ContextParams { sequences: 0, ..EXACT },
        ContextParams { sequences: 257, ..EXACT },
        ContextParams { threads: 0, ..EXACT },
        ContextParams { threads: 513, ..EXACT },
    ] {
        let error = Context::new(&F32_MODEL, &params).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{params:?}");
    }
}

#[test]
fn small_and_odd_contexts_work() {
    for (cells, chunk, sequences) in [(1, 1, 1), (3, 512, 1), (300, 7, 3), (257, 256, 1), (512, 512, 256)] {
        let params = ContextParams { cells, chunk, sequences, ..EXACT };
        let mut context = context(&F32_MODEL, &params);
        let count = cells.min(300) as usize;
        let hidden = decode(&mut context, sequences - 1, &DOC_EXAMPLE[..count], chunk as usize);
        let expected = decode(&mut crate::context::context(&F32_MODEL, &EXACT), 0, &DOC_EXAMPLE[..count], 512);
        assert!(distance(&hidden, &expected) < 1e-4, "{params:?}");
    }
}

#[test]
fn every_cache_type_decodes_with_flash_attention() {
    let expected = decode(&mut context(&F32_MODEL, &EXACT), 0, &DOC_EXAMPLE[..128], 64);
    for (name, kind) in CacheType::NAMES {
        let params = ContextParams { keys: kind, values: kind, flash_attention: FlashAttention::On, ..EXACT };
        let hidden = decode(&mut context(&F32_MODEL, &params), 0, &DOC_EXAMPLE[..128], 64);
        let distance = distance(&hidden, &expected);
        assert!(distance < 1.0 && (distance < 5e-2 || kind.bits() < 9.0), "{name}: {distance:e}");
    }
}

#[test]
fn quantized_values_without_flash_attention_are_an_error() {
    let params = ContextParams { values: CacheType::Q8_0, ..EXACT };
    let error = Context::new(&F32_MODEL, &params).unwrap_err();
    assert!(!error.to_string().contains('\n') && error.to_string().len() > 20, "{error}");
    // Quantized keys alone are allowed.
    let params = ContextParams { keys: CacheType::Q8_0, ..EXACT };
    decode(&mut context(&F32_MODEL, &params), 0, &DOC_EXAMPLE[..64], 64);
}

#[test]
fn a_context_outlives_the_handle_of_its_model() {
    let model = load(&Gguf::open(&tiny(Tiny::Q4_K_M)).unwrap()).unwrap();
    let vocabulary = std::sync::Arc::clone(model.vocabulary());
    let mut context = context(&model, &USUAL);
    let expected = decode(&mut context, 0, &DOC_EXAMPLE[..64], 64);
    drop(model);
    context.clear_sequence(SequenceId(0)).unwrap();
    assert!(decode(&mut context, 0, &DOC_EXAMPLE[..64], 64) == expected);
    drop(context);
    let mut out = Vec::new();
    vocabulary.tokenize("still here", &mut out).unwrap();
    assert!(!out.is_empty());
}

#[test]
fn loading_reports_bytes_and_stops_when_told_to() {
    let gguf = Gguf::open(&tiny(Tiny::F32)).unwrap();
    let params = ModelParams { gpu_layers: 0, ..ModelParams::default() };
    let mut reports = Vec::new();
    let stopped = Model::load(&gguf, &params, &mut |read, all| {
        reports.push((read, all));
        false
    });
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Aborted);
    assert_eq!(reports.len(), 1);
    reports.clear();
    let model = Model::load(&gguf, &params, &mut |read, all| {
        reports.push((read, all));
        true
    })
    .unwrap();
    assert!(reports.is_sorted() && reports.iter().all(|(read, all)| read <= all && *all == reports[0].1));
    assert!(model.weight_bytes() > 5_000_000);
    // A callback that panics stops the load; it does not unwind through C++.
    let panicked = Model::load(&gguf, &params, &mut |_, _| panic!("told to"));
    assert_eq!(panicked.unwrap_err().kind(), ErrorKind::Aborted);
}

#[test]
fn checked_tensors_with_bad_values_do_not_load() {
    let mut bytes = std::fs::read(tiny(Tiny::F32)).unwrap();
    let gguf = Gguf::open(&tiny(Tiny::F32)).unwrap();
    let place = gguf.tensor("blk.1.ffn_up.weight").unwrap().offset as usize;
    bytes[place..place + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let file = crate::support::written(&bytes);
    let broken = Gguf::open(file.path()).unwrap();
    let params = ModelParams { gpu_layers: 0, check_tensors: true, ..ModelParams::default() };
    assert!(Model::load(&broken, &params, &mut |_, _| true).is_err());
    assert!(Model::load(&gguf, &params, &mut |_, _| true).is_ok());
}
