//! What a file is, from its header alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clef_head::{Head, HeadFile, Layout};
use clef_llama::gguf::{Gguf, TensorInfo, Value};
use clef_llama::{Backbone, Hyperparameters, Projector, TowerShape};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryEstimate;
use crate::options::ModelOptions;

/// How much of a file has one element type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeShare {
    /// The type's name, such as `Q4_K`.
    pub name: String,
    /// Tensors of that type.
    pub tensors: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// The head of a file, or the one given beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadInspection {
    /// The file that it is in.
    pub path: PathBuf,
    /// The numbers that shape it.
    pub layout: Layout,
    /// Bytes of its weights.
    pub bytes: u64,
    /// The tensor whose rows stand for option tokens.
    pub lexical_table: &'static str,
}

/// The vision tower of a projector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectorInspection {
    /// The numbers that shape it.
    pub shape: TowerShape,
    /// Bytes of its weights.
    pub bytes: u64,
}

/// What a file says about itself.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// Where it lies.
    pub path: PathBuf,
    /// The files that it consists of, in order: itself, or all parts of a split model.
    pub parts: Vec<PathBuf>,
    /// The size of all of them in bytes.
    pub file_bytes: u64,
    /// `general.architecture`.
    pub architecture: String,
    /// `general.name`, if stated.
    pub name: Option<String>,
    /// `general.size_label`, if stated.
    pub size_label: Option<String>,
    /// The quantization mix that the file states, else its most common type.
    pub quantization: String,
    /// Elements of all tensors.
    pub parameters: u64,
    /// All tensors.
    pub tensors: usize,
    /// Types by bytes, largest first.
    pub types: Vec<TypeShare>,
    /// The backbone, if it is one that can be loaded.
    pub backbone: Option<Hyperparameters>,
    /// The head, if there is one: the file's own, or the one named beside it.
    pub head: Option<HeadInspection>,
    /// The vision tower: the file's own, if it is a projector, or that of the projector named beside it.
    pub projector: Option<ProjectorInspection>,
    /// `tokenizer.ggml.model` and `tokenizer.ggml.pre`.
    pub tokenizer: (String, String),
    /// Tokens in the vocabulary.
    pub vocabulary: usize,
    /// What keeps the file from deciding; empty if nothing does.
    pub missing: Vec<String>,
    /// What it would take to serve it.
    pub memory: Option<MemoryEstimate>,
    /// Bytes of the layers that can be placed on a GPU.
    pub(crate) layer_bytes: u64,
    /// Elements of all tensors that are loaded.
    pub(crate) backbone_elements: u64,
}

impl Inspection {
    /// Reads the header of a model's, a projector's or a head's file. A file that cannot decide is described, with the
    /// reasons in [`Inspection::missing`].
    ///
    /// # Errors
    /// If it is not a readable GGUF file, or the options name a projector or a head that is none.
    pub fn open(path: &Path, options: &ModelOptions) -> Result<Self> {
        Self::of(&open(path, options)?, options)
    }

    /// Whether the file is a projector.
    pub fn is_projector(&self) -> bool {
        self.architecture == PROJECTOR
    }

    /// Whether the file is a head alone.
    pub fn is_head(&self) -> bool {
        self.architecture == HEAD
    }

