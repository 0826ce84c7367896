//! Which kernels a CPU reads fastest with: the layout of weights and the number of threads.
//!
//! Neither follows from a list of CPUs, so both are measured when a model is opened, unless they are given, follow from
//! what the machine is, or were found out before. The layout moves answers by rounding. So what was found out is
//! remembered: answers must not change between one start and the next.

mod machine;
mod remembered;

use std::path::Path;
use std::time::Duration;

use clef_llama::gguf::Gguf;
use clef_llama::kernels::{Layout, Matrices, Setting, cpu_features, repack_refusal};
use clef_llama::{DeviceKind, LLAMA_CPP_BUILD, devices};
use serde::{Deserialize, Serialize};

use crate::options::ModelOptions;
use machine::Machine;
use remembered::{Answer, Entry};

/// Whether weights are rewritten into other layouts while they are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repack {
    /// If single products are faster then.
    #[default]
    Measure,
    /// Always. Refused on CPUs with AMX.
    On,
    /// Never.
    Off,
}

/// What a model is computed with on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernels {
    /// Whether weights were rewritten into other layouts.
    pub repacked: bool,
    /// CPU threads.
    pub threads: u32,
}

/// What is to be found out; answers are remembered by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Question {
    machine: String,
    build: String,
    /// The matrices that are multiplied with.
    matrices: String,
    /// Tokens read at once.
    tokens: u32,
    /// Whether weights are repacked, if that is settled.
    repacked: Option<bool>,
    /// Numbers of threads to choose from, fewest first.
    threads: Vec<u32>,
}

/// A difference must be as large as this to outweigh what repacking costs (memory, time to load) or more threads do
/// (they are missing elsewhere).
const WORTHWHILE: f64 = 1.05;
/// For each of the two measurements.
const TIME_LIMIT: Duration = Duration::from_millis(250);
/// Larger chunks are read as fast as these.
const MOST_TOKENS: u32 = 256;

/// Chooses for a file with so many layers, and says so in the log.
pub(crate) fn choose(gguf: &Gguf, layers: u32, options: &ModelOptions) -> Kernels {
    let given = Kernels { repacked: options.repack == Repack::On, threads: options.threads() };
    let all_layers = options.gpu_layers < 0 || options.gpu_layers as u32 >= layers;
    let is_gpu = |kind| matches!(kind, DeviceKind::Gpu | DeviceKind::IntegratedGpu);
    if all_layers && devices().into_iter().any(|device| is_gpu(device.kind())) {
        return announce(given, "all layers are on a GPU");
    }
    let matrices = match Matrices::of(gguf, layers) {
        Ok(matrices) => matrices,
        Err(error) => return announce(given, &format!("not measured: {error}")),
    };
    let (repacked, reason) = match options.repack {
        Repack::On => (Some(true), "as asked"),
        Repack::Off => (Some(false), "as asked"),
        Repack::Measure => match repack_refusal() {
            Some(reason) => (Some(false), reason),
            None if !matrices.can_repack() => (Some(false), "there are no others for this file's types"),
            None => (None, ""),
        },
    };
    let machine = Machine::this();
    let question = Question {
        build: format!("{} {LLAMA_CPP_BUILD} {}", env!("CARGO_PKG_VERSION"), cpu_features()),
        matrices: matrices.describe(),
        tokens: options.chunk_tokens().clamp(1, MOST_TOKENS),
        repacked,
        threads: options.threads.map_or_else(|| machine.thread_counts(), |threads| vec![threads]),
        machine: machine.description,
    };
    find_out(question, reason, options.kernels_file.as_deref(), |question| measure(&matrices, question))
}

/// Answers a question from what is settled, from a file, or by measuring, and then adds it to the file.
fn find_out(
    question: Question,
    reason: &str,
    file: Option<&Path>,
    measure: impl FnOnce(&Question) -> clef_llama::Result<Answer>,
) -> Kernels {
    let fallback = Kernels {
        repacked: question.repacked.unwrap_or(false),
        threads: question.threads.last().copied().unwrap_or(1),
    };
    if question.repacked.is_some() && question.threads.len() <= 1 {
        return announce(fallback, reason);
    }
    if let Some(file) = file
        && let Some(answer) = remembered::recall(file, &question)
    {
        return announce(answer.kernels(), &answer.reasons(reason, &format!("from {}", file.display())));
    }
    let answer = match measure(&question) {
        Ok(answer) => answer,
        Err(error) => return announce(fallback, &format!("not measured: {error}")),
    };
    let Some(file) = file else {
        return announce(answer.kernels(), &answer.reasons(reason, "not remembered"));
    };
    match remembered::remember(file, Entry { question, answer: answer.clone() }) {
        Ok(answer) => announce(answer.kernels(), &answer.reasons(reason, &format!("remembered in {}", file.display()))),
        Err(error) => {
            tracing::debug!("{} cannot be written: {error}", file.display());
            announce(answer.kernels(), &answer.reasons(reason, "not remembered"))
        }
    }
}

fn announce(kernels: Kernels, why: &str) -> Kernels {
    let Kernels { repacked, threads } = kernels;
    let layouts = if repacked { "repacked" } else { "plain" };
    let plural = if threads == 1 { "" } else { "s" };
    tracing::info!("kernels: {layouts} layouts, {threads} thread{plural} ({why})");
    kernels
}

