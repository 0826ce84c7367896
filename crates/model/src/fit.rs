//! Whether a model fits, before anything of it is read.
//!
//! A load that runs out of memory takes minutes, and other programs with it. So what is taken in any case is held against
//! what is available, and a file that cannot fit is refused with the numbers and a way out. What may be taken, such as
//! compute buffers whose size is only bounded, does not count: a refusal is never a guess.

use std::fmt::Write as _;
use std::path::Path;

use clef_llama::DeviceKind;

use crate::available::{self, Available};
use crate::error::{Error, ErrorKind, Result};
use crate::inspect::Inspection;
use crate::memory::MemoryEstimate;
use crate::options::ModelOptions;

/// Bits per weight of the types that Clef models are published in, largest first. Mixes depend on a model's shapes: these
/// are of an 8B model, from the table of llama.cpp's `tools/quantize/README.md` (Q4_0 from its file's size).
const BITS_PER_WEIGHT: [(&str, f64); 14] = [
    ("BF16", 16.0),
    ("Q8_0", 8.50),
    ("Q6_K", 6.56),
    ("Q5_K_M", 5.70),
    ("Q5_K_S", 5.57),
    ("Q4_K_M", 4.89),
    ("Q4_K_S", 4.67),
    ("Q4_0", 4.64),
    ("Q3_K_L", 4.30),
    ("Q3_K_M", 4.00),
    ("IQ3_M", 3.76),
    ("Q2_K", 3.16),
    ("IQ2_M", 2.93),
    ("IQ1_M", 2.15),
];

/// The shortest context that is worth proposing.
const LEAST_CONTEXT: u64 = 1024;

/// What is available to a model with these options.
pub(crate) fn available(options: &ModelOptions) -> Result<Available> {
    let mut found = Available { host: available::host(), gpus: None };
    if options.gpu_layers != 0 {
        for gpu in options.placement.gpus()? {
            let (free, total) = gpu.memory();
            // Integrated ones share the host's memory, and some backends do not know.
            if gpu.kind() != DeviceKind::Gpu || total == 0 {
                return Ok(Available { gpus: None, ..found });
            }
            found.gpus = Some(found.gpus.unwrap_or(0) + free as u64);
        }
    }
    Ok(found)
}

/// Refuses what cannot fit.
///
/// # Errors
/// With all numbers, and what would fit.
pub(crate) fn check(inspection: &Inspection, options: &ModelOptions, available: &Available) -> Result<()> {
    let (Some(backbone), Some(estimate)) = (&inspection.backbone, &inspection.memory) else { return Ok(()) };
    let layers = u64::from(backbone.layers);
    let offloaded = match available.gpus {
        None => 0,
        Some(_) => u64::try_from(options.gpu_layers).map_or(layers, |count| count.min(layers)),
    };
    let need = Need {
        // Embeddings stay on the host. That they count for a GPU's layers would refuse too much.
        layers: inspection.layer_bytes,
        all: estimate,
        on_gpus: offloaded as f64 / layers.max(1) as f64,
    };
    let too_little = |place, available: Option<u64>, needed: u64, share: f64| {
        available.filter(|&available| needed > available).map(|available| Refusal { place, needed, available, share })
    };
    let on_host = too_little("", available.host, need.host(), 1.0 - need.on_gpus);
    let Some(refusal) = on_host.or_else(|| too_little(" on the GPUs", available.gpus, need.gpus(), need.on_gpus))
    else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::OutOfMemory, refusal.words(inspection, options, estimate)))
}

/// What is needed where.
struct Need<'a> {
    layers: u64,
    all: &'a MemoryEstimate,
    /// The part of the layers that is on GPUs, from 0 to 1.
    on_gpus: f64,
}

impl Need<'_> {
    /// Layers, and what goes with each of them. The head goes with the last ones, on whichever device: it is left out here.
    fn gpus(&self) -> u64 {
        let with_layers: u64 = self.layers + self.all.of(&["keys and values", "recurrent state"]);
        (with_layers as f64 * self.on_gpus) as u64
    }

    fn host(&self) -> u64 {
        let all = self.all.at_start();
        if self.on_gpus == 0.0 {
            return all;
        }
        // The head and the projector may be on a GPU.
        all.saturating_sub(self.gpus() + self.all.of(&["head weights", "projector weights"]))
    }
}

