//! Where test files lie, and those that are made on first use.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clef_llama::gguf::{Gguf, HeaderWriter, TensorInfo, TensorType};
use clef_llama::{QuantType, quantize};

/// The project's root folder.
pub fn project_dir() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../..").canonicalize().expect("this crate lies two levels below the project's root")
}

/// A committed fixture.
///
/// # Panics
/// If it is missing.
pub fn fixture(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    assert!(path.exists(), "the fixture {} is missing", path.display());
    path
}

/// The small trained model that ships with the project.
///
/// # Panics
/// If it is missing.
pub fn built_in_model() -> PathBuf {
    let path = project_dir().join("models/clef-nano-Q8_0.gguf");
    assert!(path.exists(), "the built-in model {} is missing", path.display());
    path
}

/// The folder for files that tests generate, inside the target directory.
pub fn generated_dir() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| project_dir().join("target"), PathBuf::from);
    let folder = target.join("clef-fixtures");
    std::fs::create_dir_all(&folder).expect("the target directory can be written");
    folder
}

/// The types in which the random-weight model `clef-tiny` is to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(non_camel_case_types, missing_docs, reason = "the names are llama.cpp's")]
pub enum Tiny {
    F32,
    BF16,
    Q8_0,
    Q6_K,
    Q5_K_M,
    Q5_K_S,
    Q4_K_M,
    Q4_K_S,
    Q4_0,
    Q3_K_L,
    Q3_K_M,
    Q2_K,
    IQ4_XS,
    IQ3_M,
    IQ2_M,
    IQ1_M,
}

impl Tiny {
    /// The quantized types.
    pub const QUANTS: [Self; 14] = [
        Self::Q8_0,
        Self::Q6_K,
        Self::Q5_K_M,
        Self::Q5_K_S,
        Self::Q4_K_M,
        Self::Q4_K_S,
        Self::Q4_0,
        Self::Q3_K_L,
        Self::Q3_K_M,
        Self::Q2_K,
        Self::IQ4_XS,
        Self::IQ3_M,
        Self::IQ2_M,
        Self::IQ1_M,
    ];

    /// The name as in file names.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// What it is quantized to; none for files that are committed (the last two need more than weights to be made) and
    /// for the widened one.
    fn recipe(self) -> Option<QuantType> {
        Some(match self {
            Self::F32 | Self::BF16 | Self::IQ2_M | Self::IQ1_M => return None,
            Self::Q8_0 => QuantType::Q8_0,
            Self::Q6_K => QuantType::Q6_K,
            Self::Q5_K_M => QuantType::Q5_K_M,
            Self::Q5_K_S => QuantType::Q5_K_S,
            Self::Q4_K_M => QuantType::Q4_K_M,
            Self::Q4_K_S => QuantType::Q4_K_S,
            Self::Q4_0 => QuantType::Q4_0,
            Self::Q3_K_L => QuantType::Q3_K_L,
            Self::Q3_K_M => QuantType::Q3_K_M,
            Self::Q2_K => QuantType::Q2_K,
            Self::IQ4_XS => QuantType::IQ4_XS,
            Self::IQ3_M => QuantType::IQ3_M,
        })
    }
}

/// `clef-tiny` in a type, made from the committed 16-bit file on first use.
///
/// # Panics
/// If it cannot be made.
pub fn tiny(kind: Tiny) -> PathBuf {
    let source = fixture("clef-tiny/clef-tiny-bf16.gguf");
    match kind {
        Tiny::BF16 => return source,
        Tiny::IQ1_M | Tiny::IQ2_M => return fixture(&format!("clef-tiny/clef-tiny-{kind:?}.gguf")),
        _ => {}
    }
    made(&format!("clef-tiny-{kind:?}.gguf"), |draft| match kind.recipe() {
        Some(recipe) => quantize(&source, draft, recipe, 2).expect("clef-tiny can be converted"),
        None => widen(&source, draft),
    })
}

/// The projector of `clef-tiny`, in 32-bit floats.
///
/// # Panics
/// If it cannot be made.
pub fn tiny_projector() -> PathBuf {
    made("mmproj-clef-tiny-F32.gguf", |draft| widen(&fixture("clef-tiny/mmproj-clef-tiny-f16.gguf"), draft))
}

/// A file of the folder for generated files, made by `make` if it is not there yet.
fn made(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    static MAKING: Mutex<()> = Mutex::new(());
    let path = generated_dir().join(name);
    let _making = MAKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !path.exists() {
        // Other test processes may want the same file: it appears at once or not at all.
        let draft = path.with_extension(format!("{}.tmp", std::process::id()));
        make(&draft);
        std::fs::rename(&draft, &path).expect("the target directory can be written");
    }
    path
}

/// Writes all tensors of a file as 32-bit floats. (llama.cpp's converter leaves some of the head's as they are.)
fn widen(source: &Path, output: &Path) {
    let gguf = Gguf::open(source).expect("the fixture is sound");
    let mut header = HeaderWriter::default();
    for key in gguf.keys() {
        if key == "general.file_type" { header.put_u32(key, 0) } else { header.copy(&gguf, key) }
    }
    let wide =
        |tensor: &TensorInfo| TensorInfo { kind: TensorType::F32, bytes: 4 * tensor.elements(), ..tensor.clone() };
    let tensors: Vec<TensorInfo> = gguf.tensors().iter().map(wide).collect();
    let mut image = header.finish(&gguf, &tensors).header().to_vec();
    for tensor in gguf.tensors() {
        let mut values = vec![0.0; tensor.elements() as usize];
        let row = tensor.shape[0] as usize;
        let rows = gguf.data(tensor).chunks(tensor.bytes as usize / (values.len() / row));
        for (bytes, out) in rows.zip(values.chunks_mut(row)) {
            tensor.kind.dequantize_row(bytes, out).expect("every type of the fixture can be widened");
        }
        image.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        image.resize(image.len().next_multiple_of(32), 0);
    }
    std::fs::write(output, image).expect("the target directory can be written");
}