    pub(crate) fn of(gguf: &Gguf, options: &ModelOptions) -> Result<Self> {
        let text = |key: &str| gguf.get_str(key).map(str::to_owned);
        let mut missing = Vec::new();
        let is_projector = gguf.get_str("general.architecture") == Some(PROJECTOR);
        let projector = match &options.projector {
            _ if is_projector => Projector::new(gguf).map(|tower| Some(described(&tower))).unwrap_or_else(|error| {
                missing.push(error.to_string());
                None
            }),
            Some(path) => Some(described(&Projector::new(&Gguf::open(path)?)?)),
            None => None,
        };
        let is_head = gguf.get_str("general.architecture") == Some(HEAD);
        let backbone = if is_projector || is_head { None } else { noted(Backbone::new(gguf), &mut missing) };
        let backbone_bytes = backbone.as_ref().map_or(0, |b| b.tensors().map(|t| t.bytes).sum());
        let backbone_elements = backbone.as_ref().map_or(0, |b| b.tensors().map(TensorInfo::elements).sum());
        let of_layers = |tensor: &&TensorInfo| tensor.name.starts_with("blk.");
        let layer_bytes = backbone.as_ref().map_or(0, |b| b.tensors().filter(of_layers).map(|t| t.bytes).sum());
        let backbone = backbone.map(|backbone| backbone.hyperparameters().clone());
        let head = if is_projector { None } else { head(gguf, backbone.as_ref(), options, &mut missing)? };
        if let (Some(backbone), Some(tower)) = (&backbone, &projector)
            && backbone.width != tower.shape.embedding
        {
            missing.push(format!(
                "{}: the projector makes embeddings of width {}, the backbone takes {}: they do not belong together",
                gguf.path().display(),
                tower.shape.embedding,
                backbone.width
            ));
        }
        if let (Some(backbone), Some(head)) = (&backbone, &head)
            && gguf.tensor(head.lexical_table).is_some_and(|table| table.shape[1] != u64::from(backbone.vocabulary))
        {
            missing.push(format!(
                "{}: {} does not have a row for each of the {} tokens",
                gguf.path().display(),
                head.lexical_table,
                backbone.vocabulary
            ));
        }
        let memory = backbone.as_ref().map(|backbone| {
            let (bytes, width) = head.as_ref().map_or((0, None), |h| (h.bytes, Some(h.layout.width as u64)));
            let options = options.resolved(Some(backbone.trained_context));
            let projector = projector.as_ref().map(|projector| (&projector.shape, projector.bytes));
            MemoryEstimate::new(backbone, backbone_bytes, bytes, width, projector, &options)
        });
        Ok(Self {
            path: gguf.path().to_owned(),
            parts: gguf.part_paths().map(Path::to_owned).collect(),
            file_bytes: gguf.file_bytes(),
            architecture: text("general.architecture").unwrap_or_default(),
            name: text("general.name"),
            size_label: text("general.size_label"),
            quantization: quantization(gguf),
            parameters: gguf.tensors().iter().map(TensorInfo::elements).sum(),
            tensors: gguf.tensors().len(),
            types: types(gguf),
            backbone,
            head,
            projector,
            tokenizer: (
                text("tokenizer.ggml.model").unwrap_or_default(),
                text("tokenizer.ggml.pre").unwrap_or_default(),
            ),
            vocabulary: match gguf.get("tokenizer.ggml.tokens") {
                Some(Value::Array(tokens)) => tokens.len(),
                _ => 0,
            },
            missing,
            memory,
            layer_bytes,
            backbone_elements,
        })
    }
}

/// Opens a model's file with the values that the options put in place of its own.
pub(crate) fn open(path: &Path, options: &ModelOptions) -> Result<Gguf> {
    let mut gguf = Gguf::open(path)?;
    gguf.set(&options.overrides)?;
    Ok(gguf)
}

/// The head that the options name, which has to be there, or the file's own.
pub(crate) fn head_file<'a>(gguf: &'a Gguf, options: &ModelOptions) -> clef_head::Result<HeadFile<'a>> {
    match &options.head {
        Some(path) => HeadFile::open(path),
        None => HeadFile::of(gguf),
    }
}