/// Why a file does not fit.
struct Refusal {
    place: &'static str,
    needed: u64,
    available: u64,
    /// The part of the layers that is there, from 0 to 1.
    share: f64,
}

impl Refusal {
    fn words(&self, inspection: &Inspection, options: &ModelOptions, estimate: &MemoryEstimate) -> String {
        let Self { place, needed, available, share } = *self;
        let weights = estimate.of(&["backbone weights", "head weights", "projector weights"]);
        let keys_and_values = estimate.of(&["keys and values"]);
        let others = estimate.at_start() - weights - keys_and_values;
        let mut text = format!(
            "{} needs {} GiB{place}, {} GiB are available",
            inspection.path.display(),
            gibibytes(needed),
            gibibytes(available)
        );
        let _ = write!(
            text,
            " (weights {}, keys and values {} for {} tokens, others {})",
            gibibytes(weights),
            gibibytes(keys_and_values),
            options.context_tokens,
            gibibytes(others)
        );
        // Only so much of what is saved is saved there; without any, the largest number says that nothing helps.
        let excess = ((needed - available) as f64 / share).ceil() as u64;
        let mut ways = Vec::new();
        if let Some((name, bytes)) = smaller(inspection, excess) {
            ways.push(format!(
                "a smaller quantization such as {name} (weights of about {} GiB) would fit",
                gibibytes(bytes)
            ));
        }
        if let Some(context) = shorter(keys_and_values, u64::from(options.context_tokens), excess) {
            ways.push(format!("-c {context} would fit"));
        }
        if !place.is_empty() {
            ways.push("-ngl places fewer layers there".to_owned());
        }
        if ways.is_empty() {
            ways.push("no published quantization would fit".to_owned());
        }
        let _ = write!(text, "; {}; --fit off loads it regardless", ways.join(", or "));
        text
    }
}

/// The largest published type below the file's own whose weights take so much less, and what they take.
fn smaller(inspection: &Inspection, excess: u64) -> Option<(&'static str, u64)> {
    let estimate = inspection.memory.as_ref()?;
    let weights = estimate.of(&["backbone weights"]);
    let most = weights.checked_sub(excess)?;
    let elements = inspection.backbone_elements as f64;
    let known = BITS_PER_WEIGHT.iter().find(|(name, _)| *name == inspection.quantization);
    let own = known.map_or(8.0 * weights as f64 / elements, |&(_, bits)| bits);
    let bytes = |bits: f64| (elements * bits / 8.0) as u64;
    let below = BITS_PER_WEIGHT.iter().filter(|(_, bits)| *bits < own);
    below.map(|&(name, bits)| (name, bytes(bits))).find(|&(_, bytes)| bytes <= most)
}

/// The longest context, halved as often as needed, whose keys and values take so much less.
fn shorter(keys_and_values: u64, context: u64, excess: u64) -> Option<u64> {
    let most = keys_and_values.checked_sub(excess)?;
    let per_token = keys_and_values / context.max(1);
    let halved = std::iter::successors(Some(context.next_power_of_two() / 2), |context| Some(context / 2));
    halved
        .take_while(|&shorter| shorter >= LEAST_CONTEXT)
        .find(|&shorter| shorter < context && (per_token + 1) * shorter.next_multiple_of(256) <= most)
}

fn gibibytes(bytes: u64) -> String {
    let gibibytes = bytes as f64 / f64::from(1 << 30);
    if gibibytes < 0.1 { format!("{gibibytes:.3}") } else { format!("{gibibytes:.1}") }
}

/// What is said when a model of this type is loaded: answers of the smallest move where no other does.
pub(crate) fn warn_of_drift(path: &Path, quantization: &str) {
    let path = path.display();
    match drift(quantization) {
        Some(Drift::Large) => tracing::warn!(
            "{path}: answers of {quantization} are known to move away from the original model's; measure with clef drift \
             before you rely on them"
        ),
        Some(Drift::Some) => {
            tracing::info!(
                "{path}: answers of {quantization} may move from the original model's; clef drift measures how far"
            );
        }
        None => {}
    }
}

/// How far answers of a type move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drift {
    Some,
    Large,
}

