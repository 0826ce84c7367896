//! The file that does not exist, read like one that does.

use clef_llama::Backbone;
use clef_llama::gguf::{Gguf, HeaderWriter, TensorInfo, Value, VirtualGguf};
use clef_testkit::{Tiny, tiny};

use crate::support::{Random, written};

/// What the image must be: header, then each tensor's data at the next multiple of 32, zeros between.
fn expected<'a>(image: &VirtualGguf, source: &Gguf, tensors: impl IntoIterator<Item = &'a TensorInfo>) -> Vec<u8> {
    let mut bytes = image.header().to_vec();
    assert_eq!(bytes.len() % 32, 0);
    for tensor in tensors {
        bytes.extend(source.data(tensor));
        bytes.resize(bytes.len().next_multiple_of(32), 0);
    }
    bytes
}

fn assert_reads_as(image: &VirtualGguf, expected: &[u8], seed: u64) {
    eprintln!("seed {seed}");
    assert_eq!(image.length(), expected.len() as u64);
    let mut random = Random::new(seed);
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..500 {
        let offset = match random.below(3) {
            // Around the header's end, where parts are small.
            0 => image.header().len() - 100 + random.below(200),
            _ => random.below(expected.len()),
        };
        let bits = 1 + random.below(20);
        let length = 1 + random.below(1 << bits);
        let buffer = &mut buffer[..length];
        buffer.fill(0xaa);
        let count = image.read_at(offset as u64, buffer).unwrap();
        assert_eq!(count, length.min(expected.len() - offset), "{length} bytes at {offset}");
        assert!(buffer[..count] == expected[offset..offset + count], "{length} bytes at {offset}");
        assert!(buffer[count..].iter().all(|&byte| byte == 0xaa), "{length} bytes at {offset}");
    }
    for offset in [image.length(), image.length() + 1, u64::MAX] {
        assert_eq!(image.read_at(offset, &mut buffer).unwrap(), 0);
    }
    assert_eq!(image.read_at(5, &mut []).unwrap(), 0);
}

#[test]
fn reads_anywhere_give_header_data_and_zeros_between() {
    let source = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    let backbone = Backbone::new(&source).unwrap();
    let image = backbone.to_virtual();
    let bytes = expected(&image, &source, backbone.tensors());
    assert_reads_as(&image, &bytes, 1);
    assert!(image.data_bytes_read() > 0);
}

#[test]
fn tensors_in_any_order_and_of_any_length_are_found() {
    let source = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    for seed in 1..=5 {
        let mut random = Random::new(seed);
        let mut tensors: Vec<&TensorInfo> = source.tensors().iter().filter(|_| random.below(3) == 0).collect();
        for index in (1..tensors.len()).rev() {
            tensors.swap(index, random.below(index + 1));
        }
        assert!(tensors.iter().any(|tensor| tensor.bytes % 32 != 0), "padding is to be read too");
        let image = HeaderWriter::default().finish(&source, tensors.iter().copied());
        assert_reads_as(&image, &expected(&image, &source, tensors), seed);
    }
}

#[test]
fn bytes_of_tensor_data_are_counted_once_each_when_read_through() {
    let source = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    let backbone = Backbone::new(&source).unwrap();
    let image = backbone.to_virtual();
    let (mut offset, mut buffer) = (0, vec![0; 12_345]);
    loop {
        match image.read_at(offset, &mut buffer).unwrap() {
            0 => break,
            count => offset += count as u64,
        }
    }
    assert_eq!(offset, image.length());
    assert_eq!(image.data_bytes_read(), backbone.tensors().map(|tensor| tensor.bytes).sum::<u64>());
}

#[test]
fn the_image_written_out_is_a_plain_qwen35_file_with_the_same_tensors() {
    let source = Gguf::open(&tiny(Tiny::Q4_K_M)).unwrap();
    let backbone = Backbone::new(&source).unwrap();
    let image = backbone.to_virtual();
    let mut bytes = vec![0; image.length() as usize];
    assert_eq!(image.read_at(0, &mut bytes).unwrap(), bytes.len());
    let copy = Gguf::open(written(&bytes).path()).unwrap();

    assert_eq!(copy.tensors().len(), backbone.tensors().count());
    for (there, here) in copy.tensors().iter().zip(backbone.tensors()) {
        assert_eq!((&there.name, there.shape, there.kind), (&here.name, here.shape, here.kind));
        assert!(copy.data(there) == source.data(here), "{}", here.name);
    }
    let left_out = |name: &str| name.starts_with("dec") || name.starts_with("token_types") || name == "output.weight";
    assert!(!copy.tensors().iter().any(|tensor| left_out(&tensor.name)));
    assert_eq!(copy.get_str("general.architecture"), Some("qwen35"));
    assert!(!copy.keys().any(|key| key.starts_with("clef.")));
    for key in ["tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type"] {
        assert_eq!(copy.get(key), source.get(key), "{key}");
    }
    // And it is one that this crate takes itself, with the same numbers.
    let again = Backbone::new(&copy).unwrap();
    assert_eq!(again.hyperparameters(), backbone.hyperparameters());
}

#[test]
fn a_header_written_out_with_data_from_anywhere_is_a_file() {
    let source = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    let names = ["dec.blk.0.ffn_up.bias", "decision.scales", "token_types.weight"];
    let tensors = names.map(|name| source.tensor(name).unwrap());
    let mut header = HeaderWriter::default();
    header.put_strings("words", &["one", "", "drei"]);
    let mut bytes = header.into_bytes(tensors);
    for tensor in tensors {
        let mut data = vec![0; tensor.bytes as usize];
        // In parts of any size.
        for (index, part) in data.chunks_mut(100).enumerate() {
            source.read_part(tensor, 100 * index as u64, part).unwrap();
        }
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(HeaderWriter::ALIGNMENT as usize), 0);
    }
    let copy = Gguf::open(written(&bytes).path()).unwrap();
    assert_eq!(copy.tensors().len(), names.len());
    for tensor in tensors {
        assert!(copy.data(copy.tensor(&tensor.name).unwrap()) == source.data(tensor), "{}", tensor.name);
    }
    let Some(Value::Array(words)) = copy.get("words") else { panic!("no words") };
    assert_eq!(words.strings("words").unwrap().collect::<Vec<_>>(), [&b"one"[..], b"", b"drei"]);

    let scales = source.tensor("decision.scales").unwrap();
    for (from, length) in [(0, 13), (12, 1), (u64::MAX, 1), (13, 0)] {
        assert!(source.read_part(scales, from, &mut vec![0; length]).is_err(), "{length} bytes at {from}");
    }
    assert!(source.read_part(scales, 12, &mut []).is_ok());
}