fn head(
    gguf: &Gguf,
    backbone: Option<&Hyperparameters>,
    options: &ModelOptions,
    missing: &mut Vec<String>,
) -> Result<Option<HeadInspection>> {
    let file = match head_file(gguf, options) {
        Ok(file) => file,
        Err(error) if options.head.is_some() => return Err(error.into()),
        Err(error) if error.kind() == clef_head::ErrorKind::Missing => {
            let shown = gguf.path().display();
            missing.push(format!(
                "{shown} holds no decision head; give one with --head joint_head.safetensors, or make a file that holds \
                 both: clef head attach {shown} HEAD -o OUT.gguf"
            ));
            return Ok(None);
        }
        Err(error) => {
            missing.push(error.to_string());
            return Ok(None);
        }
    };
    let fits = match backbone {
        Some(backbone) => check_widths(&file, backbone, gguf).and_then(|()| Ok(Head::check(&file, gguf)?)),
        // There is no table beside a head alone, nor if nothing is known of the model.
        None => Ok(()),
    };
    if let Err(error) = fits {
        missing.push(error.to_string());
    }
    let has_output = gguf.tensor("output.weight").is_some();
    Ok(Some(HeadInspection {
        path: file.path().to_owned(),
        layout: file.layout().clone(),
        bytes: file.bytes(),
        lexical_table: if has_output { "output.weight" } else { "token_embd.weight" },
    }))
}

/// Whether a head reads what a backbone gives.
pub(crate) fn check_widths(head: &HeadFile<'_>, backbone: &Hyperparameters, model: &Gguf) -> Result<()> {
    let (reads, gives) = (head.layout().hidden_width, backbone.width);
    if reads == gives as usize {
        return Ok(());
    }
    let (head, model) = (head.path().display(), model.path().display());
    let whose = if head.to_string() == model.to_string() { "the backbone".to_owned() } else { model.to_string() };
    let what = format!(
        "{head}: the head reads hidden states of width {reads}, those of {whose} are {gives} wide: they do not belong together"
    );
    Err(Error::new(ErrorKind::InvalidFile, what))
}

/// The architecture that files of heads alone state; llama.cpp knows no such model, and says so.
pub(crate) const HEAD: &str = "clef-head";

/// The architecture that projector files state.
const PROJECTOR: &str = "clip";

fn described(projector: &Projector<'_>) -> ProjectorInspection {
    ProjectorInspection { shape: projector.shape().clone(), bytes: projector.weight_bytes() }
}

/// What was found, or nothing and the reason on the list.
fn noted<T, E: std::fmt::Display>(found: std::result::Result<T, E>, missing: &mut Vec<String>) -> Option<T> {
    found.map_err(|error| missing.push(error.to_string())).ok()
}

fn types(gguf: &Gguf) -> Vec<TypeShare> {
    let mut shares = BTreeMap::<String, (usize, u64)>::new();
    for tensor in gguf.tensors() {
        let share = shares.entry(tensor.kind.name()).or_default();
        share.0 += 1;
        share.1 += tensor.bytes;
    }
    let mut types: Vec<TypeShare> =
        shares.into_iter().map(|(name, (tensors, bytes))| TypeShare { name, tensors, bytes }).collect();
    types.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    types
}

/// llama.cpp's file types that published Clef files have, by `general.file_type`.
const FILE_TYPES: [(u64, &str); 21] = [
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (7, "Q8_0"),
    (10, "Q2_K"),
    (11, "Q3_K_S"),
    (12, "Q3_K_M"),
    (13, "Q3_K_L"),
    (14, "Q4_K_S"),
    (15, "Q4_K_M"),
    (16, "Q5_K_S"),
    (17, "Q5_K_M"),
    (18, "Q6_K"),
    (22, "IQ3_XS"),
    (25, "IQ4_NL"),
    (26, "IQ3_S"),
    (27, "IQ3_M"),
    (29, "IQ2_M"),
    (30, "IQ4_XS"),
    (31, "IQ1_M"),
    (32, "BF16"),
];

fn quantization(gguf: &Gguf) -> String {
    let stated = gguf.get("general.file_type").and_then(Value::as_u64);
    let named = stated.and_then(|id| FILE_TYPES.iter().find(|(known, _)| *known == id));
    match named {
        Some((_, name)) => (*name).to_owned(),
        None => types(gguf).first().map_or_else(|| "empty".to_owned(), |share| format!("mostly {}", share.name)),
    }
}