/// Tries layouts on one core, where other programs disturb least, and then numbers of threads with the layout chosen.
fn measure(matrices: &Matrices<'_>, question: &Question) -> clef_llama::Result<Answer> {
    let mut answer = Answer { repacked: question.repacked.unwrap_or(false), threads: 1, layouts: None, counts: None };
    if question.repacked.is_none() {
        let settings = [Layout::Plain, Layout::Repacked].map(|layout| Setting { layout, threads: 1 });
        let seconds = matrices.load(question.tokens, 1)?.seconds(&settings, TIME_LIMIT)?;
        answer.repacked = is_worthwhile(seconds[0], seconds[1]);
        answer.layouts = Some([seconds[0], seconds[1]]);
    }
    answer.threads = question.threads.first().copied().unwrap_or(1);
    if let [fewer, more] = question.threads[..] {
        let layout = if answer.repacked { Layout::Repacked } else { Layout::Plain };
        let settings = [fewer, more].map(|threads| Setting { layout, threads });
        let seconds = matrices.load(question.tokens, more)?.seconds(&settings, TIME_LIMIT)?;
        answer.threads = if is_worthwhile(seconds[0], seconds[1]) { more } else { fewer };
        answer.counts = Some([seconds[0], seconds[1]]);
    }
    Ok(answer)
}

fn is_worthwhile(seconds: f64, costlier: f64) -> bool {
    costlier * WORTHWHILE < seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question {
            machine: "a machine".to_owned(),
            build: "a build".to_owned(),
            matrices: "Q4_K 8x8 36 -".to_owned(),
            tokens: 64,
            repacked: None,
            threads: vec![2, 4],
        }
    }

    fn answer() -> Answer {
        Answer { repacked: true, threads: 2, layouts: Some([2.0, 1.0]), counts: Some([1.0, 1.0]) }
    }

    fn must_not_measure(_: &Question) -> clef_llama::Result<Answer> {
        panic!("measured again")
    }

    const FOUND: Kernels = Kernels { repacked: true, threads: 2 };

    #[test]
    fn what_was_measured_is_not_measured_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("below/that/kernels.json");
        assert_eq!(find_out(question(), "", Some(&file), |_| Ok(answer())), FOUND);
        assert_eq!(find_out(question(), "", Some(&file), must_not_measure), FOUND);
        let other = Question { matrices: "F32 8x8 256 -".to_owned(), ..question() };
        let plain = Answer { repacked: false, threads: 4, ..answer() };
        let found = find_out(other, "", Some(&file), |_| Ok(plain));
        assert_eq!(found, Kernels { repacked: false, threads: 4 });
        assert_eq!(find_out(question(), "", Some(&file), must_not_measure), FOUND);
        let left = std::fs::read_dir(file.parent().expect("a parent")).expect("a folder").count();
        assert_eq!(left, 1, "drafts are left behind");
    }

    #[test]
    fn what_is_settled_is_neither_measured_nor_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("kernels.json");
        for repacked in [false, true] {
            let settled = Question { repacked: Some(repacked), threads: vec![3], ..question() };
            let found = find_out(settled, "as asked", Some(&file), must_not_measure);
            assert_eq!(found, Kernels { repacked, threads: 3 });
        }
        assert!(!file.exists());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_no_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let in_the_way = folder.path().join("file");
        std::fs::write(&in_the_way, "").expect("written");
        // A folder in its place, a file as its folder, and no file at all.
        for file in [Some(folder.path()), Some(&in_the_way.join("kernels.json")), None] {
            assert_eq!(find_out(question(), "", file, |_| Ok(answer())), FOUND);
        }
        let failing = |_: &Question| Gguf::open(Path::new("/nonexistent")).map(|_| answer());
        assert_eq!(find_out(question(), "", None, failing), Kernels { repacked: false, threads: 4 });
    }

    #[test]
    fn what_is_open_is_measured() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/clef-nano-Q8_0.gguf");
        let gguf = Gguf::open(&path).expect("the built-in model is there");
        let matrices = Matrices::of(&gguf, 4).expect("it has matrices");
        let open = Question { threads: vec![1, 2], ..question() };
        let answer = measure(&matrices, &open).expect("they can be multiplied with");
        let seconds = answer.layouts.into_iter().chain(answer.counts).flatten();
        assert_eq!(seconds.filter(|seconds| *seconds > 0.0 && seconds.is_finite()).count(), 4);
        let settled = Question { repacked: Some(false), threads: vec![1, 2], ..question() };
        let answer = measure(&matrices, &settled).expect("they can be multiplied with");
        assert!(answer.layouts.is_none() && answer.counts.is_some() && !answer.repacked);
    }

    #[test]
    fn more_costs_only_what_pays() {
        assert!(is_worthwhile(1.0, 0.9));
        assert!(!is_worthwhile(1.0, 0.96) && !is_worthwhile(1.0, 1.0) && !is_worthwhile(0.0, 0.0));
    }

    #[test]
    fn reasons_name_what_was_compared() {
        assert_eq!(
            answer().reasons("", "remembered in F"),
            "repacked measured 2.00 x as fast as plain, all threads 1.00 x as fast as one per core; remembered in F"
        );
    }
}