fn drift(quantization: &str) -> Option<Drift> {
    match quantization {
        "IQ1_M" | "IQ2_M" | "Q2_K" => Some(Drift::Large),
        "Q3_K_S" | "Q3_K_M" | "Q3_K_L" => Some(Drift::Some),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn inspection() -> Inspection {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/clef-nano-Q8_0.gguf");
        Inspection::open(&path, &ModelOptions::default()).expect("the built-in model is there")
    }

    fn needed(inspection: &Inspection) -> u64 {
        inspection.memory.as_ref().expect("it can be loaded").at_start()
    }

    fn refusal(inspection: &Inspection, options: &ModelOptions, available: &Available) -> String {
        let error = check(inspection, options, available).expect_err("it cannot fit");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        error.to_string()
    }

    #[test]
    fn what_fits_to_the_byte_is_loaded_and_a_byte_less_refused() {
        let (inspection, options) = (inspection(), ModelOptions::default());
        let needed = needed(&inspection);
        let host = |bytes| Available { host: bytes, gpus: None };
        assert!(check(&inspection, &options, &host(Some(needed))).is_ok());
        assert!(check(&inspection, &options, &host(None)).is_ok());
        let words = refusal(&inspection, &options, &host(Some(needed - 1)));
        for expected in
            ["clef-nano-Q8_0.gguf needs", "are available", "such as Q6_K (", "-c 8192", "for 16384 tokens", "--fit off"]
        {
            assert!(words.contains(expected), "{expected}: {words}");
        }
        assert!(!words.contains('\n'));
    }

    #[test]
    fn where_nothing_helps_nothing_is_proposed() {
        let words = refusal(&inspection(), &ModelOptions::default(), &Available { host: Some(0), gpus: None });
        assert!(words.contains("no published quantization would fit"), "{words}");
        assert!(!words.contains("such as") && !words.contains("-c "), "{words}");
    }

    #[test]
    fn layers_on_a_gpu_are_held_against_its_memory() {
        let (inspection, mut options) = (inspection(), ModelOptions::default());
        let some = |host, gpus| Available { host: Some(host), gpus: Some(gpus) };
        assert!(check(&inspection, &options, &some(GIB, GIB)).is_ok());
        // Not everything is on the host then.
        assert!(check(&inspection, &options, &some(needed(&inspection) - 1, GIB)).is_ok());
        let words = refusal(&inspection, &options, &some(GIB, 1 << 20));
        assert!(words.contains("GiB on the GPUs") && words.contains("-ngl"), "{words}");
        options.gpu_layers = 0;
        assert!(check(&inspection, &options, &some(GIB, 1 << 20)).is_ok());
    }

    #[test]
    fn proposals_are_of_published_types_largest_first() {
        assert!(BITS_PER_WEIGHT.windows(2).all(|pair| pair[0].1 > pair[1].1));
        let inspection = inspection();
        let of = |bits: f64| (inspection.backbone_elements as f64 * bits / 8.0) as u64;
        let weights = inspection.memory.as_ref().expect("it can be loaded").of(&["backbone weights"]);
        let proposed = |most: f64| smaller(&inspection, weights - of(most)).map(|(name, _)| name);
        assert_eq!((proposed(4.7), proposed(3.9), proposed(2.0)), (Some("Q4_K_S"), Some("IQ3_M"), None));
    }

    #[test]
    fn a_shorter_context_is_a_power_of_two() {
        assert_eq!(shorter(16_384 * 100, 16_384, 100), Some(8192));
        assert_eq!(shorter(10_000 * 100, 10_000, 100 * 6_000), Some(2048));
        assert_eq!(shorter(16_384 * 100, 16_384, 16_384 * 100), None);
        assert_eq!(shorter(512 * 100, 512, 100), None);
    }

    #[test]
    fn the_smallest_types_are_warned_of() {
        let all = |wanted| {
            ["IQ1_M", "IQ2_M", "IQ3_M", "Q2_K", "Q3_K_M", "Q4_K_M", "Q8_0", "BF16"]
                .into_iter()
                .filter(move |name| drift(name) == wanted)
        };
        assert!(all(Some(Drift::Large)).eq(["IQ1_M", "IQ2_M", "Q2_K"]));
        assert!(all(Some(Drift::Some)).eq(["Q3_K_M"]));
    }
}
