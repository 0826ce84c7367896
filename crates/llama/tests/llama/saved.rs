//! Sequences saved, brought back and rewound; several in one decode.

use clef_llama::{CacheType, Context, ContextParams, ErrorKind, SavedPart, SequenceId};

use crate::support::{DOC_EXAMPLE, EXACT, F32_MODEL, Q4_MODEL, USUAL, decode, distance};

const WORK: SequenceId = SequenceId(0);

#[test]
fn a_saved_sequence_goes_on_in_any_context_bit_for_bit() {
    let (prefix, suffix) = DOC_EXAMPLE.split_at(200);
    for (model, params) in [(&*F32_MODEL, EXACT), (&*F32_MODEL, USUAL), (&*Q4_MODEL, USUAL)] {
        let mut first = Context::new(model, &params).unwrap();
        decode(&mut first, 0, prefix, 512);
        let saved = first.save(WORK, SavedPart::Whole).unwrap();
        assert!(saved.is_whole() && saved.length() == 200);
        assert_eq!(saved.bytes(), first.saved_size(WORK, SavedPart::Whole).unwrap());
        // Saving leaves the sequence as it is.
        let expected = decode(&mut first, 0, suffix, 512);

        let smaller = ContextParams { cells: 512, sequences: 1, ..params.clone() };
        let mut other = Context::new(model, &smaller).unwrap();
        for _ in 0..2 {
            other.restore(WORK, &saved).unwrap();
            assert_eq!(other.sequence_length(WORK).unwrap().map(|length| length.tokens), Some(200));
            assert!(decode(&mut other, 0, suffix, 512) == expected);
        }
    }
}

#[test]
fn a_sequence_is_rewound_to_where_its_recurrent_state_was_saved() {
    for model in [&*F32_MODEL, &*Q4_MODEL] {
        let mut context = Context::new(model, &ContextParams { sequences: 1, ..USUAL }).unwrap();
        decode(&mut context, 0, &DOC_EXAMPLE[..100], 512);
        let early = context.save(WORK, SavedPart::Recurrent).unwrap();
        decode(&mut context, 0, &DOC_EXAMPLE[100..200], 512);
        let late = context.save(WORK, SavedPart::Whole).unwrap();
        let expected = decode(&mut context, 0, &DOC_EXAMPLE[200..], 512);
        assert!(!early.is_whole() && early.bytes() < late.bytes());

        for _ in 0..2 {
            // In place, from the recurrent part of a whole one and from one by itself.
            context.rewind(WORK, &late).unwrap();
            assert!(decode(&mut context, 0, &DOC_EXAMPLE[200..], 512) == expected);
            context.rewind(WORK, &early).unwrap();
            assert_eq!(context.sequence_length(WORK).unwrap().map(|length| length.tokens), Some(100));
            decode(&mut context, 0, &DOC_EXAMPLE[100..200], 512);
            assert!(decode(&mut context, 0, &DOC_EXAMPLE[200..], 512) == expected);
            // In another context, with the keys and values of the whole one.
            let mut other = Context::new(model, &ContextParams { sequences: 1, ..USUAL }).unwrap();
            other.restore(WORK, &late).unwrap();
            other.rewind(WORK, &early).unwrap();
            decode(&mut other, 0, &DOC_EXAMPLE[100..200], 512);
            assert!(decode(&mut other, 0, &DOC_EXAMPLE[200..], 512) == expected);
        }
    }
}

#[test]
fn what_cannot_be_saved_or_brought_back_is_refused_and_the_context_lives_on() {
    let mut context = Context::new(&F32_MODEL, &ContextParams { sequences: 1, ..USUAL }).unwrap();
    let kind = |result: clef_llama::Result<()>| result.unwrap_err().kind();
    assert_eq!(context.save(WORK, SavedPart::Whole).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(context.save(SequenceId(1), SavedPart::Whole).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let expected = decode(&mut context, 0, &DOC_EXAMPLE[..150], 512);
    let recurrent = context.save(WORK, SavedPart::Recurrent).unwrap();
    let whole = context.save(WORK, SavedPart::Whole).unwrap();
    assert_eq!(kind(context.restore(WORK, &recurrent)), ErrorKind::InvalidArgument);

    // Shorter than the state, of other cache types, too small.
    context.clear_sequence(WORK).unwrap();
    decode(&mut context, 0, &DOC_EXAMPLE[..100], 512);
    assert_eq!(kind(context.rewind(WORK, &whole)), ErrorKind::InvalidArgument);
    let mut first = Context::new(&F32_MODEL, &USUAL).unwrap();
    decode(&mut first, 0, &DOC_EXAMPLE[..300], 512);
    let long = first.save(WORK, SavedPart::Whole).unwrap();
    for (params, saved) in [
        (ContextParams { keys: CacheType::F32, values: CacheType::F32, ..USUAL }, &whole),
        (ContextParams { cells: 256, chunk: 256, ..USUAL }, &long),
    ] {
        let mut other = Context::new(&F32_MODEL, &ContextParams { sequences: 1, ..params }).unwrap();
        assert!(other.restore(WORK, saved).is_err());
        assert_eq!(other.sequence_length(WORK).unwrap().map(|length| length.tokens), Some(0));
        assert!(!decode(&mut other, 0, &DOC_EXAMPLE[..1], 512).is_empty());
    }
    context.clear_sequence(WORK).unwrap();
    assert!(decode(&mut context, 0, &DOC_EXAMPLE[..150], 512) == expected);
}

#[test]
fn sequences_of_any_lengths_in_one_decode_read_as_if_alone_but_for_rounding() {
    for (model, params, tolerance) in [(&*F32_MODEL, EXACT, 1e-4), (&*F32_MODEL, USUAL, 5e-3), (&*Q4_MODEL, USUAL, 0.5)]
    {
        let texts = [&DOC_EXAMPLE[..150], &DOC_EXAMPLE[100..170], &DOC_EXAMPLE[20..21]];
        let solo: Vec<f32> =
            texts.iter().flat_map(|text| decode(&mut Context::new(model, &params).unwrap(), 0, text, 512)).collect();
        let mut context = Context::new(model, &params).unwrap();
        let parts = [(SequenceId(2), texts[0]), (SequenceId(0), texts[1]), (SequenceId(1), texts[2])];
        let together = context.decode_together(&parts).unwrap().values.to_vec();
        let distance = distance(&together, &solo);
        assert!(distance < tolerance, "{distance:e}");
        for (sequence, text) in parts {
            assert_eq!(context.sequence_length(sequence).unwrap().map(|length| length.tokens), Some(text.len() as u32));
        }
        let twice = context.decode_together(&[(WORK, texts[0]), (WORK, texts[1])]);
        assert_eq!(twice.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_prefix_read_side_by_side_is_nearer_to_the_reference_than_one_read_alone() {
    // What `clef-model` reads the fixed prefix for: see its `cuts`.
    let exact = decode(&mut Context::new(&F32_MODEL, &EXACT).unwrap(), 0, &DOC_EXAMPLE[..37], 512);
    let alone = decode(&mut Context::new(&F32_MODEL, &USUAL).unwrap(), 0, &DOC_EXAMPLE[..37], 512);
    let mut context = Context::new(&F32_MODEL, &USUAL).unwrap();
    let parts = [(SequenceId(0), &DOC_EXAMPLE[..37]), (SequenceId(1), &DOC_EXAMPLE[..37])];
    let together = context.decode_together(&parts).unwrap().values.to_vec();
    let (first, second) = together.split_at(exact.len());
    assert!(distance(first, &exact) < distance(&alone, &exact));
    assert!(distance(first, second) < 1e-3);
}
